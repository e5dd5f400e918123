//! `courtesy health`: what the admin listener of the running proxy says of it, for checks that have
//! nothing but this binary to ask with. It does not load the settings: a configuration file that has
//! become wrong does not end a proxy that serves by the former one.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use serde::Deserialize;

use super::clients::reachable;
use super::exit::{Exit, Failure, OrExit};
use super::flags::StateFlags;
use super::output::print;
use crate::admin::{OPERATOR_TOKEN, RunFile, control, read_token};
use crate::config::{AdminAddress, Location, parse_admin};

/// The arguments of `courtesy health`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  courtesy health && echo ready
  courtesy health --live
  HEALTHCHECK CMD [\"/usr/bin/courtesy\", \"health\"]

Asks at --admin, else at the address that the running proxy has written to serve.json in its state
directory, else at listen.admin. The settings need not be right for that: while the configuration
file is wrong, the proxy serves by the former settings, and is \"degraded\", which ends with 0. The
token of admin.token_file is sent where there is one; without it only the status is shown, not the
reasons. --live needs no token. Ends with 0 when the proxy is ready, also when it says what is not
as it should be; with 1 when it is not ready, and prints why; with 69 when nothing answers; with 78
when the proxy has no admin listener (listen.admin is \"off\").")]
pub struct HealthArgs {
    /// Ask only whether the process lives
    #[arg(long)]
    live: bool,
    /// Ask at ADDR, whatever the running proxy and the settings say
    #[arg(long, value_name = "ADDR", value_parser = parse_admin)]
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

/// An admin listener to ask.
#[derive(Debug)]
struct Target {
    admin: AdminAddress,
    token_file: Option<PathBuf>,
    /// What names it, for messages.
    from: String,
    /// The proxy that has written this no longer runs.
    is_stale: bool,
}

/// Runs `courtesy health`.
pub fn run(args: &HealthArgs) -> Result<Exit, Failure> {
    let found = args.config.locate();
    let targets = targets(args.admin, &found);
    let mut failed = Vec::new();
    for target in &targets {
        let AdminAddress::At(address) = target.admin else {
            let problem = format!(
                "there is no admin listener to ask: listen.admin is \"off\" ({})",
                target.from
            );
            return Err(anyhow!(problem)).or_exit(Exit::Configuration);
        };
        match target.ask(address, args.live) {
            Ok(answer) => return report(address, args.live, &answer),
            Err(problem) => failed.push(problem),
        }
        // Another address is asked only where the first cannot be that of a proxy any more.
        if !target.is_stale {
            break;
        }
    }
    failed
        .extend(found.problem.map(|problem| format!("not all settings could be read: {problem}")));
    let remedy = "start it with `courtesy serve`, or say where it is with --state-dir or --admin";
    Err(anyhow!("{}; {remedy}", failed.join("; "))).or_exit(Exit::Unavailable)
}

/// What to ask, in this order.
fn targets(flag: Option<SocketAddr>, found: &Location) -> Vec<Target> {
    let running =
        found.state_dirs.iter().find_map(|dir| Some((dir, RunFile::read(dir).ok().flatten()?)));
    let token_file = match &running {
        Some((_, running)) => running.token_file.clone(),
        None => found.token_file.clone(),
    };
    if let Some(address) = flag {
        let admin = AdminAddress::At(address);
        return vec![Target { admin, token_file, from: "--admin".into(), is_stale: false }];
    }
    let written = running.map(|(dir, running)| Target {
        admin: running.admin.map_or(AdminAddress::Off, AdminAddress::At),
        token_file,
        from: format!(
            "{}, written by process {}",
            control::run_file_path(dir).display(),
            running.pid
        ),
        is_stale: !running.is_running(),
    });
    let set = Target {
        admin: found.admin,
        token_file: found.token_file.clone(),
        from: "listen.admin".into(),
        is_stale: false,
    };
    match written {
        Some(written) if written.admin == set.admin => vec![written],
        // Without a listener, what runs now is not found in what does not run any more.
        Some(written) if written.is_stale && written.admin == AdminAddress::Off => vec![set],
        Some(written) => vec![written, set],
        None => vec![set],
    }
}

impl Target {
    fn ask(&self, address: SocketAddr, live: bool) -> Result<Answer, String> {
        let reached = reachable(address);
        let (path, fields) =
            if live { ("/healthz", String::new()) } else { ("/readyz", self.fields()) };
        let gone = if self.is_stale { ", which no longer runs" } else { "" };
        http_get(reached, &format!("http://{reached}{path}"), &fields)
            .map_err(|error| {
                format!("nothing answers at {reached} ({}{gone}): {error}", self.from)
            })?
            .ok_or_else(|| format!("what answers at {reached} ({}) does not speak HTTP", self.from))
    }

    /// The token, where there is one. Without it the answer has the status, too, which is all that is needed.
    fn fields(&self) -> String {
        match self.token_file.as_deref().map(|file| read_token(file, OPERATOR_TOKEN)).transpose() {
            Ok(token) => {
                token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default()
            }
            Err(error) => {
                eprintln!("note: asking without the token, so no reasons are shown: {error}");
                String::new()
            }
        }
    }
}

fn report(address: SocketAddr, live: bool, answer: &Answer) -> Result<Exit, Failure> {
    if live {
        print(&answer.body)?;
    } else {
        let readiness: Readiness = serde_json::from_str(&answer.body)
            .map_err(|_| {
                anyhow!("what answers at {address} is no courtesy: {}", answer.status_line())
            })
            .or_exit(Exit::Unavailable)?;
        print(readiness.lines())?;
    }
    Ok(if answer.status == 200 { Exit::Done } else { Exit::No })
}

impl Readiness {
    fn lines(&self) -> String {
        let reasons =
            self.reasons.iter().map(|reason| format!("  {}: {}\n", reason.part, reason.problem));
        format!("{}\n{}", self.status.replace('_', " "), reasons.collect::<String>())
    }
}

// A minimal HTTP client for loopback, which shows whatever answers there as it is.

/// For connecting, and for each read: everything that is asked is on this machine.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes of an answer that are read; what is looked for stands in its head.
const ANSWER_BYTES_MAX: u64 = 16 * 1024;

/// A response: its head, and its body as far as it was read.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// Status line and fields.
    pub head: String,
    /// As far as it came.
    pub body: String,
}

impl Answer {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.strip_prefix("HTTP/")?.split(' ').nth(1)?.parse().ok()?;
        Some(Self { status, head: head.to_owned(), body: body.to_owned() })
    }

    /// Whether a courtesy made it.
    pub fn is_ours(&self) -> bool {
        let mut lines = self.head.lines().map(str::to_ascii_lowercase);
        lines.any(|line| line.starts_with("proxy-status: courtesy"))
    }

    /// The first line of its head.
    pub fn status_line(&self) -> &str {
        self.head.lines().next().unwrap_or_default()
    }
}

/// Asks the server at `address` for a URL, with these fields, each a line. `None`: what answers
/// does not speak HTTP.
pub fn http_get(address: SocketAddr, url: &str, fields: &str) -> io::Result<Option<Answer>> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let host = url.split('/').nth(2).unwrap_or_default();
    // In one piece: who does not like its beginning may not wait for its end.
    let request =
        format!("GET {url} HTTP/1.1\r\nHost: {host}\r\n{fields}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut bytes = Vec::new();
    // What came before an error, or the timeout, may be enough.
    let _ = stream.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes);
    Ok(Answer::parse(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_ours_is_known_by_its_proxy_status() {
        let ours =
            Answer::parse(b"HTTP/1.1 403 Forbidden\r\nProxy-Status: courtesy; error=x\r\n\r\n")
                .unwrap();
        assert!(ours.is_ours());
        assert_eq!(ours.status, 403);
        let other = Answer::parse(
            b"HTTP/1.0 400 Bad Request\r\nServer: squid\r\n\r\nproxy-status: courtesy",
        );
        assert!(!other.unwrap().is_ours());
        assert!(Answer::parse(b"SSH-2.0-OpenSSH_9.2\r\n").is_none());
    }
}
