//! `courtesy audit report`.

use clap::Args;

use crate::cli::exit::{Exit, Failure, OrExit};

#[derive(Args, Debug)]
pub struct ReportArgs {}

pub fn run(_: &ReportArgs) -> Result<Exit, Failure> {
    Err(anyhow::anyhow!("not built yet")).or_exit(Exit::Unavailable)
}
