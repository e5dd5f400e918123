//! The inputs of a replay: profile and evidence of each record, each loaded once and cached within
//! limits.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use lru::LruCache;

use super::notices::{EvidenceFile, changed_again, paced_again};
use super::{Evidence, Replayed, again, allowed_again, needs_capture};
use crate::audit::evidence::{BlobStore, CaptureRecord, Found, Kind};
use crate::audit::{
    self, Allowed, Changed, PROFILES_PER_ORIGIN_MAX, Paced, Record, Robots, SharedRobots, Side,
    Touched,
};
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

    /// Makes a delay of that log again.
    pub fn paced_again_of(&mut self, log: usize, paced: &Paced) -> Replayed {
        let profile = match self.under.profile(&paced.profile) {
            Ok(profile) => profile,
            Err(why) => return Replayed::Undecidable(why),
        };
        let Some(sha256) = &paced.robots.sha256 else {
            return Replayed::Undecidable("it names no robots.txt".into());
        };
        match self.file(log, (sha256, paced.robots.cut), &profile.dialect) {
            Ok(file) => paced_again(paced, &profile, &file),
            Err(what) => Replayed::NoEvidence(what),
        }
    }

    /// Makes a change of that log again, under the profiles that it names, as this program has them.
    pub fn changed_again_of(&mut self, log: usize, changed: &Changed) -> Replayed {
        match self.sides(log, changed) {
            Ok((bodies, files)) => changed_again(changed, [&bodies[0], &bodies[1]], &files),
            Err(replayed) => *replayed,
        }
    }

    /// The bodies of both sides, and both as each profile that is touched reads them.
    #[expect(clippy::type_complexity, reason = "two files, and what is read in them")]
    fn sides<'a>(
        &mut self,
        log: usize,
        changed: &'a Changed,
    ) -> Result<([Vec<u8>; 2], Vec<(&'a Touched, [Option<Arc<RobotsTxt>>; 2])>), Box<Replayed>>
    {
        let sides = [&changed.from, &changed.to];
        let mut read = |side: &Side, dialect: &Dialect| {
            let Some(sha256) = &side.sha256 else { return Ok(None) };
            let file = self.file(log, (sha256, side.cut), dialect);
            file.map(Some).map_err(|what| Box::new(Replayed::NoEvidence(what)))
        };
        let mut bodies = [Vec::new(), Vec::new()];
        for (body, side) in bodies.iter_mut().zip(sides) {
            *body = read(side, &Dialect::RFC9309)?.map(|file| file.body).unwrap_or_default();
        }
        let mut files = Vec::new();
        for touched in &changed.touched {
            let Some(profile) = Profile::named(&touched.profile) else {
                let why = format!("the profile {} is not known", touched.profile);
                return Err(Box::new(Replayed::Undecidable(why)));
            };
            // How much of a file is read is a setting, and all that was read is the evidence.
            let dialect = Dialect { size_limit: usize::MAX, ..profile.dialect.clone() };
            let [from, to] = sides.map(|side| read(side, &dialect));
            files.push((touched, [from?.map(|file| file.rules), to?.map(|file| file.rules)]));
        }
        Ok((bodies, files))
    }

    /// A file of that log, as it is and as it is read.
    fn file(
        &mut self,
        log: usize,
        (sha256, cut): (&str, bool),
        dialect: &Dialect,
    ) -> Result<EvidenceFile, String> {
        let blob_store = self.shelves.get(log).ok_or("no such log")?;
        let rules = self.files.read((log, blob_store), sha256, cut, dialect)?;
        Ok(EvidenceFile { body: content(blob_store, Kind::File, sha256)?, rules })
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
