//! Notices of the proxy itself in the log of denials: start with its settings, changes of settings,
//! stop. The settings in effect are evidence of the log, so that they can be shown years later. A file that changes all the time does not fill the log: beyond so many an hour, changes
//! share one notice.

use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io::Read;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use tokio::runtime::Handle;
use tokio::time::timeout;
use tracing::warn;

use crate::audit::evidence::{Blob, Kind};
use crate::audit::{
    Notice, ReloadTrigger, SettingsChanged, SettingsEvent, StartMode, Started, StartedEvent,
    Stopped, StoppedEvent, Writer,
};
use crate::config::Settings;
use crate::policy::profile;
use crate::runtime::clock::{Clock, monotonic};
use crate::runtime::lock::Lock;
use crate::types::sanitize::hex;

/// Changes of settings with a notice of their own in an hour; others share one.
const SETTINGS_NOTICES_MAX: usize = 30;

/// The time in which they are counted.
const SETTINGS_NOTICES_TIME: Duration = Duration::from_secs(60 * 60);

/// The file of this program, also where another has its name by now.
const PROGRAM: &str = "/proc/self/exe";

/// Bytes of it that are read: a build without optimization has a third.
const PROGRAM_BYTES_MAX: u64 = 256 << 20;

/// How long the start waits for its digest, which takes some 10 ms beside the rest of the start.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(2);

/// Writes the notices `started`, `settings` and `stopped`.
#[derive(Debug)]
pub struct Lifecycle {
    audit: Arc<Writer>,
    clock: Arc<dyn Clock>,
    logged: Lock<Logged>,
    /// The digest of the program, once it is made.
    program: Lock<mpsc::Receiver<String>>,
}

/// The settings that the last notice names.
#[derive(Debug)]
struct Logged {
    settings: Settings,
    /// When each of the last notices was written.
    recent: VecDeque<Instant>,
    waiting: Option<Waiting>,
}

/// Changes without a notice.
#[derive(Debug)]
struct Waiting {
    settings: Settings,
    contents: BTreeSet<&'static str>,
    /// The trigger of the last of them.
    who: ReloadTrigger,
    count: u64,
}

impl Lifecycle {
    /// The notices of a proxy that starts with these settings.
    pub fn new(audit: Arc<Writer>, clock: Arc<dyn Clock>, settings: Settings) -> Self {
        let logged = Logged { settings, recent: VecDeque::new(), waiting: None };
        Self { audit, clock, logged: Lock::new(logged), program: Lock::new(begin_program_digest()) }
    }

    /// Writes `started`; called before the first request is accepted.
    pub fn started(&self, how: StartMode) {
        let settings = self.logged().settings.clone();
        let (evidence, time) = (evidence(&settings), self.clock.wall());
        let before = self.audit.settings_before();
        let digest = hex(&evidence.sha256);
        let (exemptions, exemptions_omitted) = settings.exemptions_in_force(time);
        let started = Notice::Started(Started {
            changes: before.and_then(|before| settings.changes_since(&before)),
            digest: digest.clone(),
            event: StartedEvent::It,
            exemptions,
            exemptions_omitted,
            how,
            key: None,
            log: None,
            node: None,
            prev: String::new(),
            profile_version: profile::VERSION,
            program: self.program.lock().recv_timeout(PROGRAM_TIMEOUT).ok(),
            seq: 0,
            settings: Some(digest),
            time,
            version: env!("CARGO_PKG_VERSION").into(),
        });
        self.queue(started, evidence);
    }

    /// Writes the change to `settings`; `contents` names the settings whose files have changed.
    pub fn changed(&self, who: ReloadTrigger, settings: Settings, contents: &[&'static str]) {
        let mut logged = self.logged();
        let is_other = logged.latest() != &settings || !contents.is_empty();
        if !is_other {
            return;
        }
        let former = logged.waiting.take();
        let (mut all, count) = former.map_or_else(Default::default, |it| (it.contents, it.count));
        all.extend(contents);
        logged.waiting = Some(Waiting { settings, contents: all, who, count: count + 1 });
        self.write_waiting(&mut logged, monotonic());
    }

    /// Writes the changes that share a notice, once the bound permits.
    pub fn write_omitted(&self) {
        self.write_waiting(&mut self.logged(), monotonic());
    }

    /// Writes `stopped`, the last line; called when no request is served any more.
    pub fn stopped(&self, why: &str) {
        self.audit.queue_last_notices([Notice::Stopped(Stopped {
            event: StoppedEvent::It,
            node: None,
            prev: String::new(),
            seq: 0,
            time: self.clock.wall(),
            why: why.to_owned(),
        })]);
    }

    fn write_waiting(&self, logged: &mut Logged, now: Instant) {
        logged.recent.retain(|time| now.duration_since(*time) < SETTINGS_NOTICES_TIME);
        if logged.recent.len() >= SETTINGS_NOTICES_MAX {
            return;
        }
        let Some(Waiting { settings, contents, who, count }) = logged.waiting.take() else {
            return;
        };
        logged.recent.push_back(now);
        let evidence = evidence(&settings);
        let digest = hex(&evidence.sha256);
        let changed = Notice::SettingsChanged(SettingsChanged {
            changes: logged.settings.changes(&settings),
            contents: contents.into_iter().map(str::to_owned).collect(),
            digest: digest.clone(),
            event: SettingsEvent::It,
            node: None,
            omitted: Some(count - 1).filter(|count| *count > 0),
            prev: String::new(),
            seq: 0,
            settings: Some(digest),
            time: self.clock.wall(),
            who,
        });
        self.queue(changed, evidence);
        logged.settings = settings;
    }

    fn queue(&self, notice: Notice, evidence: Blob) {
        let word = notice.word();
        if !self.audit.queue_notice_with(notice, vec![evidence]) {
            warn!("the notice {word} is missing from the denial log, which cannot be written");
        }
    }

    fn logged(&self) -> std::sync::MutexGuard<'_, Logged> {
        self.logged.lock()
    }
}

/// Settings as evidence.
fn evidence(settings: &Settings) -> Blob {
    let content = settings.canonical();
    Blob { sha256: Sha256::digest(&content).into(), kind: Kind::Settings, content: content.into() }
}

/// Makes the digest of the program, on a thread of its own. It is left out where that cannot be done.
fn begin_program_digest() -> mpsc::Receiver<String> {
    let (made, digest) = mpsc::sync_channel(1);
    let make = move || {
        let mut program = File::open(PROGRAM).ok()?.take(PROGRAM_BYTES_MAX + 1);
        let mut hash = Sha256::new();
        let (mut part, mut bytes) = (vec![0; 256 << 10], 0);
        loop {
            match program.read(&mut part).ok()? {
                0 => break,
                read => {
                    hash.update(&part[..read]);
                    bytes += read as u64;
                }
            }
        }
        if bytes <= PROGRAM_BYTES_MAX { made.send(hex(&hash.finalize())).ok() } else { None }
    };
    let _ = std::thread::Builder::new().name("program-digest".into()).spawn(make);
    digest
}

impl Logged {
    /// The settings in effect, with or without a notice.
    fn latest(&self) -> &Settings {
        self.waiting.as_ref().map_or(&self.settings, |waiting| &waiting.settings)
    }
}

// Whether the worker threads respond, for a watchdog. Each is given a task, as it would be a
// connection, so that a hanging thread is found.

/// The runtimes of the worker threads, by name.
#[derive(Clone, Debug)]
pub struct Liveness(Vec<(String, Handle)>);

impl Liveness {
    pub(super) fn of(threads: impl IntoIterator<Item = (String, Handle)>) -> Self {
        Self(threads.into_iter().collect())
    }

    /// The name of a thread that has ended, or takes longer than `limit` to run a task. `None`:
    /// all respond.
    pub async fn silent(&self, limit: Duration) -> Option<&str> {
        // All are asked before the first is waited for: they share the time.
        let asked: Vec<_> =
            self.0.iter().map(|(name, handle)| (name, handle.spawn(async {}))).collect();
        for (name, task) in asked {
            if !matches!(timeout(limit, task).await, Ok(Ok(()))) {
                return Some(name);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::mpsc;

    use tokio::runtime::Builder;

    use super::*;
    use crate::audit::read::{Log, Scan, ScanItem};
    use crate::audit::{Config, Content};
    use crate::config::Mode;
    use crate::runtime::clock::ManualClock;
    use crate::types::timestamp::Timestamp;

    fn lifecycle(dir: &Path) -> (Lifecycle, Arc<Writer>) {
        let clock: Arc<dyn Clock> =
            ManualClock::starting_at(Timestamp::from_millis(1_795_176_000_123));
        let audit =
            Arc::new(Writer::open(Config::new(dir.to_owned()), Arc::clone(&clock)).unwrap());
        (Lifecycle::new(Arc::clone(&audit), clock, Settings::default()), audit)
    }

    fn settings(mode: Mode) -> Settings {
        let mut settings = Settings::default();
        settings.robots.mode = mode;
        settings
    }

    /// The `settings` notices of the log.
    fn notices(dir: &Path) -> Vec<SettingsChanged> {
        let mut scan = Scan::new(Log::Dir(dir.to_owned())).unwrap();
        let mut found = Vec::new();
        while let Some(piece) = scan.next().unwrap() {
            let ScanItem::Lines(block) = piece else { panic!("{piece:?}") };
            for line in block.lines() {
                if let Content::Notice(Notice::SettingsChanged(it)) =
                    Content::parse(line.bytes).unwrap()
                {
                    found.push(it);
                }
            }
        }
        found
    }

    #[test]
    fn notices_of_a_file_are_bounded_and_one_more_counts_the_rest() {
        let dir = tempfile::tempdir().unwrap();
        let (lifecycle, audit) = lifecycle(dir.path());
        for number in 0..1000 {
            let mode = if number % 2 == 0 { Mode::Observe } else { Mode::Enforce };
            lifecycle.changed(ReloadTrigger::File, settings(mode), &[]);
        }
        lifecycle.changed(ReloadTrigger::Hup, settings(Mode::Observe), &["clients.users_file"]);
        let later = monotonic() + SETTINGS_NOTICES_TIME;
        lifecycle.write_waiting(&mut lifecycle.logged(), later);
        audit.close().unwrap();
        let notices = notices(dir.path());
        assert_eq!(notices.len(), SETTINGS_NOTICES_MAX + 1);
        assert!(
            notices[..SETTINGS_NOTICES_MAX]
                .iter()
                .all(|it| it.omitted.is_none() && it.changes.len() == 1)
        );
        let last = &notices[SETTINGS_NOTICES_MAX];
        assert_eq!(last.omitted, Some(1000 - SETTINGS_NOTICES_MAX as u64));
        assert_eq!(
            (last.who, &last.contents[..]),
            (ReloadTrigger::Hup, &["clients.users_file".to_owned()][..])
        );
        assert_eq!(
            (&last.changes[0].old, &last.changes[0].new),
            (&"enforce".into(), &"observe".into())
        );
        assert_eq!(last.digest, hex(&evidence(&settings(Mode::Observe)).sha256));
        assert_eq!(last.settings.as_ref(), Some(&last.digest));
    }

    #[test]
    fn settings_that_are_the_same_have_no_notice() {
        let dir = tempfile::tempdir().unwrap();
        let (lifecycle, audit) = lifecycle(dir.path());
        lifecycle.changed(ReloadTrigger::Hup, Settings::default(), &[]);
        lifecycle.write_omitted();
        audit.close().unwrap();
        assert_eq!(notices(dir.path()), []);
    }

    const SOON: Duration = Duration::from_millis(50);
    const EVER: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn a_thread_that_hangs_is_silent_and_the_others_are_not() {
        let (release, held) = mpsc::channel::<()>();
        let runtimes =
            ["hangs", "runs"].map(|name| (name, Builder::new_current_thread().build().unwrap()));
        let liveness = |names: &[&str]| {
            let named = runtimes.iter().filter(|(name, _)| names.contains(name));
            Liveness::of(
                named.map(|(name, runtime)| ((*name).to_owned(), runtime.handle().clone())),
            )
        };
        let (both, one) = (liveness(&["hangs", "runs"]), liveness(&["runs"]));
        let [hangs, runs] = runtimes.map(|(_, runtime)| runtime);
        hangs.spawn(async move { held.recv() });
        let ends = [hangs, runs].map(|runtime| {
            let (end, ended) = tokio::sync::oneshot::channel::<()>();
            (end, std::thread::spawn(move || runtime.block_on(ended)))
        });
        assert_eq!(both.silent(SOON).await, Some("hangs"));
        assert_eq!(one.silent(EVER).await, None);
        drop(release);
        assert_eq!(both.silent(EVER).await, None);
        for (end, thread) in ends {
            drop(end);
            let _ = thread.join().unwrap();
        }
        assert_eq!(both.silent(EVER).await, Some("hangs"), "it has ended");
    }
}
