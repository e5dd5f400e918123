//! Replaces what records are not to have as it is, by keyed hashes (HMAC-SHA-256, cut): the values in queries, which
//! may be secrets, as `?q=~3b1f0c9d2a7e4458`; parts of paths; the names and addresses of clients. Equal values have
//! equal hashes, so records can still be grouped by them; without the key, values cannot be guessed by trial.

#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::chain::{Content, split};
use super::change_record::Change;
use super::client::{Client, ClientAddress, KeptClients};
use super::denial_record::Record;
use super::hidden_path::HiddenPath;
use super::meta_record::Notice;
use crate::audit::{Config, RECORD_URL_BYTES_MAX};
use crate::runtime::crypto_provider;
use crate::runtime::files::{self, Found};
use crate::types::sanitize::hex;

/// In the directory of records.
const KEY_NAME: &str = "redact.key";
const KEY_BYTES: usize = 32;

/// Of the 32 bytes of a hash: enough that no two values of a log meet by chance.
const HASH_BYTES: usize = 8;

/// What is replaced, and the key that it is under.
#[derive(Clone)]
pub struct Redactor {
    keyed: Hmac<Sha256>,
    clients: KeptClients,
    paths: Vec<HiddenPath>,
    hides_query: bool,
    /// Settings that name clients are hidden, too, where a line has their change.
    hides_settings: bool,
}

impl Redactor {
    /// As `config` has it, with the key of the log, which is made at its first use; none where nothing is redacted.
    /// The directory is locked.
    pub fn open(config: &Config) -> io::Result<Option<Self>> {
        if !Self::is_needed(config) {
            return Ok(None);
        }
        let path = config.dir.join(KEY_NAME);
        let key = match files::read_secret(&path) {
            Ok(Found::Content(key)) => checked(&path, &key),
            Ok(Found::Exposed) => {
                Err(bad(&path, "others may read it; take that right away with chmod 600"))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => make_key(&config.dir, &path),
            Err(error) => Err(bad(&path, &error.to_string())),
        };
        key.map(|key| Some(Self::new(&key, config)))
    }

    /// Whether the key can be used, where one is needed and there; none is made.
    pub fn check(config: &Config) -> io::Result<()> {
        match files::read_secret(&config.dir.join(KEY_NAME)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            _ => Self::open(config).map(drop),
        }
    }

    fn is_needed(config: &Config) -> bool {
        let Config { clients, redact_paths, redact_query, .. } = config;
        *redact_query || !redact_paths.is_empty() || *clients != KeptClients::Plain
    }

    /// For who may see no persons: clients and the values of queries, under a key that this process alone has, so that
    /// equal ones look equal until it ends.
    pub fn of_viewers() -> Self {
        let mut key = [0; KEY_BYTES];
        crypto_provider().secure_random.fill(&mut key).expect("the system has random numbers");
        Self {
            keyed: Hmac::new_from_slice(&key).expect("a key of any length is one"),
            clients: KeptClients::Keyed,
            paths: Vec::new(),
            hides_query: true,
            hides_settings: true,
        }
    }

    fn new(key: &[u8; KEY_BYTES], config: &Config) -> Self {
        Self {
            keyed: Hmac::new_from_slice(key).expect("a key of any length is one"),
            clients: config.clients,
            paths: config.redact_paths.iter().map(HiddenPath::new).collect(),
            hides_query: config.redact_query,
            hides_settings: false,
        }
    }

    /// All of `record` that is redacted.
    pub fn record<E, R>(&self, record: &mut Record<E, R>) {
        record.url = self.url(&record.url);
        record.url_as_received = record.url_as_received.take().map(|url| self.url(&url));
        self.client(&mut record.client);
    }

    /// All of a notice that is redacted: an allowed request has what a record has, a change of a file the paths of
    /// requests, one of settings perhaps clients.
    pub fn notice(&self, notice: &mut Notice) {
        match notice {
            Notice::Allowed(allowed) => self.record(allowed),
            Notice::Changed(changed) => {
                for path in &mut changed.sampled.examples {
                    *path = self.url(path);
                }
            }
            Notice::SettingsChanged(changed) if self.hides_settings => {
                changed.changes.iter_mut().for_each(Self::setting);
            }
            Notice::Started(started) if self.hides_settings => {
                started.changes.iter_mut().flatten().for_each(Self::setting);
            }
            _ => {}
        }
    }

    fn setting(change: &mut Change) {
        if change.names_clients() {
            (change.old, change.new) = ("hidden".into(), "hidden".into());
        }
    }

    /// A line of the log, redacted, with the hash that it had. `None`: it cannot be read, and so cannot be redacted.
    pub fn line(&self, line: &[u8]) -> Option<Vec<u8>> {
        let (_, hash) = split(line)?;
        let json = match Content::parse(line).ok()? {
            Content::Record(mut record) => {
                self.record(&mut record);
                serde_json::to_vec(&record)
            }
            Content::Notice(mut notice) => {
                self.notice(&mut notice);
                serde_json::to_vec(&notice)
            }
        };
        let mut redacted = json.ok()?;
        redacted.pop();
        redacted.extend([b",\"hash\":\"", hash.as_bytes(), b"\"}"].concat());
        Some(redacted)
    }

    fn client(&self, client: &mut Client) {
        let Client { address, name } = client;
        match self.clients {
            KeptClients::Plain => {}
            KeptClients::Keyed => {
                let hash = |address: &ClientAddress| self.hash(&address.to_string());
                *address = address.as_ref().map(|address| ClientAddress::Keyed(hash(address)));
                *name = name.as_ref().map(|name| self.hash(name));
            }
            KeptClients::None => (*address, *name) = (None, None),
        }
    }

    /// `recorded`, a URL as [`Record::url`] has it, or its path and query, without what is hidden of its path and the
    /// values of its query. Names of the query and their order stay; a part without `=` is a value. An unkeyed digest
    /// of the part that was cut off would let values be guessed, so it is replaced, too.
    pub fn url(&self, recorded: &str) -> String {
        // A URL as it was received may have that character itself; the mark is at the end.
        let cut = recorded.rsplit_once('…').and_then(|(kept, mark)| Some((kept, bytes_of(mark)?)));
        let (kept, cut) = cut.map_or((recorded, None), |(kept, bytes)| (kept, Some(bytes)));
        let (before, query) = match kept.split_once('?') {
            Some((before, query)) => (before, Some(query)),
            None => (kept, None),
        };
        let mut redacted = String::with_capacity(recorded.len());
        let hides_path = self.push_path(before, cut.is_some() && query.is_none(), &mut redacted);
        if !hides_path && !self.hides_query {
            return recorded.to_owned();
        }
        match query {
            Some(query) if self.hides_query => self.push_query(query, &mut redacted),
            Some(query) => redacted.extend(["?", query]),
            None => {}
        }
        if cut.is_some() || redacted.len() > RECORD_URL_BYTES_MAX {
            redacted.truncate(redacted.floor_char_boundary(RECORD_URL_BYTES_MAX));
            let bytes = cut.unwrap_or(kept.len());
            let _ = write!(redacted, "…[{bytes} octets, ");
            self.push_hash(recorded, &mut redacted);
            redacted.push(']');
        }
        redacted
    }

    /// Appends a URL up to its query, or a path. Whether something of it is hidden.
    fn push_path(&self, url: &str, is_cut: bool, text: &mut String) -> bool {
        let authority = url.find("://").map_or(0, |at| at + 3);
        let path_at = url[authority..].find('/').map_or(url.len(), |at| authority + at);
        let path = &url[path_at..];
        let mut places: Vec<_> =
            self.paths.iter().flat_map(|hidden| hidden.places(path, is_cut)).collect();
        places.sort_unstable_by_key(|place| (place.start, place.end));
        places.dedup_by(|place, before| {
            let is_one = place.start < before.end;
            if is_one {
                before.end = before.end.max(place.end);
            }
            is_one
        });
        text.push_str(&url[..path_at]);
        let mut at = 0;
        for place in &places {
            text.push_str(&path[at..place.start]);
            self.push_hash(&path[place.clone()], text);
            at = place.end;
        }
        text.push_str(&path[at..]);
        !places.is_empty()
    }

    fn push_query(&self, query: &str, text: &mut String) {
        for (index, part) in query.split('&').enumerate() {
            text.push(if index == 0 { '?' } else { '&' });
            let (name, value) = part.find('=').map_or(("", part), |at| part.split_at(at + 1));
            text.push_str(name);
            if !value.is_empty() {
                self.push_hash(value, text);
            }
        }
    }

    fn hash(&self, value: &str) -> String {
        let mut hash = String::new();
        self.push_hash(value, &mut hash);
        hash
    }

    fn push_hash(&self, value: &str, text: &mut String) {
        let hash = self.keyed.clone().chain_update(value).finalize().into_bytes();
        text.push('~');
        text.push_str(&hex(&hash[..HASH_BYTES]));
    }
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redactor").finish_non_exhaustive()
    }
}

fn checked(path: &Path, key: &[u8]) -> io::Result<[u8; KEY_BYTES]> {
    key.try_into()
        .map_err(|_| bad(path, &format!("it has {} bytes and not {KEY_BYTES}", key.len())))
}

/// How long a URL was that has been cut, by its mark `[9000 octets, …`.
fn bytes_of(mark: &str) -> Option<usize> {
    mark.strip_prefix('[')?.split(' ').next()?.parse().ok()
}

/// A key takes its name when it is whole on the disk: with half of one, or with another after a
/// power cut, equal values would no longer look equal.
fn make_key(dir: &Path, path: &Path) -> io::Result<[u8; KEY_BYTES]> {
    let mut key = [0; KEY_BYTES];
    let random = crypto_provider().secure_random;
    random.fill(&mut key).map_err(|_| io::Error::other("the system provides no random numbers"))?;
    let unfinished = path.with_extension("key.tmp");
    files::remove(&unfinished)?;
    files::write_new(&unfinished, &key, 0o600)?;
    fs::rename(&unfinished, path)?;
    File::open(dir)?.sync_all()?;
    Ok(key)
}

fn bad(path: &Path, why: &str) -> io::Error {
    let path = path.display();
    io::Error::new(
        ErrorKind::InvalidData,
        format!(
            "the key that records are redacted with, {path}, cannot be used: {why}. Put it back as it was; \
             or remove it to have another made, after which the same value gets another hash"
        ),
    )
}
