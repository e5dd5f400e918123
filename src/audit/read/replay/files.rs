//! The inputs of a replay: profile and evidence of each record, each loaded once and cached within
//! limits.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use lru::LruCache;

use super::{Evidence, Replayed, again, allowed_again, needs_capture};
use crate::audit::evidence::{BlobStore, CaptureRecord, Found, Kind};
use crate::audit::{self, Allowed, PROFILES_PER_ORIGIN_MAX, Record, Robots, SharedRobots};
use crate::policy::profile::Profile;
use crate::robots::{Dialect, RobotsTxt};

/// Bytes of robots.txt files that are kept parsed while a log is decided again.
const REPLAY_CACHE_BYTES: usize = 64 << 20;

/// Makes the profile that a record names, of that version of the table, or returns why there is
/// none.
pub type MakeProfile = fn(&str, u32, &BTreeMap<String, String>) -> Result<Profile, String>;

/// Decides the records of a log again, or of several.
#[derive(Debug)]
pub struct Replay {
    /// Of each log.
    shelves: Vec<BlobStore>,
    under: Under,
    files: Files,
}

#[derive(Debug)]
enum Under {
    /// What each record names.
    Recorded {
        make: MakeProfile,
        made: LruCache<audit::Profile, Arc<Profile>>,
    },
    Other(Arc<Profile>),
}

/// Parsed files, the ones used last.
#[derive(Debug)]
struct Files {
    /// Keyed by the log, too: a blob missing from one log does not count as there because another
    /// has it.
    parsed: LruCache<(usize, String, bool, Dialect), Arc<RobotsTxt>>,
    bytes: usize,
}

impl Replay {
    /// With the evidence in `audit_dir`, each record under the profile that it names.
    pub fn recorded(audit_dir: &Path, make: MakeProfile) -> Self {
        let made = LruCache::new(PROFILES_PER_ORIGIN_MAX.try_into().expect("it is not zero"));
        Self::new(audit_dir, Under::Recorded { make, made })
    }

    /// All records under one profile, whatever they name.
    pub fn under(audit_dir: &Path, profile: Profile) -> Self {
        Self::new(audit_dir, Under::Other(Arc::new(profile)))
    }

    fn new(audit_dir: &Path, under: Under) -> Self {
        let files = Files { parsed: LruCache::unbounded(), bytes: 0 };
        Self { shelves: vec![BlobStore::of(audit_dir)], under, files }
    }

    /// With the evidence of another log, too: they are counted from 0.
    pub fn and(mut self, audit_dir: &Path) -> Self {
        self.shelves.push(BlobStore::of(audit_dir));
        self
    }

    /// Decides `record` of the first log again.
    pub fn again(&mut self, record: &Record) -> Replayed {
        self.again_of(0, record)
    }

    /// Decides `record` of that log again.
    pub fn again_of(&mut self, log: usize, record: &Record) -> Replayed {
        let robots = record.robots.as_ref().filter(|_| record.is_of_robots());
        self.decide((log, record, robots), |evidence| again(record, evidence))
    }

    /// Decides an allowed request of that log again.
    pub fn allowed_again_of(&mut self, log: usize, allowed: &Allowed) -> Replayed {
        let robots = allowed.robots.as_ref();
        self.decide((log, allowed, robots), |evidence| allowed_again(allowed, evidence))
    }

    fn decide<E, R>(
        &mut self,
        (log, record, robots): (usize, &Record<E, R>, Option<&SharedRobots>),
        again: impl FnOnce(&Evidence<'_>) -> Replayed,
    ) -> Replayed {
        let Some(robots) = robots else {
            // Without robots.txt no profile makes a difference.
            return again(&Evidence { profile: &Profile::default(), file: None, failed: None });
        };
        let profile = match self.under.profile(&record.profile) {
            Ok(profile) => profile,
            Err(why) => return Replayed::Undecidable(why),
        };
        match self.evidence(log, robots, &profile.dialect) {
            Ok((file, failed)) => {
                let evidence =
                    Evidence { profile: &profile, file: file.as_ref(), failed: failed.as_ref() };
                again(&evidence)
            }
            Err(what) => Replayed::NoEvidence(what),
        }
    }

    fn evidence(
        &mut self,
        log: usize,
        robots: &Robots,
        dialect: &Dialect,
    ) -> Result<(Option<Arc<RobotsTxt>>, Option<CaptureRecord>), String> {
        let blob_store = self.shelves.get(log).ok_or("no such log")?;
        let file = match &robots.sha256 {
            Some(name) => Some(self.files.read((log, blob_store), name, robots.cut, dialect)?),
            None => None,
        };
        let failed = match robots.failed_capture.as_deref().filter(|_| needs_capture(robots)) {
            Some(name) => {
                let content = content(blob_store, Kind::Capture, name)?;
                let capture = serde_json::from_slice(&content);
                Some(capture.map_err(|error| format!("{name} is no capture: {error}"))?)
            }
            None => None,
        };
        Ok((file, failed))
    }
}

impl Under {
    fn profile(&mut self, recorded: &audit::Profile) -> Result<Arc<Profile>, String> {
        match self {
            Self::Other(profile) => Ok(Arc::clone(profile)),
            Self::Recorded { make, made } => {
                if let Some(known) = made.get(recorded) {
                    return Ok(Arc::clone(known));
                }
                let profile = Arc::new(make(&recorded.name, recorded.version, &recorded.settings)?);
                made.put(recorded.clone(), Arc::clone(&profile));
                Ok(profile)
            }
        }
    }
}

impl Files {
    fn read(
        &mut self,
        (log, blob_store): (usize, &BlobStore),
        name: &str,
        cut: bool,
        dialect: &Dialect,
    ) -> Result<Arc<RobotsTxt>, String> {
        let key = (log, name.to_owned(), cut, dialect.clone());
        if let Some(known) = self.parsed.get(&key) {
            return Ok(Arc::clone(known));
        }
        let body = content(blob_store, Kind::File, name)?;
        let file = Arc::new(RobotsTxt::parse(&body, &dialect.for_length(body.len(), cut)));
        self.bytes += file.weight();
        self.parsed.put(key, Arc::clone(&file));
        while self.bytes > REPLAY_CACHE_BYTES
            && let Some((_, oldest)) = self.parsed.pop_lru()
        {
            self.bytes -= oldest.weight();
        }
        Ok(file)
    }
}

fn content(blob_store: &BlobStore, kind: Kind, name: &str) -> Result<Vec<u8>, String> {
    let path = blob_store.path(kind, name);
    let path = path.display();
    match blob_store.get(kind, name) {
        Ok(Found::Content(content)) => Ok(content),
        Ok(Found::Missing) => Err(format!("{path} is missing")),
        Ok(Found::Damaged(why)) => Err(format!("{path} was changed: {why}")),
        Err(error) => Err(format!("cannot read {path}: {error}")),
    }
}
