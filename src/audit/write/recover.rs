//! Recovery at start: finds the file to append to, and the line to go on after. The head of the
//! chain is the latest of three: of the active file, of the newest closed file, and of `head.json`.
//! So the chain goes on after a crash at any moment, and after another program has removed files.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::active_file::{ActiveFile, First};
use super::writer_handle::OpenError;
use crate::audit::Config;
use crate::audit::checkpoint::NoteSigner;
use crate::audit::evidence::{BlobName, EvidenceIndex, Kind, LineRefs, each_line};
use crate::audit::record::chain::{Head, head_of, split};
use crate::audit::record::event::TornEvent;
use crate::audit::record::meta_record::Torn;
use crate::audit::record::redact::Redactor;
use crate::audit::segment::{
    self, FILE_NAME, FoundLine, Lines, Segment, private, read_head, read_log_id,
};
use crate::runtime::clock::monotonic;
use crate::runtime::{crypto_provider, files};
use crate::types::timestamp::Timestamp;
use crate::types::{LogId, sanitize};

/// The file in which an incomplete last line is kept.
pub const TORN_NAME: &str = "denials.torn";
/// Records from before there was a chain: no file of the log.
pub const OLDER_NAME: &str = "older.jsonl";

/// Segments that are searched for the last settings: a year of days.
const SETTINGS_SEGMENTS_MAX: usize = 400;

/// The file that is being written, opened.
#[derive(Debug)]
pub struct Active {
    pub file: ActiveFile,
    /// Its first line; none in an empty file.
    pub first: Option<First>,
    /// Its last line.
    pub last: Option<Head>,
    /// The evidence that its lines name.
    pub in_use: HashSet<BlobName>,
    /// The identity of the log, as its lines name it last.
    pub log: Option<LogId>,
    /// The settings in effect, as its lines name them last: their SHA-256.
    pub settings: Option<[u8; 32]>,
    /// What was at its end and has been set aside.
    pub torn: Option<Torn>,
}

/// Looks at what a writer by these settings would open or make; nothing is made or changed. Whether another
/// process has the directory is not asked.
///
/// # Errors
///
/// What would keep the writer from starting, if that can be known before.
pub fn check(config: &Config) -> Result<(), OpenError> {
    let dir = &config.dir;
    let failed = |source| OpenError::Io { path: dir.clone(), source };
    files::check_makeable(dir).map_err(failed)?;
    for name in [FILE_NAME, NAME] {
        files::check_writable(&dir.join(name)).map_err(failed)?;
    }
    check_older(dir).map_err(failed)?;
    if let Some(path) = &config.key {
        // That none can be made is no fault: there are no checkpoints then.
        let failed = |source| OpenError::Key { path: path.clone(), source };
        NoteSigner::read(path).map_err(failed)?;
    }
    Redactor::check(config).map_err(failed)
}

/// Opens or makes the file in `dir`, and reads it through.
pub fn open_active(dir: &Path, now: Timestamp) -> io::Result<Active> {
    set_older_aside(dir)?;
    let (file, tail) = ActiveFile::open(&dir.join(FILE_NAME), &dir.join(TORN_NAME))?;
    let torn = (!tail.torn.is_empty()).then(|| Torn {
        event: TornEvent::It,
        node: None,
        bytes: tail.torn.len() as u64,
        prev: String::new(),
        seq: 0,
        sha256: sanitize::sha256_hex(&tail.torn),
        time: now,
    });
    if let Some(torn) = &torn {
        tracing::warn!(
            bytes = torn.bytes,
            last_seq = tail.head.as_ref().map(|head| head.seq),
            "the end of the denial log was torn, as after a crash; set aside in {}",
            dir.join(TORN_NAME).display()
        );
    }
    let mut active = Active {
        file,
        first: None,
        last: tail.head,
        in_use: HashSet::new(),
        log: None,
        settings: None,
        torn,
    };
    active.read_through()?;
    Ok(active)
}

/// Records from before there was a chain have no hash that a line could go on after. Their file is
/// given another name, whole.
fn set_older_aside(dir: &Path) -> io::Result<()> {
    let (path, aside) = (dir.join(FILE_NAME), dir.join(OLDER_NAME));
    if !check_older(dir)? {
        return Ok(());
    }
    std::fs::rename(&path, &aside)?;
    tracing::warn!(
        "the records in {} have no hashes, as before there was a chain; they are all in {} now, which \
         courtesy audit does not read, and the log begins anew",
        path.display(),
        aside.display()
    );
    Ok(())
}

/// Whether there is such a file; an error where the name that it would be given is taken.
fn check_older(dir: &Path) -> io::Result<bool> {
    let (path, aside) = (dir.join(FILE_NAME), dir.join(OLDER_NAME));
    let is_older = is_older(&path)?;
    if is_older && aside.try_exists()? {
        let problem = format!(
            "the records in {} have no hashes, as before there was a chain, and {} is there already; move \
             one of them away",
            path.display(),
            aside.display()
        );
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, problem));
    }
    Ok(is_older)
}

/// Whether the first line is a record without a hash.
fn is_older(path: &Path) -> io::Result<bool> {
    let mut lines = match Lines::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        opened => opened?,
    };
    let FoundLine::Line(line) = lines.next()? else { return Ok(false) };
    let members: Option<serde_json::Map<_, _>> = serde_json::from_slice(line).ok();
    Ok(members.is_some_and(|members| members.contains_key("id") && !members.contains_key("hash")))
}

/// The line after which the log in `dir` goes on.
pub fn find_head(dir: &Path, active: &Active) -> io::Result<Head> {
    let newest = newest_closed(dir, active.file.path())?;
    // As a rule the file that is written is the latest, and nothing need be decompressed.
    let is_latest =
        |first: First| newest.as_ref().is_none_or(|newest| newest.first_seq < first.seq);
    let mut head = match (&active.last, active.first) {
        (Some(last), Some(first)) if is_latest(first) => last.clone(),
        (last, _) => {
            let closed = newest.and_then(|newest| last_of(&newest.path));
            closed.into_iter().chain(last.clone()).max_by_key(|head| head.seq).unwrap_or_default()
        }
    };
    match read_head(dir) {
        Ok(Some((marked, _))) if marked.seq > head.seq => {
            tracing::warn!(
                "lines {} to {} of the denial log are not in {} any more; the chain goes on after them",
                head.seq + 1,
                marked.seq,
                dir.display()
            );
            head = marked;
        }
        Ok(Some((marked, _))) if marked.seq == head.seq && marked.hash != head.hash => {
            tracing::error!(
                "line {} of the denial log in {} is not the one that was written; courtesy audit verify tells more",
                head.seq,
                dir.display()
            )
        }
        Ok(_) => {}
        Err(error) => tracing::warn!(
            "{} cannot be used and is ignored: {error}; the chain goes on from the files beside it",
            dir.join(crate::audit::segment::HEAD_NAME).display()
        ),
    }
    Ok(head)
}

/// The identity of the log in `dir`: noted beside it, or named by a line. A log that has none, which is new or of an
/// earlier version, is given one.
pub fn find_log(dir: &Path, active: &Active) -> io::Result<LogId> {
    // A file that cannot be used has been said already.
    if let Some(log) = read_log_id(dir).ok().flatten().or(active.log) {
        return Ok(log);
    }
    for segment in segment::list(dir)?.into_iter().rev() {
        let mut named = None;
        let read = each_line(&segment.path, &|| false, &mut |refs, _| named = refs.log.or(named));
        if let Err(error) = read {
            unreadable(&segment.path, &error);
        }
        if let Some(log) = named {
            return Ok(log);
        }
    }
    let mut log = LogId([0; 16]);
    let random = crypto_provider().secure_random.fill(&mut log.0);
    random.map_err(|_| io::Error::other("the system provides no random numbers"))?;
    Ok(log)
}

impl Active {
    /// The first line of the file, and what its lines name.
    fn read_through(&mut self) -> io::Result<()> {
        let mut lines = Lines::open(self.file.path())?;
        while lines.bytes < self.file.len() {
            let number = lines.number;
            let refs = match lines.next()? {
                FoundLine::Line(line) => LineRefs::of(line),
                FoundLine::Rest(_) => continue,
                FoundLine::End => break,
            };
            // A damaged line is for `verify` to find.
            let Some(refs) = refs else { continue };
            self.first
                .get_or_insert(First { seq: refs.seq.saturating_sub(number), time: refs.time });
            self.in_use.extend(refs.blobs());
            self.log = refs.log.or(self.log);
            self.settings = refs.settings().or(self.settings);
        }
        Ok(())
    }
}

/// The settings that were in effect last, as the log names them: their SHA-256. Of a log whose last start is long ago,
/// the lists of evidence beside its segments say where to look; of very many segments the first are not looked at.
pub fn find_settings(dir: &Path, active: &Active) -> Option<[u8; 32]> {
    if active.settings.is_some() {
        return active.settings;
    }
    let segments = segment::list(dir).ok()?.into_iter().rev().take(SETTINGS_SEGMENTS_MAX);
    for Segment { path, .. } in segments.filter(|segment| segment.path != active.file.path()) {
        let list = EvidenceIndex::path_beside(&path).map(|list| EvidenceIndex::read(&list));
        if let Some(Ok(EvidenceIndex { names, .. })) = list {
            let named = names.into_iter().filter(|(kind, _)| *kind == Kind::Settings);
            match named.map(|(_, sha256)| sha256).collect::<Vec<_>>()[..] {
                [] => continue,
                [alone] => return Some(alone),
                // Their order is that of the lines.
                _ => {}
            }
        }
        let mut last = None;
        each_line(&path, &|| false, &mut |refs, _| last = refs.settings().or(last)).ok()?;
        if last.is_some() {
            return last;
        }
    }
    None
}

/// The file that begins latest, apart from the active one. A file that cannot be read is logged,
/// and does not prevent writing.
fn newest_closed(dir: &Path, active: &Path) -> io::Result<Option<Segment>> {
    let mut newest = None;
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path == active || !segment::is_segment(&path) {
            continue;
        }
        match segment::first_seq(&path) {
            Ok(Some(first_seq)) => newest = newest.max(Some(Segment { first_seq, path })),
            Ok(None) => {}
            Err(error) => unreadable(&path, &error),
        }
    }
    Ok(newest)
}

/// The last readable line of a closed file.
fn last_of(path: &Path) -> Option<Head> {
    let mut last = None;
    let mut read = || -> io::Result<()> {
        let mut lines = Lines::open(path)?;
        loop {
            match lines.next()? {
                // Cheap to keep, and only the last has to be understood.
                FoundLine::Line(line) if split(line).is_some() => {
                    let kept: &mut Vec<u8> = last.get_or_insert_default();
                    kept.clear();
                    kept.extend_from_slice(line);
                }
                FoundLine::Line(_) | FoundLine::Rest(_) => {}
                FoundLine::End => return Ok(()),
            }
        }
    };
    if let Err(error) = read() {
        unreadable(path, &error);
    }
    head_of(&last?)
}

fn unreadable(path: &Path, error: &io::Error) {
    tracing::error!("{} cannot be read: {error}; courtesy audit verify tells more", path.display());
}

// The directory of the log, locked by this process. Its path may come to lead elsewhere: after a
// move, a removal, a mount, or a changed link.

#[derive(Debug)]
pub(super) struct LogDir {
    dir: PathBuf,
    /// Device and inode, which identify a directory.
    id: (u64, u64),
    /// Held as long as anything there is written.
    lock: File,
}

impl LogDir {
    /// Takes the directory, and makes it if need be; `None` where another process has it, and has had it
    /// for all of `max_wait`.
    pub fn take(dir: &Path, max_wait: Duration) -> io::Result<Option<Self>> {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let id = id(dir)?;
        let lock = take_lock(dir, max_wait)?;
        Ok(lock.map(|lock| Self { dir: dir.to_owned(), id, lock }))
    }

    /// An error where its path leads to another one, or to none.
    pub fn check(&self) -> io::Result<()> {
        match id(&self.dir) {
            Ok(id) if id == self.id => Ok(()),
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(_) | Err(_) => {
                let problem = format!("{} has been moved away or removed", self.dir.display());
                Err(io::Error::other(problem))
            }
        }
    }

    /// The lock, for another thread that changes files there.
    pub fn share(&self) -> io::Result<File> {
        self.lock.try_clone()
    }
}

fn id(dir: &Path) -> io::Result<(u64, u64)> {
    fs::metadata(dir).map(|metadata| (metadata.dev(), metadata.ino()))
}

// The lock of a directory of records: one process writes there; readers can check whether one
// does.

/// The interval of attempts.
const LOCK_INTERVAL: Duration = Duration::from_millis(10);

/// The lock file in the log's directory.
pub const NAME: &str = "lock";

/// Whether a process is writing the log in `dir`.
pub fn is_written(dir: &Path) -> bool {
    let Ok(lock) = File::open(dir.join(NAME)) else { return false };
    // Given back at once, but a writer that begins at this instant finds it taken: see `take`.
    matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// The lock, to be held as long as anything there is written; `None` where another writer has it
/// for all of `max_wait`. A reader that checks holds it for an instant, so a single attempt does
/// not tell.
pub fn take_lock(dir: &Path, max_wait: Duration) -> io::Result<Option<File>> {
    let lock = private().write(true).open(dir.join(NAME))?;
    let end = monotonic() + max_wait;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(Some(lock)),
            Err(TryLockError::WouldBlock) if monotonic() < end => std::thread::sleep(LOCK_INTERVAL),
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}
