//! A log in a directory of its own, made line by line, and the program that reads it.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};

use courtesy::audit::{
    AgentSource, Client, Content, Event, FILE_NAME, Group, Head, Notice, Profile, Reason, Record,
    Robots, RobotsStatus, Rule, segment, summary,
};
use courtesy::types::timestamp::Timestamp;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// 2026-11-20T12:00:00Z.
pub const NOON: u64 = 1_795_176_000_000;
const MINUTE: u64 = 60_000;

/// A log as the writer leaves it.
pub struct Log {
    pub dir: tempfile::TempDir,
    pub head: Head,
    /// Where the active segment begins.
    first: u64,
}

impl Log {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), head: Head::genesis(), first: 1 }
    }

    pub fn active(&self) -> PathBuf {
        self.dir.path().join(FILE_NAME)
    }

    /// Appends records to the active segment; gives their lines.
    pub fn write(&mut self, records: impl IntoIterator<Item = Record>) -> Vec<String> {
        let contents = records.into_iter().map(|record| Content::Record(Box::new(record)));
        self.append(contents)
    }

    pub fn note(&mut self, notice: Notice) {
        self.append([Content::Notice(notice)]);
    }

    fn append(&mut self, contents: impl IntoIterator<Item = Content>) -> Vec<String> {
        let mut lines = Vec::new();
        contents.into_iter().for_each(|content| _ = self.head.push(content, &mut lines));
        let mut file = OpenOptions::new().create(true).append(true).open(self.active()).unwrap();
        file.write_all(&lines).unwrap();
        String::from_utf8(lines).unwrap().lines().map(str::to_owned).collect()
    }

    /// Closes the active segment, as the writer does.
    pub fn rotate(&mut self) -> PathBuf {
        let closed = self.dir.path().join(segment::closed_name(self.first));
        std::fs::rename(self.active(), &closed).unwrap();
        self.first = self.head.seq + 1;
        closed
    }
}

/// As the keeper does, but in small members: with its summary, whole under a new name, then the plain file goes.
pub fn compress(path: &Path) {
    summary::compress(path, &path.with_added_extension("gz"), 4000, &|| false).unwrap();
    std::fs::remove_file(path).unwrap();
}

/// That of the `n`th record.
pub fn id(n: u64) -> String {
    ulid::Ulid::from_parts(NOON + n * MINUTE, n.into()).to_string()
}

/// The `n`th of a series: a minute apart from noon on, no two alike.
pub fn record(n: u64) -> Record {
    let origin = format!("https://www{}.example.com", n % 3);
    Record {
        agent: Some(["ExampleBot", "Wget"][(n % 2) as usize].into()),
        agent_source: AgentSource::UserAgent,
        client: Client::at([10, 0, 0, (n % 5) as u8], None),
        event: if n.is_multiple_of(4) { Event::WouldDeny } else { Event::Denied },
        exemption: None,
        group: Some(Group { line: 9, token: "*".into() }),
        id: id(n),
        method: "GET".into(),
        pace_seen: None,
        path_seen: true,
        prev: String::new(),
        profile: Profile { name: "rfc9309".into(), settings: BTreeMap::new(), version: 1 },
        reason: Reason::DisallowRule,
        robots: Some(robots(&origin).into()),
        rule: Some(Rule {
            directive: "disallow".into(),
            line: 12,
            pattern: "/private/".into(),
            read_as: Vec::new(),
        }),
        seq: 0,
        setting: None,
        sni: None,
        time: Timestamp::from_millis(NOON + n * MINUTE),
        trace_id: None,
        url_as_received: None,
        url: format!("{origin}/private/{n}"),
        user_agent: Some("ExampleBot/1.0 (\"x\", \u{65e5}\u{672c})".into()),
        node: None,
        origin,
    }
}

fn robots(origin: &str) -> Robots {
    let noon = Some(Timestamp::from_millis(NOON));
    Robots {
        asked_as: None,
        capture: None,
        cause: None,
        confirmed_at: noon,
        cut: false,
        failed_capture: None,
        failures: None,
        fetched_at: noon,
        next_try: noon,
        result: Some("successful".into()),
        sha256: None,
        since: noon,
        site_up: None,
        state: RobotsStatus::Rules,
        status: Some(200),
        tried: noon,
        url: format!("{origin}/robots.txt"),
        url_reached: Some(format!("{origin}/robots.txt")),
    }
}

/// `courtesy audit …` over the log in `dir`, in an environment of its own.
pub fn audit(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = courtesy(arguments);
    command.arg("--dir").arg(dir);
    command
}

pub fn courtesy(arguments: &[&str]) -> Command {
    // A shell's background ignores INT, and what it starts would, too.
    let mut command = Command::new("/usr/bin/env");
    command.args(["--default-signal", env!("CARGO_BIN_EXE_courtesy")]);
    command
        .arg("audit")
        .args(arguments)
        .env_clear()
        .env("HOME", "/home/somebody")
        .stdin(Stdio::null());
    command
}

/// Code, standard output, standard error.
pub fn ended(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

/// Standard output of what ends well without a word on standard error.
#[track_caller]
pub fn succeeds(command: &mut Command) -> String {
    let (code, stdout, stderr) = ended(command);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
    stdout
}

/// Standard error of what ends with `code` and prints nothing.
#[track_caller]
pub fn fails(command: &mut Command, code: i32) -> String {
    let (found, stdout, stderr) = ended(command);
    assert_eq!((found, stdout.as_str()), (Some(code), ""), "{stderr}");
    stderr
}

/// A query that goes on; it is killed when dropped.
pub struct Following {
    child: Child,
    lines: Option<BufReader<ChildStdout>>,
}

impl Following {
    pub fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = child.stdout.take().map(BufReader::new);
        Self { child, lines }
    }

    /// The next line, within a minute.
    pub fn next(&mut self) -> String {
        let lines = self.lines.as_mut().unwrap();
        if lines.buffer().is_empty() {
            let minute = Timespec { tv_sec: 60, tv_nsec: 0 };
            let ready =
                poll(&mut [PollFd::new(lines.get_ref(), PollFlags::IN)], Some(&minute)).unwrap();
            assert_eq!(ready, 1, "nothing was printed");
        }
        let mut line = String::new();
        if lines.read_line(&mut line).unwrap() == 0 {
            panic!("it has ended: {:?}", self.end());
        }
        line.trim_end().to_owned()
    }

    /// Waits until it waits itself.
    pub fn rests(&self) {
        let state = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
            stat.rsplit_once(") ").map(|(_, rest)| rest.chars().next())
        };
        let deadline = courtesy::runtime::clock::monotonic() + std::time::Duration::from_secs(60);
        while state() != Some(Some('S')) {
            assert!(courtesy::runtime::clock::monotonic() < deadline, "it never rests");
            std::thread::yield_now();
        }
    }

    /// Stops reading, and waits for the end.
    pub fn hang_up(mut self) -> (ExitStatus, String) {
        self.lines = None;
        self.end()
    }

    /// As Ctrl-C does.
    pub fn interrupt(mut self) -> (ExitStatus, String) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
        self.end()
    }

    fn end(&mut self) -> (ExitStatus, String) {
        let status = self.child.wait().unwrap();
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (status, said)
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
