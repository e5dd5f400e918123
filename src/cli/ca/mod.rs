//! `courtesy ca`: manages the certificate authority that clients of intercepted connections trust.

mod clients;
mod export;
mod open;
mod show;

use clap::{Args, Subcommand};

use super::exit::{Exit, Failure};
use super::flags::ConfigFlags;
use super::output::print;
use crate::ca::{Authority, LEAF_LIFETIME, print_date};
use crate::runtime::clock::{Clock, SystemClock};
use open::source;

/// The arguments of `courtesy ca`.
#[derive(Args, Debug)]
pub struct CaArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Show the CA; it is made when there is none yet
    Show(show::ShowArgs),
    /// Print the certificate for clients to trust, never the key
    Export(export::ExportArgs),
    /// Make a new CA; clients should trust both until all know the new one
    Rotate(RotateArgs),
    /// Tell how to make a client trust the CA
    InstallHelp(clients::InstallHelpArgs),
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  courtesy ca rotate            make a new CA, then do what it prints
  courtesy ca rotate --finish   when every client trusts the new one")]
struct RotateArgs {
    /// End the overlap: the former CA is no longer handed out
    #[arg(long)]
    finish: bool,
    #[command(flatten)]
    config: ConfigFlags,
}

/// Runs `courtesy ca`.
pub fn run(args: CaArgs) -> Result<Exit, Failure> {
    match args.command {
        Command::Show(args) => show::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Rotate(args) if args.finish => finish(&args),
        Command::Rotate(args) => rotate(&args),
        Command::InstallHelp(args) => clients::run(&args),
    }?;
    Ok(Exit::Done)
}

fn rotate(args: &RotateArgs) -> Result<(), Failure> {
    let ca = Authority::rotate(&source(&args.config)?, SystemClock.wall())?;
    let new = format!("{} is the CA from now on, until {}.\n", name(&ca), date(&ca));
    let Some(old) = ca.previous().first() else {
        return print(new + "Clients are to trust it: courtesy ca install-help\n");
    };
    print(format!(
        "{new}\
         {old} stays trusted until {until}, when it expires, or until you end the overlap.\n\
         \n\
         1. Give both to every client:   courtesy ca export --out courtesy-ca.pem\n\
         2. Then let the proxy sign with the new one: reload it (SIGHUP, systemctl reload courtesy)\n   \
            or restart it. Until then a running proxy signs with the old one.\n\
         3. When all that is done:       courtesy ca rotate --finish\n",
        old = old.subject(),
        until = print_date(old.not_after()),
    ))
}

fn finish(args: &RotateArgs) -> Result<(), Failure> {
    let now = SystemClock.wall();
    let ca = Authority::end_overlap(&source(&args.config)?, now)?;
    let made_long_ago = now.since(ca.certificate().not_before()) > LEAF_LIFETIME;
    let warning = if made_long_ago {
        ""
    } else {
        "It is new: a proxy that has not been reloaded since still signs with the former one.\n"
    };
    print(format!("{} is the only CA that is handed out now.\n{warning}", name(&ca)))
}

fn name(ca: &Authority) -> &str {
    ca.certificate().subject()
}

fn date(ca: &Authority) -> String {
    print_date(ca.certificate().not_after())
}
