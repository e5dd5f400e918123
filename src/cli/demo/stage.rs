//! The proxy of the demo, on a free port, with a clock that can be moved and a state directory of its
//! own; and the names of the demo's sites.

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::crawler::{self, Answer};
use super::origin::{Origin, Reply};
use super::report::Report;
use crate::audit::StartMode;
use crate::audit::read::{Log, Scan, ScanItem};
use crate::cli::exit::{Exit, Failure, OrExit};
use crate::cli::temporary_dir::{Purpose, TemporaryDir};
use crate::config::{Roots, Settings};
use crate::runtime::clock::{Clock, ManualClock, SystemClock};
use crate::server::{Listeners, Server, build};

/// The crawler of the demo, where it matters which.
pub const CRAWLER: &str = "ExampleBot/1.0 (+https://crawler.example/bot)";

/// What a scene plays on: the proxy, its clock, and the report.
pub struct Stage<W> {
    pub report: Report<W>,
    pub proxy: SocketAddr,
    /// Requests that were answered 403.
    pub denied: usize,
    clock: Arc<ManualClock>,
    names: Vec<(String, &'static str)>,
    audit_dir: PathBuf,
    // In this order: the proxy stops before its directory goes.
    _server: Server,
    _dir: TemporaryDir,
}

/// What a request is expected to come to.
#[derive(Clone, Copy, Debug)]
pub enum Expect {
    /// It reaches the origin, and the page comes back.
    Forwarded,
    /// It does not; the reason, and the line of the rule where it is one.
    Denied(&'static str, Option<u64>),
}

impl<W: Write> Stage<W> {
    /// Starts a proxy with default settings, except that loopback is permitted.
    pub fn set(report: Report<W>) -> Result<Self, Failure> {
        let dir = TemporaryDir::new(Purpose::Demo)?;
        let mut settings =
            Settings { state_dir: dir.path().to_owned(), workers: Some(2), ..Settings::default() };
        settings.listen.proxy = vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))];
        settings.egress.allow = vec!["127.0.0.0/8".parse().expect("a block")];
        settings.store.enabled = false;
        settings.tls.roots = Roots::Bundled;
        let clock = ManualClock::starting_at(SystemClock.wall());
        let listeners = Listeners::bind(&settings.listen.proxy).or_exit(Exit::Unavailable)?;
        let components =
            build(&settings, listeners.addresses(), settings.ca(None), Arc::clone(&clock) as _)?;
        components.lifecycle.started(StartMode::Demo);
        let server = Server::start(listeners, &components)?;
        Ok(Self {
            report,
            proxy: server.addresses()[0],
            denied: 0,
            clock,
            names: Vec::new(),
            audit_dir: settings.audit_dir(),
            _server: server,
            _dir: dir,
        })
    }

    /// A new site with this robots.txt, introduced by name.
    pub fn site(&mut self, name: &'static str, robots: Reply) -> io::Result<Origin> {
        let origin = Origin::start(name, robots)?;
        self.names.push((origin.address.to_string(), name));
        self.report.show(&[format!("{name} → {}", origin.address)])?;
        Ok(origin)
    }

    /// Moves the proxy's clock.
    pub fn later(&self, by: Duration) {
        self.clock.advance(by);
    }

    /// Has the crawler ask for a page, and reports whether the outcome is as expected.
    pub fn visit(&mut self, origin: &Origin, path: &str, expect: Expect) -> io::Result<Answer> {
        self.visit_as("ExampleBot", CRAWLER, origin, path, expect)
    }

    /// Requests `path` with this User-Agent, and reports the response; `who` names the crawler.
    pub fn visit_as(
        &mut self,
        who: &str,
        user_agent: &str,
        origin: &Origin,
        path: &str,
        expect: Expect,
    ) -> io::Result<Answer> {
        let before = origin.asked(path);
        let answer = self.get(origin, path, user_agent)?;
        let reached = origin.asked(path) > before;
        let record = answer.field("courtesy-record").and_then(|id| self.record(id));
        let holds = expect.is_met(&answer, record.as_ref(), reached);
        let mut details = Vec::new();
        if answer.status != 200 {
            details.extend(answer.problem()["detail"].as_str().map(|detail| self.named(detail)));
            details.extend(record.as_ref().map(audit_line));
        }
        if !holds {
            details.push(format!("expected: {expect:?}"));
        }
        let result = format!("{} {}", answer.status, if reached { "forwarded" } else { "denied" });
        self.report.check(
            holds,
            &format!("{who} asks {} for {path}", origin.name),
            &result,
            &details,
        )?;
        Ok(answer)
    }

    /// Sends one request through the proxy, without reporting it.
    pub fn get(&mut self, origin: &Origin, path: &str, user_agent: &str) -> io::Result<Answer> {
        let answer = crawler::get(self.proxy, &origin.url(path), user_agent)?;
        self.denied += usize::from(answer.status == 403);
        Ok(answer)
    }

    /// The record of that id, from the file on disk.
    pub fn record(&self, id: &str) -> Option<Value> {
        self.records().into_iter().find(|record| record["id"] == id)
    }

    /// Everything that the proxy has recorded, in the order of its numbers.
    pub fn records(&self) -> Vec<Value> {
        self.lines().into_iter().filter(|line| line["reason"].is_string()).collect()
    }

    /// All lines of the log: notices, too.
    pub fn lines(&self) -> Vec<Value> {
        let mut lines = Vec::new();
        let Ok(mut scan) = Scan::new(Log::Dir(self.audit_dir.clone())) else { return lines };
        while let Ok(Some(piece)) = scan.next() {
            let ScanItem::Lines(block) = piece else { continue };
            lines.extend(block.lines().filter_map(|line| serde_json::from_slice(line.bytes).ok()));
        }
        lines
    }

    /// Replaces the addresses of the sites by their names.
    pub fn named(&self, text: &str) -> String {
        self.names.iter().fold(text.to_owned(), |text, (address, name)| text.replace(address, name))
    }
}

impl Expect {
    /// Whether the answer and the record say so, and the origin saw what it was to see.
    fn is_met(self, answer: &Answer, record: Option<&Value>, reached: bool) -> bool {
        match self {
            Self::Forwarded => answer.status == 200 && reached,
            Self::Denied(reason, line) => {
                let same = |value: &Value| {
                    value["reason"] == reason && value["rule"]["line"].as_u64() == line
                };
                answer.status == 403
                    && !reached
                    && same(&answer.problem())
                    && record.is_some_and(same)
            }
        }
    }
}

/// The gist of a record on one line.
fn audit_line(record: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or("none").to_owned();
    let digest: String = word(&record["robots"]["sha256"]).chars().take(12).collect();
    let version = if digest == "none" { String::new() } else { format!(" · sha256 {digest}…") };
    let line =
        record["rule"]["line"].as_u64().map(|line| format!(" · line {line}")).unwrap_or_default();
    let (reason, seq) = (word(&record["reason"]), &record["seq"]);
    format!("audit record {seq}: {} · {reason}{line}{version}", word(&record["event"]))
}
