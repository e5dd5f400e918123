//! The proxy of the demo, on a free port, with a clock that can be moved and a state directory of its
//! own; and the names of the demo's sites.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::report::Report;
use crate::audit::StartMode;
use crate::audit::read::{Log, Scan, ScanItem};
use crate::cli::exit::{Exit, Failure, OrExit};
use crate::cli::temporary_dir::{Purpose, TemporaryDir};
use crate::config::{Roots, Settings};
use crate::runtime::clock::{Clock, ManualClock, SystemClock, monotonic};
use crate::runtime::lock::Lock;
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
        let answer = get(self.proxy, &origin.url(path), user_agent)?;
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

// A scripted origin on loopback: some paths have a scripted response, any other is a page. It counts
// the requests for each path, to show which never reached it. Its threads end with the process.

/// The response of an origin to a path.
#[derive(Clone, Debug)]
pub struct Reply {
    status: &'static str,
    fields: String,
    body: Vec<u8>,
}

impl Reply {
    /// A response with this status line and body, and no headers.
    pub fn new(status: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self { status, fields: String::new(), body: body.into() }
    }

    /// A robots.txt.
    pub fn rules(body: impl Into<Vec<u8>>) -> Self {
        Self::new("200 OK", body).with("Content-Type", "text/plain")
    }

    /// A 503.
    pub fn unavailable() -> Self {
        Self::new("503 Service Unavailable", "come back later\n")
    }

    /// The same with one more header.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.fields += &format!("{name}: {value}\r\n");
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let Self { status, fields, body } = self;
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\n{fields}Content-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        [head.as_bytes(), body].concat()
    }
}

/// A scripted site on a port of loopback.
pub struct Origin {
    pub name: &'static str,
    pub address: SocketAddr,
    script: Arc<Lock<Script>>,
}

#[derive(Default)]
struct Script {
    replies: HashMap<String, Reply>,
    asked: HashMap<String, u32>,
    /// When its pages were requested.
    arrivals: Vec<Instant>,
}

impl Origin {
    /// Begins to listen, with `robots` as its robots.txt.
    pub fn start(name: &'static str, robots: Reply) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let origin = Self { name, address: listener.local_addr()?, script: Arc::default() };
        origin.answers("/robots.txt", robots);
        let script = Arc::clone(&origin.script);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let script = Arc::clone(&script);
                std::thread::spawn(move || serve(stream, &script));
            }
        });
        Ok(origin)
    }

    /// From now on.
    pub fn answers(&self, path: &str, reply: Reply) {
        self.script.lock().replies.insert(path.to_owned(), reply);
    }

    /// The URL of `path` at this site.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// When its pages were requested, in order.
    pub fn arrivals(&self) -> Vec<Instant> {
        self.script.lock().arrivals.clone()
    }

    /// How often it has been asked for `path`.
    pub fn asked(&self, path: &str) -> u32 {
        self.script.lock().asked.get(path).copied().unwrap_or(0)
    }
}

fn serve(mut stream: TcpStream, script: &Lock<Script>) -> io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let request_line = lines.next().transpose()?.unwrap_or_default();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let path = request_line.split(' ').nth(1).unwrap_or_default();
    let now = monotonic();
    let reply = {
        let mut script = script.lock();
        if path != "/robots.txt" {
            script.arrivals.push(now);
        }
        *script.asked.entry(path.to_owned()).or_default() += 1;
        let page = || Reply::new("200 OK", "a page\n");
        script.replies.get(path).cloned().unwrap_or_else(page)
    };
    stream.write_all(&reply.bytes())
}

// A minimal crawler: one GET through a proxy, read to its end. Like most crawlers it ignores
// robots.txt.

/// No response of the demo takes longer, even on a slow machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A response, as a crawler reads it.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    head: String,
    body: Vec<u8>,
}

/// Asks `proxy` for `url` as `user_agent`.
pub fn get(proxy: SocketAddr, url: &str, user_agent: &str) -> io::Result<Answer> {
    let mut stream = TcpStream::connect(proxy)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let authority = url.split('/').nth(2).unwrap_or_default();
    write!(
        stream,
        "GET {url} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: {user_agent}\r\nConnection: close\r\n\r\n"
    )?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    Answer::read(bytes).ok_or_else(|| io::Error::other("the proxy's answer is no HTTP"))
}

impl Answer {
    fn read(mut bytes: Vec<u8>) -> Option<Self> {
        let end = memchr::memmem::find(&bytes, b"\r\n\r\n")?;
        let body = bytes.split_off(end + 4);
        let head = String::from_utf8(bytes).ok()?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some(Self { status, head, body })
    }

    /// The value of the first header of this name.
    pub fn field(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        fields.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }

    /// The explanation of a refusal (RFC 9457), empty where there is none.
    pub fn problem(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}
