//! `courtesy audit query`.

use clap::Args;

use crate::cli::exit::{Exit, Failure, OrExit};

#[derive(Args, Debug)]
pub struct QueryArgs {}

pub fn run(_: &QueryArgs) -> Result<Exit, Failure> {
    Err(anyhow::anyhow!("not built yet")).or_exit(Exit::Unavailable)
}
