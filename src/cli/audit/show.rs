//! `courtesy audit show`.

use clap::Args;

use crate::cli::exit::{Exit, Failure, OrExit};

#[derive(Args, Debug)]
pub struct ShowArgs {}

pub fn run(_: &ShowArgs) -> Result<Exit, Failure> {
    Err(anyhow::anyhow!("not built yet")).or_exit(Exit::Unavailable)
}
