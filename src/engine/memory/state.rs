//! All that proxies share.

use std::collections::HashMap;

use bytes::Bytes;
use lru::LruCache;

use super::cluster::Cluster;
use super::site::Site;
use crate::engine::clock::Micros;
use crate::engine::error::{Error, ErrorKind};
use crate::engine::files::Sha256;
use crate::types::origin::Origin;

/// Sites are swept when there are twice as many as after the last sweep, and this many.
const SWEEP_MIN: usize = 1024;
/// Sites with something to remember: as many as there can be lanes.
const SITES_MAX: usize = 1_000_000;
/// The files of a hundred thousand sites; the least recently used go first.
const FILES_BYTES_MAX: usize = 256 << 20;

/// What a server would hold.
#[derive(Debug)]
pub(super) struct State {
    pub sites: HashMap<Origin, Site>,
    sweep_at: usize,
    files: LruCache<Sha256, Bytes>,
    file_bytes: usize,
    pub cluster: Cluster,
}

impl State {
    /// No data yet; the first heartbeat begins it.
    pub(super) fn empty() -> Self {
        Self {
            sites: HashMap::new(),
            sweep_at: SWEEP_MIN,
            files: LruCache::unbounded(),
            file_bytes: 0,
            cluster: Cluster::default(),
        }
    }

    /// The state of an origin, made if need be.
    pub(super) fn site(&mut self, origin: &Origin, now: Micros) -> Result<&mut Site, Error> {
        if self.sites.len() >= self.sweep_at && !self.sites.contains_key(origin) {
            self.sites.retain(|_, site| !site.is_over(now));
            if self.sites.len() >= SITES_MAX {
                return Err(ErrorKind::Memory.with("too many origins"));
            }
            self.sweep_at = SWEEP_MIN.max(2 * self.sites.len()).min(SITES_MAX);
        }
        Ok(self.sites.entry(origin.clone()).or_default())
    }

    pub(super) fn file(&mut self, sha256: &Sha256) -> Option<Bytes> {
        self.files.get(sha256).cloned()
    }

    pub(super) fn put_file(&mut self, sha256: Sha256, content: Bytes) {
        self.file_bytes += content.len();
        if let Some(before) = self.files.put(sha256, content) {
            self.file_bytes -= before.len();
        }
        while self.file_bytes > FILES_BYTES_MAX {
            let Some((_, content)) = self.files.pop_lru() else { break };
            self.file_bytes -= content.len();
        }
    }
}
