//! `courtesy env`: the variables that send clients through a proxy that is served elsewhere.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::anyhow;
use clap::{Args, ValueEnum};

use super::clients::{self, print};
use super::exit::{Exit, Failure, OrExit};
use super::flags::{ConfigFlags, ServeFlags};
use super::no_proxy::NoProxyFlags;
use super::output;
use super::users::password;
use crate::clients::check_name;
use crate::config::Settings;

/// How long `courtesy env` waits for the proxy to take a connection before it says that none listens.
const PROXY_LOOK_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  eval \"$(courtesy env)\"; scrapy crawl news
  courtesy env --shell fish | source
  courtesy env --shell dotenv > .env
  eval \"docker run $(courtesy env --shell docker) IMAGE\"
  courtesy env --shell json | jq -r '.[] | [.name, .who] | @tsv'

The address is the one that `courtesy serve` would listen on. NO_PROXY names
loopback alone, which means another machine to a proxy elsewhere; an inherited list would lead a
crawler around the proxy. Where HTTPS is intercepted, other
variables let clients trust the certificate authority that does it: the one in the state directory,
so name the directory of the proxy that is served. The files they name are in `clients` there;
bundles have the system's authorities, too.

Not every client follows variables: `courtesy doctor` tries those that are installed.")]
pub struct EnvArgs {
    /// Who reads them
    #[arg(long, value_enum, default_value_t)]
    shell: Reader,
    /// Where the proxy listens, when it is not listen.proxy, as in 127.0.0.1:3128
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Put in this user's name and password, which is asked for as `courtesy users add` does; Java
    /// takes it from no variable
    #[arg(long, value_name = "NAME", value_parser = user)]
    user: Option<String>,
    #[command(flatten)]
    no_proxy: NoProxyFlags,
    #[command(flatten)]
    config: ConfigFlags,
}

#[derive(ValueEnum, Clone, Copy, Debug, Default)]
enum Reader {
    /// bash, zsh and every other shell like sh
    #[default]
    #[value(alias = "sh", alias = "zsh")]
    Bash,
    Fish,
    /// A list of {name, value, who}, where `who` says who honours it
    Json,
    /// Lines KEY="value" for compose, systemd (EnvironmentFile=), dotenv libraries and `set -a; . FILE`
    Dotenv,
    /// Arguments of `docker run`
    Docker,
}

pub fn run(args: &EnvArgs) -> Result<Exit, Failure> {
    let serve = ServeFlags { listen: Vec::from_iter(args.listen), ..ServeFlags::default() };
    let settings = args.config.load(Some(&serve))?.settings;
    let listener = settings.listen.proxy.iter().find(|address| address.port() != 0);
    let proxy = *listener
        .ok_or_else(|| anyhow!("the port is chosen when the proxy starts: name it with --listen"))
        .or_exit(Exit::Usage)?;
    if let Some(note) = silence(clients::reachable(proxy)) {
        eprintln!("{note}");
    }
    let mut way = clients::way(proxy, args.no_proxy.list(), &settings)?;
    way.credentials = credentials(args, &settings)?;
    output::print(match args.shell {
        Reader::Bash => print::posix(&way),
        Reader::Fish => print::fish(&way),
        Reader::Json => print::json(&way),
        Reader::Dotenv => print::dotenv(&way),
        Reader::Docker => print::docker(&way),
    })?;
    Ok(Exit::Done)
}

/// What to say where nothing listens at the proxy's address. Standard output is for `eval`.
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
    let password = password::ask(&format!("Password of {name}: "))?;
    Ok(Some(format!("{name}:{}", password.in_url())))
}

fn user(text: &str) -> Result<String, String> {
    check_name(text).map(|()| text.to_owned())
}
