//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(about = "Load for forward proxies")]
pub struct Args {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Asks as fast as answers come, and prints one JSON object.
    Run(Run),
    /// Opens connections, one request each, and holds them until standard input closes. Prints one JSON
    /// object when they stand and one at the end.
    Idle(Idle),
    /// Answers for every name: h<N>.<anything> is 127.1.x.y, any other 127.0.0.1.
    Dns {
        #[arg(long)]
        listen: String,
    },
}

/// What is asked for, and how.
#[derive(Clone, Debug, clap::Args)]
pub struct Asking {
    /// A URL; {a..b} stands for each number from a to b. Repeatable.
    #[arg(long, required = true)]
    pub target: Vec<String>,
    /// The forward proxy: http in absolute-form, https by CONNECT. Without it, straight to the origin.
    #[arg(long)]
    pub proxy: Option<SocketAddr>,
    #[arg(long, default_value_t = 64)]
    pub connections: usize,
    /// Seconds for a connection with its handshakes, and again for each request.
    #[arg(long, default_value = "10", value_parser = seconds)]
    pub timeout: Duration,
    /// Spread connections over 127.0.0.1 to 127.0.0.N.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=250))]
    pub source_ips: u8,
    /// Any other status is an error.
    #[arg(long, default_value_t = 200)]
    pub expect_status: u16,
    /// Any other length of a body is an error.
    #[arg(long)]
    pub expect_bytes: Option<u64>,
    /// The CAs that are trusted, PEM.
    #[arg(long)]
    pub ca: Option<PathBuf>,
    /// Resume TLS sessions.
    #[arg(long)]
    pub tls_resume: bool,
}

#[derive(Debug, clap::Args)]
pub struct Run {
    #[command(flatten)]
    pub asking: Asking,
    /// Measured seconds.
    #[arg(long, default_value = "10", value_parser = seconds)]
    pub duration: Duration,
    /// Seconds before the measured ones.
    #[arg(long, default_value = "0", value_parser = seconds)]
    pub warmup: Duration,
    /// Stop after so many.
    #[arg(long)]
    pub requests: Option<u64>,
    /// Close a connection after so many.
    #[arg(long)]
    pub requests_per_connection: Option<u64>,
}

#[derive(Debug, clap::Args)]
pub struct Idle {
    #[command(flatten)]
    pub asking: Asking,
    /// How many are opened at a time.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub opening: u16,
    /// At most so many seconds.
    #[arg(long, default_value = "120", value_parser = seconds)]
    pub duration: Duration,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    if !(0.0..=600.0).contains(&seconds) {
        return Err("0 to 600 seconds".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}
