//! `courtesy audit head`.

use clap::Args;

use crate::cli::exit::{Exit, Failure, OrExit};

#[derive(Args, Debug)]
pub struct HeadArgs {}

pub fn run(_: &HeadArgs) -> Result<Exit, Failure> {
    Err(anyhow::anyhow!("not built yet")).or_exit(Exit::Unavailable)
}
