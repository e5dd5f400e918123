//! `courtesy users add`.

use std::path::Path;
use std::time::Duration;

use clap::Args;
use http::StatusCode;

use super::super::exit::{Exit, Failure};
use super::super::output;
use super::password;
use crate::clients::{Change, Hash, User, check_name};
use crate::config::Mode;
use crate::types::agent::Token;
use crate::types::timestamp::parse_delay;

/// The arguments of `courtesy users add`.
#[derive(Args, Debug)]
pub struct AddArgs {
    /// What the user is called: in the client's settings, in records and in the log
    #[arg(value_name = "NAME", value_parser = name)]
    name: String,
    /// The product token of requests that have no User-Agent
    #[arg(long, value_name = "TOKEN")]
    agent: Option<Token>,
    /// Whether what is disallowed is refused, whatever else is set: enforce or observe
    #[arg(long, value_name = "MODE")]
    mode: Option<Mode>,
    /// The status of a refusal, 400 to 599
    #[arg(long, value_name = "STATUS", value_parser = status)]
    deny_status: Option<StatusCode>,
    /// The longest that a request waits for its turn, if that is less than pace.max_wait: 10s, 0s
    #[arg(long, value_name = "TIME", value_parser = parse_delay)]
    max_wait: Option<Duration>,
    /// The status of a request that would wait longer, 400 to 599
    #[arg(long, value_name = "STATUS", value_parser = status)]
    pace_status: Option<StatusCode>,
    /// Connections at one time, instead of clients.max_per_client
    #[arg(long, value_name = "N", value_parser = count)]
    max_connections: Option<usize>,
    /// Requests under way at one time, instead of clients.max_requests_per_client
    #[arg(long, value_name = "N", value_parser = count)]
    max_requests: Option<usize>,
}

/// Runs `courtesy users add`.
pub fn run(args: &AddArgs, file: &Path) -> Result<Exit, Failure> {
    let password = Hash::of(&password::new(&args.name)?);
    let mut change = Change::begin(file)?;
    let before = change.users.get(&args.name).map(|user| User::clone(user));
    let what = if before.is_some() { "changed" } else { "added" };
    change.users.put(user(args, password, before));
    change.save()?;
    output::print(format!("{what} {} in {}\n", args.name, file.display()))?;
    Ok(Exit::Done)
}

/// Options that are not given keep their value.
fn user(args: &AddArgs, password: Hash, before: Option<User>) -> User {
    let before = before.as_ref();
    User {
        name: args.name.as_str().into(),
        password,
        agent: args.agent.clone().or_else(|| before?.agent.clone()),
        mode: args.mode.or_else(|| before?.mode),
        deny_status: args.deny_status.or_else(|| before?.deny_status),
        max_wait: args.max_wait.or_else(|| before?.max_wait),
        pace_status: args.pace_status.or_else(|| before?.pace_status),
        max_connections: args.max_connections.or_else(|| before?.max_connections),
        max_requests: args.max_requests.or_else(|| before?.max_requests),
    }
}

fn name(text: &str) -> Result<String, String> {
    check_name(text).map(|()| text.to_owned())
}

fn status(text: &str) -> Result<StatusCode, String> {
    let status =
        text.parse().ok().filter(|status: &StatusCode| (400..600).contains(&status.as_u16()));
    status.ok_or_else(|| "a refusal has a status from 400 to 599".into())
}

fn count(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|count| *count > 0)
        .ok_or_else(|| "write a whole number of at least 1".into())
}
