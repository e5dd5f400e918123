//! `courtesy ca install-help`: instructions to make clients trust the CA.

use std::path::PathBuf;

use clap::Args;

use super::open::open;
use crate::ca::{CLIENTS, Client};
use crate::cli::exit::{Exit, Failure};
use crate::cli::flags::ConfigFlags;
use crate::cli::output::{print, quoted};

/// The arguments of `courtesy ca install-help`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  courtesy ca install-help curl
  courtesy ca export --out /srv/ca.pem && courtesy ca install-help --file /srv/ca.pem")]
pub struct InstallHelpArgs {
    /// The client, such as curl or java [default: all of them]
    client: Option<String>,
    /// The exported certificate [default: the file of the CA itself, which only its owner can read]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigFlags,
}

const NOTE: &str = "\
Most of these variables replace the roots of the system. A client that also goes around the proxy
(NO_PROXY, tunnelled hosts) needs both in one file:
  cat /etc/ssl/certs/ca-certificates.crt {file} > courtesy-bundle.pem
";

/// Runs `courtesy ca install-help`.
pub fn run(args: &InstallHelpArgs) -> Result<(), Failure> {
    let clients = match &args.client {
        None => CLIENTS.iter().collect(),
        Some(name) => vec![Client::named(name).ok_or_else(|| unknown(name))?],
    };
    let ca = open(&args.config)?;
    let file = std::path::absolute(args.file.as_deref().unwrap_or(ca.file()))?;
    let sections: String = clients.iter().map(|client| format!("{client}\n")).collect();
    print((sections + NOTE).replace("{file}", &quoted(&file.display().to_string())))
}

fn unknown(name: &str) -> Failure {
    let known: Vec<_> = CLIENTS.iter().map(|client| client.names[0]).collect();
    let error =
        anyhow::anyhow!("there is no help for \"{name}\"; there is for {}", known.join(", "));
    Failure { exit: Exit::Usage, error }
}
