//! `courtesy users`: manages the names and passwords of users. It works on the file alone; a
//! running proxy reloads that within seconds.

mod add;
pub mod password;

use std::path::PathBuf;

use anyhow::anyhow;
use clap::{Args, Subcommand};

use super::exit::{Exit, Failure, OrExit};
use super::flags::StateFlags;
use super::output;
use crate::clients::{Change, User, Users};
use crate::types::timestamp::print_delay;

/// The arguments of `courtesy users`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  courtesy users add ada                       asks for the password
  courtesy users add news --agent NewsBot --max-requests 50 < password.txt
  courtesy users list --config courtesy.toml
  http_proxy=http://ada:PASSWORD@127.0.0.1:3128 wget -r http://example.com/

The file is that of clients.users_file; where it is set, the proxy asks everybody for a name and a
password. Passwords are kept as argon2id hashes. They are asked for on the terminal or read as one
line from standard input: an argument could be seen by everybody on the machine.")]
pub struct UsersArgs {
    #[command(subcommand)]
    command: Command,
    /// The file, when it is not that of clients.users_file
    #[arg(long, value_name = "FILE", global = true)]
    file: Option<PathBuf>,
    /// Read the settings from FILE [default: $COURTESY_CONFIG, else /etc/courtesy/config.toml]
    #[arg(long, value_name = "FILE", global = true, conflicts_with = "file")]
    config: Option<PathBuf>,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Add a user, or change the password and what else is given of one
    Add(add::AddArgs),
    /// Remove a user
    Remove {
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// List the users, and what is different for each
    List,
}

/// Runs `courtesy users`.
pub fn run(args: &UsersArgs) -> Result<Exit, Failure> {
    let file = file(args)?;
    match &args.command {
        Command::Add(add) => add::run(add, &file),
        Command::Remove { name } => {
            let mut change = Change::begin(&file)?;
            if !change.users.remove(name) {
                eprintln!("there is no user {name} in {}", file.display());
                return Ok(Exit::No);
            }
            change.save()?;
            output::print(format!("removed {name} from {}\n", file.display()))?;
            Ok(Exit::Done)
        }
        Command::List => {
            output::print(Users::load(&file)?.all().map(line).collect::<String>())?;
            Ok(Exit::Done)
        }
    }
}

fn file(args: &UsersArgs) -> Result<PathBuf, Failure> {
    let set = match &args.file {
        Some(file) => Some(file.clone()),
        None => {
            let flags = StateFlags { config: args.config.clone(), ..StateFlags::default() };
            flags.load()?.settings.clients.users_file
        }
    };
    set.ok_or_else(|| anyhow!("there is no file of users: set clients.users_file, or give --file"))
        .or_exit(Exit::Configuration)
}

/// The name, and the settings that differ, as in the file.
fn line(user: &User) -> String {
    let agent = user.agent.as_ref().map(|agent| format!("agent={agent}"));
    let mode = user.mode.map(|mode| format!("mode={}", mode));
    let status = user.deny_status.map(|status| format!("deny_status={}", status.as_u16()));
    let wait = user.max_wait.map(|wait| format!("max_wait={}", print_delay(&wait)));
    let pace_status = user.pace_status.map(|status| format!("pace_status={}", status.as_u16()));
    let connections = user.max_connections.map(|count| format!("max_connections={count}"));
    let requests = user.max_requests.map(|count| format!("max_requests={count}"));
    let different =
        [agent, mode, status, wait, pace_status, connections, requests].into_iter().flatten();
    let words: Vec<String> = std::iter::once(user.name.to_string()).chain(different).collect();
    words.join("  ") + "\n"
}
