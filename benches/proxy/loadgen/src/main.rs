//! Drives an origin, straight or through a forward proxy, and tells what came of it as JSON: a closed
//! loop over so many connections (`run`), connections that are held and do nothing (`idle`), and the
//! resolver that gives the bench its origins (`dns`).
//!
//! One thread: a generator that costs little leaves the machine to what is measured.

#![forbid(unsafe_code)]

mod args;
mod connection;
mod driver;
mod idle;
mod names;
mod response;
mod tally;
mod target;

use std::process::ExitCode;

use clap::Parser as _;

use args::{Args, Verb};

fn main() -> ExitCode {
    let outcome = match Args::parse().verb {
        Verb::Run(run) => driver::run(run),
        Verb::Idle(idle) => idle::hold(idle),
        Verb::Dns { listen } => names::serve(&listen),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("loadgen: {error}");
            ExitCode::from(2)
        }
    }
}
