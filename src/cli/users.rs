//! `courtesy users`: manages the names and passwords of users. It works on the file alone; a
//! running proxy reloads that within seconds.

use std::io::{self, BufRead, IsTerminal, Stdin, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::anyhow;
use clap::{Args, Subcommand};
use http::StatusCode;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use super::exit::{Exit, Failure, OrExit};
use super::flags::StateFlags;
use super::output;
use crate::clients::password::PASSWORD_BYTES_MAX;
use crate::clients::{Change, Hash, Password, User, Users, check_name};
use crate::config::Mode;
use crate::types::agent::Token;
use crate::types::timestamp::{parse_delay, print_delay};

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
    /// Read the settings from FILE [default: $COURTESY_CONFIG, else courtesy/config.toml in
    /// $XDG_CONFIG_HOME or ~/.config, else /etc/courtesy/config.toml]
    #[arg(long, value_name = "FILE", global = true, conflicts_with = "file")]
    config: Option<PathBuf>,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Add a user, or change the password and what else is given of one
    Add(AddArgs),
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
        Command::Add(add) => run_add(add, &file),
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

/// The arguments of `courtesy users add`.
#[derive(Args, Debug)]
pub struct AddArgs {
    /// What the user is called: in the client's settings, in records and in the log
    #[arg(value_name = "NAME", value_parser = name)]
    name: String,
    /// The product token of requests that have no User-Agent
    #[arg(long, value_name = "TOKEN")]
    agent: Option<Token>,
    /// Whether what is disallowed is refused, whatever else is set: enforce or observe
    #[arg(long, value_name = "MODE")]
    mode: Option<Mode>,
    /// The status of a refusal, 400 to 599
    #[arg(long, value_name = "STATUS", value_parser = status)]
    deny_status: Option<StatusCode>,
    /// The longest that a request waits for its turn, if that is less than pace.max_wait: 10s, 0s
    #[arg(long, value_name = "TIME", value_parser = parse_delay)]
    max_wait: Option<Duration>,
    /// The status of a request that would wait longer, 400 to 599
    #[arg(long, value_name = "STATUS", value_parser = status)]
    pace_status: Option<StatusCode>,
    /// Connections at one time, instead of clients.max_per_client
    #[arg(long, value_name = "N", value_parser = count)]
    max_connections: Option<usize>,
    /// Requests under way at one time, instead of clients.max_requests_per_client
    #[arg(long, value_name = "N", value_parser = count)]
    max_requests: Option<usize>,
}

/// Runs `courtesy users add`.
pub fn run_add(args: &AddArgs, file: &Path) -> Result<Exit, Failure> {
    let password = Hash::of(&new_password(&args.name)?);
    let mut change = Change::begin(file)?;
    let before = change.users.get(&args.name).map(|user| User::clone(user));
    let what = if before.is_some() { "changed" } else { "added" };
    change.users.put(user(args, password, before));
    change.save()?;
    output::print(format!("{what} {} in {}\n", args.name, file.display()))?;
    Ok(Exit::Done)
}

/// Options that are not given keep their value.
fn user(args: &AddArgs, password: Hash, before: Option<User>) -> User {
    let before = before.as_ref();
    User {
        name: args.name.as_str().into(),
        password,
        agent: args.agent.clone().or_else(|| before?.agent.clone()),
        mode: args.mode.or_else(|| before?.mode),
        deny_status: args.deny_status.or_else(|| before?.deny_status),
        max_wait: args.max_wait.or_else(|| before?.max_wait),
        pace_status: args.pace_status.or_else(|| before?.pace_status),
        max_connections: args.max_connections.or_else(|| before?.max_connections),
        max_requests: args.max_requests.or_else(|| before?.max_requests),
    }
}

fn name(text: &str) -> Result<String, String> {
    check_name(text).map(|()| text.to_owned())
}

fn status(text: &str) -> Result<StatusCode, String> {
    let status =
        text.parse().ok().filter(|status: &StatusCode| (400..600).contains(&status.as_u16()));
    status.ok_or_else(|| "a refusal has a status from 400 to 599".into())
}

fn count(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|count| *count > 0)
        .ok_or_else(|| "write a whole number of at least 1".into())
}

// Reads a password on the terminal without echo, or as one line of standard input. Never an
// argument, which every process on the machine could see.

/// A new one: on a terminal it is asked for twice.
pub fn new_password(name: &str) -> Result<Password, Failure> {
    let password = ask_password(&format!("Password of {name}: "))?;
    if io::stdin().is_terminal() && ask_password("Once more: ")? != password {
        return Err(anyhow!("the two are not the same: nothing is changed")).or_exit(Exit::Usage);
    }
    Ok(password)
}

/// An existing one.
pub fn ask_password(prompt: &str) -> Result<Password, Failure> {
    let stdin = io::stdin();
    let line = if stdin.is_terminal() { unseen(&stdin, prompt)? } else { read_line(stdin.lock())? };
    Password::new(&line).map_err(|problem| anyhow!("{problem}")).or_exit(Exit::Usage)
}

fn unseen(terminal: &Stdin, prompt: &str) -> io::Result<String> {
    eprint!("{prompt}");
    io::stderr().flush()?;
    let _unseen = Unseen::begin(terminal)?;
    read_line(terminal.lock())
}

/// The first line, without its end; truncated beyond the length of any password.
fn read_line(input: impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    input.take(PASSWORD_BYTES_MAX as u64 + 2).read_line(&mut line)?;
    let line = line.strip_suffix('\n').unwrap_or(&line);
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}

/// Disables echo until it is dropped; line ends are still echoed.
struct Unseen<'a> {
    terminal: &'a Stdin,
    before: Termios,
}

impl<'a> Unseen<'a> {
    fn begin(terminal: &'a Stdin) -> io::Result<Self> {
        let before = tcgetattr(terminal)?;
        let mut unseen = before.clone();
        unseen.local_modes.remove(LocalModes::ECHO);
        unseen.local_modes.insert(LocalModes::ECHONL);
        tcsetattr(terminal, OptionalActions::Flush, &unseen)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Unseen<'_> {
    fn drop(&mut self) {
        // If the terminal is gone, there is nothing to restore.
        let _ = tcsetattr(self.terminal, OptionalActions::Flush, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_the_first_line_without_its_end() {
        for (input, expected) in
            [("a b\n", "a b"), ("a\r\nb\n", "a"), ("a", "a"), ("", ""), ("\nx", "")]
        {
            assert_eq!(read_line(input.as_bytes()).unwrap(), expected, "{input:?}");
        }
        let long = read_line("a".repeat(10_000).as_bytes()).unwrap();
        assert!(Password::new(&long).is_err());
    }
}
