//! Queries about a given robots.txt: no network, and the decision of the file by its dialect's
//! matcher, without what a proxy adds to it.

use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;
use sha2::{Digest, Sha256};

use super::answer::Ruling;
use crate::config::ProfileName;
use crate::policy::decision::by_rules;
use crate::policy::profile::Profile;
use crate::robots::{Dialect, RobotsTxt, path_of_url};

/// The number of parsed files that are kept. Queries about one file usually follow each other.
const FILES_MAX: NonZeroUsize = NonZeroUsize::new(64).expect("it is not zero");

/// The bytes that the parsed files may take; the one in use counts too, but is never dropped.
const BYTES_MAX: usize = 64 << 20;

/// Parsed files by content and dialect.
pub struct Library {
    files: LruCache<([u8; 32], Dialect), Arc<RobotsTxt>>,
    bytes: usize,
}

impl Library {
    /// A library without files.
    pub fn new() -> Self {
        Self { files: LruCache::new(FILES_MAX), bytes: 0 }
    }

    /// The file as the matcher of `profile` reads it.
    pub fn read(&mut self, body: &[u8], profile: ProfileName) -> Arc<RobotsTxt> {
        let dialect = dialect(profile);
        let key = (Sha256::digest(body).into(), dialect);
        if let Some(known) = self.files.get(&key) {
            return Arc::clone(known);
        }
        let read = Arc::new(RobotsTxt::parse(body, &key.1));
        self.bytes += read.weight();
        if let Some((_, gone)) = self.files.push(key, Arc::clone(&read)) {
            self.bytes -= gone.weight();
        }
        while self.bytes > BYTES_MAX {
            let Some((_, gone)) = self.files.pop_lru() else { break };
            self.bytes -= gone.weight();
        }
        read
    }
}

/// Without the size limit, which is for fetching: a given file is judged as it is.
fn dialect(profile: ProfileName) -> Dialect {
    let profile = Profile::named(profile.as_str()).expect("the names are those of the table");
    profile.dialect.of_matcher()
}

/// The decision of the file for a URL, or for a path and query.
pub fn ruling(rules: &RobotsTxt, token: Option<&str>, url: &[u8]) -> Ruling {
    Ruling::of(&by_rules(rules, token, &path_of_url(url)))
}
