//! `courtesy env`: prints the variables that send clients through a proxy that runs elsewhere.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::anyhow;
use clap::{Args, ValueEnum};

use super::clients::{self, ClientSetup, print};
use super::environment::NoProxyFlags;
use super::exit::{Exit, Failure, OrExit};
use super::flags::{ConfigFlags, ServeFlags};
use super::{output, users};
use crate::clients::check_name;
use crate::config::Settings;
use crate::runtime::files;

/// How long `courtesy env` waits for the proxy to take a connection before it says that none listens.
const PROXY_LOOK_TIMEOUT: Duration = Duration::from_secs(1);

/// The arguments of `courtesy env`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  eval \"$(courtesy env)\"; scrapy crawl news
  eval \"$(courtesy env --unset)\"
  courtesy env --shell fish | source
  courtesy env --shell dotenv > .env
  eval \"docker run $(courtesy env --shell docker) IMAGE\"
  courtesy env --shell json | jq -r '.[] | [.name, .who] | @tsv'

The address is the one that `courtesy serve` would listen on. NO_PROXY lists only loopback, which is
a different machine for a proxy elsewhere; an inherited list would let a crawler bypass the proxy.
When HTTPS is intercepted, further variables make clients trust the proxy's certificate authority,
which is in the state directory: name that of the running proxy. The files that the variables name
are in its directory `clients`; bundles include the system's authorities.

Not every client follows variables: `courtesy doctor` tries those that are installed.")]
pub struct EnvArgs {
    /// The shell or program that reads the variables
    #[arg(long, value_enum, default_value_t)]
    shell: Reader,
    /// Print what removes the variables again, for bash or fish; values of your own that they replaced
    /// do not come back
    #[arg(long, conflicts_with_all = ["listen", "user", "no_proxy"])]
    unset: bool,
    /// The address of the proxy, if it is not listen.proxy, as in 127.0.0.1:3128
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Include the name of this user and the password, which is prompted for as by `courtesy users
    /// add`; Java reads it from no variable
    #[arg(long, value_name = "NAME", value_parser = user)]
    user: Option<String>,
    #[command(flatten)]
    no_proxy: NoProxyFlags,
    #[command(flatten)]
    config: ConfigFlags,
}

#[derive(ValueEnum, Clone, Copy, Debug, Default)]
enum Reader {
    /// bash, zsh and other POSIX shells
    #[default]
    #[value(alias = "sh", alias = "zsh")]
    Bash,
    Fish,
    /// A list of {name, value, who}, where `who` names the clients that honour it
    Json,
    /// Lines KEY="value" for compose, systemd (EnvironmentFile=), dotenv libraries and `set -a; . FILE`
    Dotenv,
    /// Arguments of `docker run`
    Docker,
}

/// Runs `courtesy env`.
pub fn run(args: &EnvArgs) -> Result<Exit, Failure> {
    if args.unset {
        output::print(match args.shell {
            Reader::Bash => print::posix_unset(),
            Reader::Fish => print::fish_unset(),
            _ => {
                return Err(anyhow!("--unset is for a shell: --shell bash or --shell fish"))
                    .or_exit(Exit::Usage);
            }
        })?;
        return Ok(Exit::Done);
    }
    let serve = ServeFlags { listen: Vec::from_iter(args.listen), ..ServeFlags::default() };
    let settings = args.config.load_anywhere(&serve.overrides())?.settings;
    let listener = settings.listen.proxy.iter().find(|address| address.port() != 0);
    let proxy = *listener
        .ok_or_else(|| anyhow!("the port is chosen when the proxy starts: name it with --listen"))
        .or_exit(Exit::Usage)?;
    if let Some(note) = silence(clients::reachable(proxy)) {
        eprintln!("{note}");
    }
    let mut setup = set_up(proxy, args, &settings)?;
    setup.credentials = credentials(args, &settings)?;
    output::print(match args.shell {
        Reader::Bash => print::posix(&setup),
        Reader::Fish => print::fish(&setup),
        Reader::Json => print::json(&setup),
        Reader::Dotenv => print::dotenv(&setup),
        Reader::Docker => print::docker(&setup),
    })?;
    Ok(Exit::Done)
}

/// Where no file can be written, the variables that need none, and a note.
fn set_up(proxy: SocketAddr, args: &EnvArgs, settings: &Settings) -> Result<ClientSetup, Failure> {
    let dir = settings.state_dir.join("clients");
    let is_homeless = settings.state_dir.as_os_str().is_empty();
    let problem = if is_homeless {
        "there is no home directory".to_owned()
    } else {
        let failure = match clients::set_up(proxy, args.no_proxy.list(), settings) {
            Ok(setup) => return Ok(setup),
            Err(failure) => failure,
        };
        match files::check_makeable(&dir) {
            // It is something else that is wrong.
            Ok(()) => return Err(failure),
            Err(error) => format!("cannot write to {}: {error}", dir.display()),
        }
    };
    eprintln!(
        "note: {problem}: the variables by which clients trust the proxy for HTTPS are left out; \
         --state-dir names another directory"
    );
    Ok(clients::without_files(proxy, args.no_proxy.list()))
}

/// A note when nothing listens at the proxy's address. Standard output is for `eval`.
fn silence(proxy: SocketAddr) -> Option<String> {
    let error = TcpStream::connect_timeout(&proxy, PROXY_LOOK_TIMEOUT).err()?;
    Some(format!(
        "note: no proxy listens at {proxy} ({error}): start it with courtesy serve, or name it with --listen"
    ))
}

fn credentials(args: &EnvArgs, settings: &Settings) -> Result<Option<String>, Failure> {
    let Some(name) = &args.user else {
        if settings.clients.users_file.is_some() {
            eprintln!(
                "note: this proxy asks for credentials (clients.users_file): --user NAME puts them in"
            );
        }
        return Ok(None);
    };
    let password = users::ask_password(&format!("Password of {name}: "))?;
    Ok(Some(password.in_url(name)))
}

fn user(text: &str) -> Result<String, String> {
    check_name(text).map(|()| text.to_owned())
}
