//! What `courtesy run` says while its command runs, and sums up at its end: counts by host, the time
//! in which something waited, the first of each thing that is said at once, and the list of what was
//! not retrieved. A proxy that serves has none of it.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hash, RandomState};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use tracing::warn;

use super::run_tally::{HostTally, MissingCounts, Progress, RuleKey, RunReport, Waits};
use crate::audit::{Event, Record, print_time};
use crate::pace::hold::Cause;
use crate::pace::{HoldBegun, NoTurn, PaceListener, WaitReason, Waited, Waiting};
use crate::proxy::ORIGINS_COUNTED_MAX;
use crate::proxy::rejection::Rejection;
use crate::runtime::clock::{self, Clock, SystemClock};
use crate::runtime::lock::Lock;
use crate::types::origin::Origin;

/// Origins that are counted one by one.
const ORIGINS_TALLIED_MAX: usize = 10_000;

/// Sites, rules and programs of which the first is said; a number of eight bytes is kept of each.
const TOLD_MAX: usize = 4096;

/// A hold is said anew only if it ends so much later than the one that was said.
const HOLD_NEWS_MIN: Duration = Duration::from_secs(1);

/// What a run says while its command runs.
#[derive(Clone, Debug, PartialEq)]
pub enum RunEvent {
    /// The first slow-down of a host: why, and the delay.
    SlowDown { host: String, why: Waited },
    /// A host is left alone for a while.
    Hold { host: String, hold: HoldBegun },
    /// The first denial by a rule, or for another reason, at an origin.
    Denied(Box<DenialEvent>),
    /// The first connection of a program that went around the proxy.
    Bypass { program: String, process: u32, address: SocketAddr },
    /// A decision and how its request ended (`--verbose`).
    Decision(Box<DecisionEvent>),
    /// Nothing more will be said.
    Ended,
}

/// The first denial by a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DenialEvent {
    /// `denied` or `would_deny`.
    pub event: Event,
    /// Without its query, which may hold secrets.
    pub url: String,
    pub agent: Option<String>,
    pub rule: RuleKey,
    /// The id of its record.
    pub record: String,
}

/// One decision, as the access log has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DecisionEvent {
    pub method: String,
    /// Host, port and path.
    pub url: String,
    /// The status that the client got.
    pub status: u64,
    /// As in `robots.decision`.
    pub outcome: String,
    pub reason: String,
    /// That of the rule in the robots.txt, 1-based.
    pub line: Option<u64>,
    pub rule: String,
    pub record: String,
    /// The wait for its turn, in milliseconds.
    pub wait_ms: Option<f64>,
    pub by: String,
    pub error: String,
}

/// How a request ended that got neither the site's answer nor a denial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lost<'a> {
    Rejected(&'a Rejection),
    /// The client left, before its turn or after it.
    Left {
        while_waiting: bool,
    },
}

/// Observes the requests of one run.
#[derive(Debug)]
pub struct RunObserver {
    state: Lock<State>,
    missing: Lock<MissingFile>,
    /// `None`: nothing is said.
    events: Option<SyncSender<RunEvent>>,
    hasher: RandomState,
    since: Instant,
}

#[derive(Debug, Default)]
struct State {
    tallies: HashMap<Origin, HostTally>,
    /// Of origins beyond the bound.
    others: HostTally,
    /// Those origins, as far as they are counted.
    more: HashSet<Origin>,
    /// Over all hosts.
    waits: Waits,
    told: HashSet<u64>,
    done: u64,
    denied: u64,
}

impl State {
    fn tally(&mut self, origin: &Origin) -> &mut HostTally {
        if !self.tallies.contains_key(origin) {
            if self.tallies.len() >= ORIGINS_TALLIED_MAX {
                if self.more.len() < ORIGINS_COUNTED_MAX && !self.more.contains(origin) {
                    self.more.insert(origin.clone());
                }
                return &mut self.others;
            }
            self.tallies.insert(origin.clone(), HostTally::default());
        }
        self.tallies.get_mut(origin).expect("it was inserted just now")
    }

    /// Whether this has not been told, and there is room to remember that it has.
    fn is_first(&mut self, key: u64) -> bool {
        self.told.len() < TOLD_MAX && self.told.insert(key)
    }
}

impl RunObserver {
    /// Lists what is not retrieved in `missing`, and sends to `events` what is to be said, as far as
    /// there is room.
    pub fn new(missing: MissingFile, events: Option<SyncSender<RunEvent>>) -> Self {
        Self {
            state: Lock::default(),
            missing: Lock::new(missing),
            events,
            hasher: RandomState::new(),
            since: clock::monotonic(),
        }
    }

    /// Counts a request that has come, for the URL `url`.
    pub fn begin(self: &Arc<Self>, origin: &Origin, url: String) -> ObservedRequest {
        self.state.lock().tally(origin).requests += 1;
        ObservedRequest { observer: Arc::clone(self), origin: origin.clone(), url }
    }

    /// Notes a record of a request that is allowed despite it.
    pub fn note_waived(&self, record: &Record, origin: &Origin) {
        {
            let mut state = self.state.lock();
            let tally = state.tally(origin);
            match (&record.event, &record.exemption) {
                (Event::Exempted, Some(exemption)) => {
                    tally.exempted.add((exemption.by.clone(), exemption.until));
                }
                (Event::WouldDeny, _) => tally.would_deny.add(RuleKey::of(record)),
                _ => tally.tunnelled += 1,
            }
        }
        if record.event == Event::WouldDeny {
            self.tell_denial(record);
        }
    }

    /// Tells of something, unless too much waits to be told: then the summary says it.
    fn tell(&self, event: RunEvent) {
        if let Some(events) = &self.events {
            let _ = events.try_send(event);
        }
    }

    fn is_first(&self, key: impl Hash) -> bool {
        self.events.is_some() && {
            let key = self.hasher.hash_one(key);
            self.state.lock().is_first(key)
        }
    }

    fn tell_denial(&self, record: &Record) {
        let line = record.rule.as_ref().map(|rule| rule.line);
        // The same rule of both schemes of a host is no news.
        let host = record.origin.split_once("://").map_or(&*record.origin, |(_, host)| host);
        if self.is_first((host, record.event.word(), record.reason.word(), line)) {
            let url = record.url.split('?').next().unwrap_or_default();
            self.tell(RunEvent::Denied(Box::new(DenialEvent {
                event: record.event,
                url: url.split_once("://").map_or(url, |(_, rest)| rest).to_owned(),
                agent: record.agent.clone(),
                rule: RuleKey::of(record),
                record: record.id.clone(),
            })));
        }
    }

    fn tell_slow_down(&self, origin: &Origin, why: Waited) {
        let host = || origin.authority();
        // A hold is an event of its own.
        if why.by != WaitReason::Hold && self.is_first((host(), why.by)) {
            self.tell(RunEvent::SlowDown { host: host(), why });
        }
    }

    fn note_no_turn(&self, origin: &Origin, no_turn: &NoTurn) {
        match *no_turn {
            NoTurn::TooLong { wait, by, line, delay } => {
                let why = Waited { time: wait, by, line, delay };
                self.state.lock().tally(origin).slowed = Some(why);
                self.tell_slow_down(origin, why);
            }
            NoTurn::Held { wait, status, cause } => {
                self.hold_began(origin, HoldBegun { length: wait, status, cause });
            }
            _ => {}
        }
    }

    fn note_lost(&self, request: &ObservedRequest, lost: Lost<'_>) {
        let ObservedRequest { origin, url, .. } = request;
        let (why, retry_after) = match lost {
            Lost::Rejected(rejection) => {
                if let Some(no_turn) = &rejection.no_turn {
                    self.note_no_turn(origin, no_turn);
                }
                let mut state = self.state.lock();
                let tally = state.tally(origin);
                let why = if rejection.is_delay() {
                    tally.too_early += 1;
                    "too early".to_owned()
                } else {
                    let key = (rejection.status().as_u16(), rejection.proxy_error);
                    tally.failed.add(key);
                    format!("failed: {} {}", key.0, key.1.replace('_', " "))
                };
                (why, rejection.retry_after)
            }
            Lost::Left { while_waiting } => {
                let mut state = self.state.lock();
                let tally = state.tally(origin);
                if while_waiting {
                    tally.left_waiting += 1;
                    ("left while waiting".to_owned(), None)
                } else {
                    tally.left += 1;
                    ("left before the answer".to_owned(), None)
                }
            }
        };
        self.missing.lock().note(url, &why, retry_after);
    }

    /// The counts at this moment, of a run under way.
    pub fn progress(&self) -> Progress {
        let now = clock::monotonic();
        let state = self.state.lock();
        let waiting = state.tallies.iter().filter(|(_, tally)| tally.waits.count() > 0);
        let mut hosts = HashMap::<String, (usize, Duration)>::new();
        for (origin, tally) in waiting {
            let host = hosts.entry(origin.authority()).or_default();
            host.0 += tally.waits.count();
            host.1 = host.1.max(tally.waits.last_in(now));
        }
        let mut waiting: Vec<_> =
            hosts.into_iter().map(|(host, (count, last))| (host, count, last)).collect();
        waiting.sort_by(|(a, one, _), (b, other, _)| other.cmp(one).then_with(|| a.cmp(b)));
        Progress { done: state.done, denied: state.denied, waiting }
    }

    /// Requests that wait at `host` now.
    pub fn waiting_at(&self, host: &str) -> usize {
        let waiting = self.progress().waiting;
        waiting.into_iter().find(|(name, ..)| name == host).map_or(0, |(_, count, _)| count)
    }

    /// What there was, by host.
    pub fn report(&self) -> RunReport {
        let now = clock::monotonic();
        let state = self.state.lock();
        let mut hosts = HashMap::<String, HostTally>::new();
        for (origin, tally) in &state.tallies {
            hosts.entry(origin.authority()).or_default().absorb(tally, now);
        }
        let mut others = HostTally::default();
        others.absorb(&state.others, now);
        let mut missing = self.missing.lock();
        missing.finish();
        RunReport {
            took: now - self.since,
            waited: state.waits.time(now),
            hosts: hosts.into_iter().collect(),
            others,
            more_origins: state.more.len(),
            missing: missing.counts(),
        }
        .sorted()
    }
}

impl PaceListener for RunObserver {
    fn wait_began(&self, wait: &Waiting<'_>) {
        let (now, expected) = (clock::monotonic(), wait.expected);
        {
            let mut state = self.state.lock();
            state.waits.begin(now, Duration::ZERO);
            let tally = state.tally(wait.origin);
            tally.waits.begin(now, expected.time);
            let is_short = tally.slowed.is_some() && expected.by == WaitReason::Concurrency;
            if !is_short && expected.by != WaitReason::Hold {
                tally.slowed = Some(expected);
            }
        }
        self.tell_slow_down(wait.origin, expected);
    }

    fn wait_ended(&self, origin: &Origin) {
        let now = clock::monotonic();
        let mut state = self.state.lock();
        state.waits.end(now);
        state.tally(origin).waits.end(now);
    }

    fn hold_began(&self, origin: &Origin, hold: HoldBegun) {
        let now = clock::monotonic();
        let is_news = {
            let mut state = self.state.lock();
            let tally = state.tally(origin);
            tally.waits.delay(now, hold.length);
            let until = now + hold.length;
            let is_news = tally.held.is_none_or(|(_, said)| {
                said <= now || until > said + HOLD_NEWS_MIN.max((said - now) / 10)
            });
            if is_news {
                tally.held = Some((hold, until));
            }
            is_news
        };
        // What fails for less than a moment is no news.
        let is_noticeable = hold.cause != Cause::BackOff || hold.length >= HOLD_NEWS_MIN;
        if is_news && is_noticeable {
            self.tell(RunEvent::Hold { host: origin.authority(), hold });
        }
    }
}

/// A request that is observed.
#[derive(Debug)]
pub struct ObservedRequest {
    observer: Arc<RunObserver>,
    origin: Origin,
    url: String,
}

impl ObservedRequest {
    /// It has been answered: by its origin, or with the copy of a robots.txt.
    pub fn note_answered(&self, by_copy: bool) {
        self.observer.missing.lock().note_retrieved(&self.url);
        let mut state = self.observer.state.lock();
        state.done += 1;
        let tally = state.tally(&self.origin);
        let count = if by_copy { &mut tally.copies } else { &mut tally.forwarded };
        *count += 1;
    }

    /// It has been denied.
    pub fn note_denied(&self, record: &Record) {
        {
            let mut state = self.observer.state.lock();
            state.denied += 1;
            state.tally(&self.origin).denied.add(RuleKey::of(record));
        }
        self.observer.tell_denial(record);
    }

    /// It has been rejected. One that waits still when the run ends has no client any more: that one
    /// has closed its end without a word, or has ended with the command.
    pub fn note_rejected(&self, rejection: &Rejection) {
        let is_stopped = rejection.no_turn.as_deref() == Some(&NoTurn::Stopping);
        self.observer.note_lost(
            self,
            if is_stopped { Lost::Left { while_waiting: true } } else { Lost::Rejected(rejection) },
        );
    }

    /// Its client has left.
    pub fn note_left(&self, while_waiting: bool) {
        self.observer.note_lost(self, Lost::Left { while_waiting });
    }
}

// The list of the requests that got neither the site's answer nor a denial: a line for each, with URL,
// time, reason and Retry-After, separated by tabs.

/// Lines of the file; the others are counted.
const LINES_MAX: u64 = 100_000;

/// The file, which is made with its first line. It is written while it happens, so that a run which is
/// killed has it.
#[derive(Debug)]
pub struct MissingFile {
    /// `None`: they are only counted.
    path: Option<PathBuf>,
    /// Whether queries are left out, which may hold secrets (`audit.redact_query`).
    without_queries: bool,
    file: Option<File>,
    /// A digest of the URL of each line, of eight bytes.
    lines: Vec<u64>,
    /// Whether it was retrieved later: crawlers ask again.
    retrieved: HashMap<u64, bool>,
    hasher: RandomState,
    counts: MissingCounts,
}

impl MissingFile {
    /// A file at `path`.
    pub fn new(path: Option<PathBuf>, without_queries: bool) -> Self {
        let counts =
            MissingCounts { path: path.clone().unwrap_or_default(), ..MissingCounts::default() };
        let (lines, retrieved, hasher) = (Vec::new(), HashMap::new(), RandomState::new());
        Self { path, without_queries, file: None, lines, retrieved, hasher, counts }
    }

    /// Adds a line. A URL has no tab, no control character and nothing but its own host, path and
    /// query: the proxy takes no user from a URL.
    pub fn note(&mut self, url: &str, why: &str, retry_after: Option<Duration>) {
        let is_full = self.counts.listed >= LINES_MAX || self.counts.more > 0;
        let Some(path) = self.path.clone().filter(|_| !is_full) else {
            self.counts.more += 1;
            return;
        };
        let digest = self.hasher.hash_one(url);
        let url = match url.split_once('?') {
            Some((before, _)) if self.without_queries => format!("{before}?…"),
            _ => Record::url(url.as_bytes()),
        };
        let time = print_time(SystemClock.wall());
        let seconds = retry_after.map(|after| after.as_secs_f64().ceil().to_string());
        let line = format!("{url}\t{time}\t{why}\t{}\n", seconds.unwrap_or_default());
        if self.write(&path, &line) {
            self.lines.push(digest);
            self.retrieved.insert(digest, false);
        }
    }

    /// A URL has been retrieved: its lines go when the file ends.
    fn note_retrieved(&mut self, url: &str) {
        if self.lines.is_empty() {
            return;
        }
        if let Some(is_retrieved) = self.retrieved.get_mut(&self.hasher.hash_one(url)) {
            *is_retrieved = true;
        }
    }

    /// Whether the line could be written.
    fn write(&mut self, path: &Path, line: &str) -> bool {
        let file = match &mut self.file {
            Some(file) => Ok(file),
            none => {
                let mut options = OpenOptions::new();
                let opened = options.create(true).append(true).mode(0o600).open(path);
                opened.map(|file| none.insert(file))
            }
        };
        let written = file.and_then(|file| file.write_all(line.as_bytes()));
        match &written {
            Ok(()) => self.counts.listed += 1,
            Err(error) => {
                // Said once: from here on they are only counted.
                let file = path.display();
                warn!(%file, "what was not retrieved is not listed any more: {error}");
                self.counts.more += 1;
            }
        }
        written.is_ok()
    }

    /// Ends the file: without what was retrieved later, and with the number of those that are not in it.
    pub fn finish(&mut self) {
        if let Some(path) =
            self.path.clone().filter(|_| self.retrieved.values().any(|is_retrieved| *is_retrieved))
            && let Err(error) = self.drop_retrieved(&path)
        {
            warn!(file = %path.display(), "what was retrieved later stays in the list: {error}");
        }
        if let Some(mut file) = self.file.take()
            && self.counts.more > 0
        {
            let _ = writeln!(file, "# and {} more", self.counts.more);
        }
    }

    /// Writes the file anew beside the former, which stays until it is whole; line by line, since all of
    /// them may be large.
    fn drop_retrieved(&mut self, path: &Path) -> io::Result<()> {
        let anew = path.with_extension("new");
        let mut options = OpenOptions::new();
        let mut file = options.create_new(true).append(true).mode(0o600).open(&anew)?;
        let mut to = BufWriter::new(&mut file);
        let lines = BufReader::new(File::open(path)?).lines();
        for (line, _) in lines.zip(&self.lines).filter(|(_, digest)| !self.retrieved[*digest]) {
            writeln!(to, "{}", line?)?;
        }
        to.flush()?;
        drop(to);
        fs::rename(&anew, path)?;
        self.file = Some(file);
        // What stays is the file's from here on.
        self.lines.retain(|digest| !self.retrieved[digest]);
        self.retrieved.retain(|_, is_retrieved| !*is_retrieved);
        self.counts.listed = self.lines.len() as u64;
        if self.lines.is_empty() {
            self.file = None;
            fs::remove_file(path)?;
        }
        Ok(())
    }

    /// How many there are.
    pub fn counts(&self) -> MissingCounts {
        self.counts.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn each_request_is_a_line_of_four_fields_and_the_file_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("missing.tsv");
        let mut file = MissingFile::new(Some(path.clone()), false);
        assert!(!path.exists(), "a run that lacks nothing has no file");
        file.note(
            "http://a.example/b?c=\td\n",
            "too early",
            Some(Duration::from_millis(3_599_200)),
        );
        file.note("https://a.example/", "left while waiting", None);
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
        assert_eq!(
            [lines[0][0], lines[0][2], lines[0][3]],
            ["http://a.example/b?c=%09d%0A", "too early", "3600"]
        );
        assert_eq!(
            [lines[1][0], lines[1][2], lines[1][3]],
            ["https://a.example/", "left while waiting", ""]
        );
        assert!(lines.iter().all(|line| line[1].ends_with('Z') && line.len() == 4));
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        file.finish();
        assert_eq!((file.counts().listed, file.counts().more), (2, 0));
    }

    #[test]
    fn what_is_retrieved_later_is_not_missing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("missing.tsv");
        let mut file = MissingFile::new(Some(path.clone()), true);
        for url in ["http://a.example/?1", "http://a.example/?2", "http://a.example/3"] {
            file.note(url, "too early", None);
        }
        file.note_retrieved("http://a.example/?2");
        file.note_retrieved("http://a.example/3");
        file.note_retrieved("http://a.example/4");
        // It was wanted once more.
        file.note("http://a.example/3", "left while waiting", None);
        file.finish();
        let text = std::fs::read_to_string(&path).unwrap();
        let urls: Vec<_> = text.lines().map(|line| line.split('\t').next().unwrap()).collect();
        assert_eq!(
            urls,
            ["http://a.example/?…", "http://a.example/3", "http://a.example/3"],
            "{text}"
        );
        assert_eq!(file.counts().listed, 3);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);

        let path = dir.path().join("none.tsv");
        let mut none = MissingFile::new(Some(path.clone()), false);
        none.note("http://a.example/", "too early", None);
        none.note_retrieved("http://a.example/");
        none.finish();
        assert!(none.counts().listed == 0 && !path.exists());
    }

    #[test]
    fn beyond_the_bound_they_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("missing.tsv");
        let mut file = MissingFile::new(Some(path.clone()), true);
        file.note("http://a.example/?token=secret", "too early", None);
        file.counts.listed = LINES_MAX;
        (0..3).for_each(|_| file.note("http://a.example/", "too early", None));
        file.finish();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("http://a.example/?…\t"), "{text}");
        assert_eq!(text.lines().nth(1), Some("# and 3 more"));
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_counted() {
        for path in [Some("/proc/none/missing.tsv".into()), None] {
            let mut file = MissingFile::new(path, false);
            (0..3).for_each(|_| file.note("http://a.example/", "too early", None));
            file.finish();
            assert_eq!((file.counts().listed, file.counts().more), (0, 3));
        }
    }
}
