//! `courtesy audit replay`.

use clap::Args;

use crate::cli::exit::{Exit, Failure, OrExit};

#[derive(Args, Debug)]
pub struct ReplayArgs {}

pub fn run(_: &ReplayArgs) -> Result<Exit, Failure> {
    Err(anyhow::anyhow!("not built yet")).or_exit(Exit::Unavailable)
}
