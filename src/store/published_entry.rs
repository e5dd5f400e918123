//! What is known of an origin, as proxies share it: the JSON of the database, and the captures that
//! it names. The files themselves are shared apart, by their digests.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::convert::Blobs;
use super::entry::Entry;
use super::persisted::{Digest, Persisted};

/// What one proxy shares with the others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PublishedEntry {
    /// The JSON of the database.
    pub known: Persisted,
    /// Each as it is hashed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    captures: Vec<String>,
}

impl PublishedEntry {
    pub(super) fn of(entry: &Entry) -> Self {
        let (known, blobs) = entry.persist();
        let files = known.files();
        let captures = blobs.iter().filter(|(digest, _)| !files.contains(digest));
        // A capture is JSON, which is UTF-8.
        let captures = captures.filter_map(|(_, blob)| String::from_utf8(blob.to_vec()).ok());
        Self { captures: captures.collect(), known }
    }

    /// As it is written; the engine deflates it.
    pub fn write(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("it has no map without text as keys")
    }

    /// As it was written; `None`: it is damaged, or of a later version that says other things.
    pub fn read(value: &[u8]) -> Option<Self> {
        serde_json::from_slice(value).ok()
    }

    /// The digests of the files.
    pub(super) fn files(&self) -> Vec<Digest> {
        self.known.files()
    }

    /// The persisted form with all blobs that it names; `None` if one is missing or another than
    /// the file names.
    pub(super) fn parts(self, files: Vec<Bytes>) -> Option<(Persisted, Blobs)> {
        let digest = |blob: &Bytes| Digest(Sha256::digest(blob).into());
        let captures = self.captures.into_iter().map(Bytes::from);
        let blobs: Blobs = captures.chain(files).map(|blob| (digest(&blob), blob)).collect();
        let is_whole = self.known.digests().iter().all(|digest| blobs.contains_key(digest));
        is_whole.then_some((self.known, blobs))
    }
}
