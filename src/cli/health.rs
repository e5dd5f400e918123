//! `courtesy health`: what the admin listener of the proxy that runs by the same settings says of it,
//! for checks that have nothing but this binary to ask with.

use std::net::SocketAddr;

use anyhow::anyhow;
use clap::Args;
use serde::Deserialize;

use super::clients::reachable;
use super::exit::{Exit, Failure, OrExit};
use super::flags::StateFlags;
use super::http;
use super::output::print;
use crate::admin::read_token;
use crate::config::{AdminAddress, Change, Override, Settings};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  courtesy health && echo ready
  courtesy health --live
  HEALTHCHECK CMD [\"/usr/bin/courtesy\", \"health\"]

Asks the listener of listen.admin, with the token of admin.token_file where there is one. Ends with
0 when the proxy is ready, also when it says what is not as it should be; with 1 when it is not
ready, and prints why; with 69 when nobody answers.")]
pub struct HealthArgs {
    /// Ask only whether the process lives
    #[arg(long)]
    live: bool,
    /// Ask at ADDR instead of listen.admin
    #[arg(long, value_name = "ADDR")]
    admin: Option<SocketAddr>,
    #[command(flatten)]
    config: StateFlags,
}

/// What `/readyz` says.
#[derive(Debug, Deserialize)]
struct Readiness {
    status: String,
    #[serde(default)]
    reasons: Vec<Reason>,
}

#[derive(Debug, Deserialize)]
struct Reason {
    part: String,
    problem: String,
}

pub fn run(args: &HealthArgs) -> Result<Exit, Failure> {
    let settings = args.settings()?;
    let AdminAddress::At(address) = settings.listen.admin else {
        return Err(anyhow!("there is nobody to ask: listen.admin is \"off\"")).or_exit(Exit::Configuration);
    };
    let answer = ask(address, if args.live { "/healthz" } else { "/readyz" }, &fields(&settings)?)?;
    if args.live {
        print(&answer.body)?;
        return Ok(if answer.status == 200 { Exit::Done } else { Exit::No });
    }
    let readiness: Readiness = serde_json::from_str(&answer.body)
        .map_err(|_| anyhow!("what answers at {address} is no courtesy: {}", answer.status_line()))
        .or_exit(Exit::Unavailable)?;
    print(readiness.lines())?;
    Ok(if answer.status == 200 { Exit::Done } else { Exit::No })
}

impl HealthArgs {
    fn settings(&self) -> Result<Settings, Failure> {
        let admin = self.admin.map(|address| Override {
            key: "listen.admin",
            change: Change::Set(address.to_string()),
            flag: "--admin",
        });
        Ok(self.config.load_with(admin.as_slice())?.settings)
    }
}

/// By what we are known there.
fn fields(settings: &Settings) -> Result<String, Failure> {
    let token = settings.admin.token_file.as_deref().map(read_token).transpose()?;
    Ok(token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default())
}

fn ask(address: SocketAddr, path: &str, fields: &str) -> Result<http::Answer, Failure> {
    let address = reachable(address);
    http::get(address, &format!("http://{address}{path}"), fields)
        .map_err(|error| anyhow!("nobody answers at {address}, where listen.admin is: {error}"))
        .and_then(|answer| answer.ok_or_else(|| anyhow!("what answers at {address} does not speak HTTP")))
        .or_exit(Exit::Unavailable)
}

impl Readiness {
    fn lines(&self) -> String {
        let reasons = self.reasons.iter().map(|reason| format!("  {}: {}\n", reason.part, reason.problem));
        format!("{}\n{}", self.status.replace('_', " "), reasons.collect::<String>())
    }
}
