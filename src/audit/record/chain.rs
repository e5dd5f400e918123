//! One line of the log. Its bytes, up to the hash, are the canonical form (RFC 8785) of what it
//! says; the hash is the SHA-256 of that form, and each line names the hash of the line before. So
//! `jq -cS 'del(.hash)'` and `sha256sum` check a line without us.

use serde::{Deserialize, Deserializer, Serialize};
use sha2::{Digest, Sha256};

use super::Node;
use super::denial_record::Record;
use super::line_kind::LineKind;
use super::meta_record::Notice;
use crate::audit::evidence::BlobName;
use crate::audit::record::verifier_key::VerifierKey;
use crate::types::LogId;
use crate::types::sanitize::hex;
use crate::types::timestamp::Timestamp;

/// Number of the last line that a log can have: RFC 8785 §3.2.2.3 and the readers of JSON know no
/// larger whole number for sure (RFC 7493 §2.2).
pub(crate) const RECORD_SEQ_MAX: u64 = (1 << 53) - 1;

/// Where a chain stands: its last line. Published elsewhere, it shows that nothing was cut off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Of the last line, in hexadecimal.
    pub hash: String,
    /// Its number; 0: there is none.
    pub seq: u64,
}

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "a notice is written once, and one of 300 bytes is no heavier than the box for it"
)]
pub enum Content {
    Record(Box<Record>),
    Notice(Notice),
}

/// What any line has, of whatever kind: also one that only a later version understands.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct AnyLine {
    #[serde(default)]
    pub id: Option<String>,
    /// The identity of the log, where it is named and can be read.
    #[serde(default, deserialize_with = "readable_log")]
    pub log: Option<LogId>,
    #[serde(default)]
    pub node: Option<Node>,
    /// The hash of the line before.
    pub prev: String,
    /// Its number in the chain, from 1.
    pub seq: u64,
    /// None where it cannot be read.
    #[serde(default, deserialize_with = "readable_time")]
    pub time: Option<Timestamp>,
}

/// Why a line is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    #[error("does not end in a hash")]
    NoHash,
    #[error("is no record: {0}")]
    NoRecord(String),
    #[error("is not the text its hash was made of")]
    Changed,
}

/// What begins the member that ends every line.
const HASH_MEMBER: &[u8] = b",\"hash\":\"";
const HASH_BYTES: usize = 64;

impl Head {
    /// Before the first line.
    pub fn genesis() -> Self {
        Self { hash: "0".repeat(HASH_BYTES), seq: 0 }
    }

    /// Appends `content` as the next line, and moves on to it; returns its hash.
    pub fn push(&mut self, mut content: Content, lines: &mut Vec<u8>) -> [u8; 32] {
        let (seq, prev) = (self.seq + 1, std::mem::take(&mut self.hash));
        let start = lines.len();
        match &mut content {
            Content::Record(record) => (record.seq, record.prev) = (seq, prev),
            Content::Notice(notice) => notice.put(seq, prev),
        }
        match &content {
            Content::Record(record) => serde_json::to_writer(&mut *lines, record),
            Content::Notice(notice) => serde_json::to_writer(&mut *lines, notice),
        }
        .expect("a line is made of plain values");
        let digest = Sha256::digest(&lines[start..]);
        let hash = hex(&digest);
        lines.pop();
        lines.extend_from_slice(HASH_MEMBER);
        lines.extend_from_slice(hash.as_bytes());
        lines.extend_from_slice(b"\"}\n");
        (self.seq, self.hash) = (seq, hash);
        digest.into()
    }
}

/// The head of an empty log.
impl Default for Head {
    fn default() -> Self {
        Self::genesis()
    }
}

impl Content {
    /// What `line`, without its line end, says. The hash is not checked; see [`checked_hash`].
    ///
    /// # Errors
    ///
    /// It has no `event`, or one that this version does not know, or not the members of its kind.
    pub fn parse(line: &[u8]) -> Result<Self, LineError> {
        let said = |error: serde_json::Error| LineError::NoRecord(error.to_string());
        let content = match LineKind::of(line) {
            Some(LineKind::Record(_)) => Self::Record(serde_json::from_slice(line).map_err(said)?),
            Some(LineKind::Notice(word)) => {
                let (canonical, _) = split(line).ok_or(LineError::NoHash)?;
                Self::Notice(Notice::parse(word, &[canonical, b"}"].concat()).map_err(said)?)
            }
            Some(LineKind::Unknown) => {
                let why = "its event is of a kind that this version does not know";
                return Err(LineError::NoRecord(why.into()));
            }
            None => return Err(LineError::NoRecord("it has no event".into())),
        };
        checked_seq(content.seq()).map(|_| content)
    }

    /// The evidence that it can be checked against.
    pub fn blobs(&self) -> Vec<BlobName> {
        match self {
            Self::Record(record) => record.blobs().collect(),
            Self::Notice(notice) => notice.blobs().collect(),
        }
    }

    /// The sequence number of the line.
    pub fn seq(&self) -> u64 {
        match self {
            Self::Record(record) => record.seq,
            Self::Notice(notice) => notice.seq(),
        }
    }

    /// The time of the line.
    pub fn time(&self) -> Timestamp {
        match self {
            Self::Record(record) => record.time,
            Self::Notice(notice) => notice.time(),
        }
    }

    /// The proxy that wrote it.
    pub fn node(&self) -> Option<&Node> {
        match self {
            Self::Record(record) => record.node.as_ref(),
            Self::Notice(notice) => notice.node(),
        }
    }

    /// Names the log, and the key of its checkpoints, where such a line does.
    pub(crate) fn set_log(&mut self, log: LogId, key: Option<&VerifierKey>) {
        if let Self::Notice(Notice::Started(started)) = self {
            (started.log, started.key) = (Some(log), key.cloned());
        }
    }

    /// Names the proxy that writes it.
    pub(crate) fn set_node(&mut self, node: Option<Node>) {
        match self {
            Self::Record(record) => record.node = node,
            Self::Notice(notice) => notice.set_node(node),
        }
    }
}

/// `seq`, if a line can have that number.
pub fn checked_seq(seq: u64) -> Result<u64, LineError> {
    match seq {
        1..=RECORD_SEQ_MAX => Ok(seq),
        _ => Err(LineError::NoRecord(format!("no log has a line number {seq}"))),
    }
}

/// The canonical form without its last brace, and the hash as written.
pub fn split(line: &[u8]) -> Option<(&[u8], &str)> {
    let at = line.len().checked_sub(HASH_MEMBER.len() + HASH_BYTES + 2)?;
    let rest = line[at..].strip_prefix(HASH_MEMBER)?.strip_suffix(b"\"}")?;
    let is_hex = rest.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    Some((&line[..at], std::str::from_utf8(rest).ok().filter(|_| is_hex)?))
}

/// The hash of `line`, without its line end, if that is what was made of its text.
pub fn checked_hash(line: &[u8]) -> Result<&str, LineError> {
    let (canonical, hash) = split(line).ok_or(LineError::NoHash)?;
    let digest = Sha256::new().chain_update(canonical).chain_update(b"}").finalize();
    if hex(&digest) == hash { Ok(hash) } else { Err(LineError::Changed) }
}

/// Where the chain stands after `line`, which has no line end, if it is one of its lines.
pub fn head_of(line: &[u8]) -> Option<Head> {
    let (_, hash) = split(line)?;
    let AnyLine { seq, .. } = serde_json::from_slice(line).ok()?;
    Some(Head { hash: hash.to_owned(), seq })
}

impl AnyLine {
    /// What `line`, without its line end, has of it. The hash is not checked.
    pub fn parse(line: &[u8]) -> Result<Self, LineError> {
        let any: Self =
            serde_json::from_slice(line).map_err(|error| LineError::NoRecord(error.to_string()))?;
        checked_seq(any.seq).map(|_| any)
    }
}

fn readable_log<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<LogId>, D::Error> {
    // A later version may have another member of that name.
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(value.as_str().and_then(LogId::parse))
}

fn readable_time<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Timestamp>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(text.as_deref().and_then(super::time::parse))
}
