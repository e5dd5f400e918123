//! `courtesy man`: the manual pages, made from the same text as `--help`.

use std::path::PathBuf;

use clap::{Args, Command};
use clap_mangen::Man;

use super::exit::{Exit, Failure, OrExit};
use super::output::print;

/// The arguments of `courtesy man`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  courtesy man | man -l -
  courtesy man --dir /usr/local/share/man/man1")]
pub struct ManArgs {
    /// Write one page for each subcommand into DIR instead
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// `command` is the whole command line.
pub fn run(args: ManArgs, command: Command) -> Result<Exit, Failure> {
    match args.dir {
        Some(dir) => {
            std::fs::create_dir_all(&dir)?;
            clap_mangen::generate_to(command, dir).or_exit(Exit::InputOutput)?;
        }
        None => {
            let mut page = Vec::new();
            Man::new(command).render(&mut page)?;
            print(page)?;
        }
    }
    Ok(Exit::Done)
}
