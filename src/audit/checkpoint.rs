//! Checkpoints: a C2SP signed note over the size and the root of a log's tree (c2sp.org/tlog-checkpoint,
//! c2sp.org/signed-note), with the head of the chain behind them. It is signed with Ed25519 by a key of
//! the state directory.

use std::fmt;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rcgen::{KeyPair, PKCS_ED25519, PublicKeyData, SigningKey};

use super::record::Node;
use super::record::chain::{Head, RECORD_SEQ_MAX};
use super::record::time;
use super::record::verifier_key::{VerifierKey, id};
use super::tree::Digest;
use crate::runtime::files::{self, Found};
use crate::types::timestamp::Timestamp;
use crate::types::{LogId, sanitize};

/// The file of the key, in the state directory.
pub const KEY_NAME: &str = "audit.key";

/// The first component of each origin.
const SCHEME: &str = "courtesy/";
/// What begins a line with a signature (c2sp.org/signed-note).
const DASH: &str = "\u{2014} ";
/// Lines of the text that is signed.
const TEXT_LINES: usize = 4;
/// What of a node's name stays as it is: a key's name has neither spaces nor a plus.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The origin line of a log's checkpoints, and the name of the key in them: `courtesy/NODE/LOG`, or
/// `courtesy/LOG` where the proxy has no name. The log is the one of the last component; its node may
/// come to have another name.
pub fn origin(node: Option<&Node>, log: LogId) -> String {
    match node {
        Some(node) => format!("{SCHEME}{}/{log}", utf8_percent_encode(node.as_str(), PLAIN)),
        None => format!("{SCHEME}{log}"),
    }
}

/// What a log was at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// See [`origin`].
    pub origin: String,
    /// Its last line; its number is the size of the tree.
    pub head: Head,
    /// The root of the tree of its lines (RFC 6962 §2.1).
    pub root: Digest,
    /// When it was made.
    pub time: Timestamp,
}

impl Checkpoint {
    /// The log that it is of.
    pub fn log(&self) -> Option<LogId> {
        LogId::parse(self.origin.strip_prefix(SCHEME)?.rsplit('/').next()?)
    }

    /// The text that is signed: origin, size, root, and one extension line, the head and the time.
    pub fn text(&self) -> String {
        let Self { origin, head: Head { hash, seq }, root, time } = self;
        let (root, time) = (BASE64_STANDARD.encode(root), time::print(*time));
        format!("{origin}\n{seq}\n{root}\n{seq}:{hash}  {time}\n")
    }

    /// Parses the text that is signed.
    pub fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let origin = lines.next()?.to_owned();
        let size = lines.next()?;
        let root = BASE64_STANDARD.decode(lines.next()?).ok()?.try_into().ok()?;
        let (head, at) = lines.next()?.split_once("  ")?;
        let (seq, hash) = head.split_once(':')?;
        sanitize::digest(hash)?;
        let head = Head { hash: hash.to_owned(), seq: seq.parse().ok()? };
        let checkpoint = Self { origin, head, root, time: time::parse(at)? };
        let is_ours = seq == size && checkpoint.head.seq <= RECORD_SEQ_MAX;
        (is_ours && checkpoint.log().is_some() && checkpoint.text() == text).then_some(checkpoint)
    }
}

/// A checkpoint with its signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedCheckpoint {
    pub checkpoint: Checkpoint,
    signatures: Vec<Signature>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Signature {
    name: String,
    key_id: [u8; 4],
    bytes: Vec<u8>,
}

impl SignedCheckpoint {
    /// Parses one signed note.
    pub fn parse(note: &str) -> Option<Self> {
        let (text, signatures) = note.split_once("\n\n")?;
        let checkpoint = Checkpoint::parse(&format!("{text}\n"))?;
        let signatures: Vec<_> = signatures.lines().map(Signature::parse).collect::<Option<_>>()?;
        (!signatures.is_empty()).then_some(Self { checkpoint, signatures })
    }

    /// The checkpoints in a text, one behind the other; and the lines that are of none.
    pub fn parse_all(text: &str) -> (Vec<Self>, Vec<&str>) {
        let lines: Vec<_> = text.lines().collect();
        let (mut checkpoints, mut others, mut at) = (Vec::new(), Vec::new(), 0);
        while at < lines.len() {
            let rest = &lines[at..];
            let is_note = rest[0].starts_with(SCHEME)
                && rest.get(TEXT_LINES).is_some_and(|line| line.is_empty());
            let found = is_note.then(|| {
                let signed = rest[TEXT_LINES + 1..].iter().take_while(|it| it.starts_with(DASH));
                let end = TEXT_LINES + 1 + signed.count();
                Some((Self::parse(&rest[..end].join("\n"))?, end))
            });
            match found.flatten() {
                Some((checkpoint, end)) => {
                    checkpoints.push(checkpoint);
                    at += end;
                }
                None => {
                    others.push(rest[0]);
                    at += 1;
                }
            }
        }
        (checkpoints, others)
    }

    /// Whether one of its signatures is of that key, under whatever name: one key signs for each log
    /// of its proxy.
    pub fn is_signed_by(&self, key: &VerifierKey) -> bool {
        let text = self.checkpoint.text();
        let public = UnparsedPublicKey::new(&ED25519, key.public);
        self.signatures.iter().any(|Signature { name, key_id, bytes }| {
            *key_id == id(name, &key.public) && public.verify(text.as_bytes(), bytes).is_ok()
        })
    }
}

impl Signature {
    fn parse(line: &str) -> Option<Self> {
        let (name, signature) = line.strip_prefix(DASH)?.split_once(' ')?;
        let bytes = BASE64_STANDARD.decode(signature).ok()?;
        let (key_id, bytes) = bytes.split_first_chunk()?;
        Some(Self { name: name.to_owned(), key_id: *key_id, bytes: bytes.to_owned() })
    }
}

/// The note as it is published.
impl fmt::Display for SignedCheckpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.checkpoint.text())?;
        self.signatures.iter().try_for_each(|Signature { name, key_id, bytes }| {
            let signature = BASE64_STANDARD.encode([&key_id[..], bytes].concat());
            writeln!(f, "{DASH}{name} {signature}")
        })
    }
}

/// The key that signs checkpoints.
pub struct NoteSigner {
    key: KeyPair,
    public: [u8; 32],
}

impl NoteSigner {
    /// The key in `file`, if there is one.
    ///
    /// # Errors
    ///
    /// It cannot be read, is no key of Ed25519, or others than its owner may read it.
    pub fn read(file: &Path) -> io::Result<Option<Self>> {
        let pem = match files::read_secret_text(file) {
            Ok(Found::Content(pem)) => pem,
            Ok(Found::Exposed) => {
                let problem = "it is accessible to others than its owner: chmod 600 it";
                return Err(io::Error::new(ErrorKind::PermissionDenied, problem));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let no_key =
            || io::Error::new(ErrorKind::InvalidData, "it has no Ed25519 key in PKCS #8 (PEM)");
        let key = KeyPair::from_pem(&pem).map_err(|_| no_key())?;
        let public = key.der_bytes().try_into().map_err(|_| no_key())?;
        if key.algorithm() != &PKCS_ED25519 {
            return Err(no_key());
        }
        Ok(Some(Self { key, public }))
    }

    /// The key in `file`, which is made if there is none. `None`: there is none, and the file system
    /// does not let one be made.
    ///
    /// # Errors
    ///
    /// As those of [`Self::read`], or it cannot be made.
    pub fn open(file: &Path) -> io::Result<Option<Self>> {
        if let Some(signer) = Self::read(file)? {
            return Ok(Some(signer));
        }
        match Self::make(file) {
            Ok(()) => Self::read(file),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied
                ) =>
            {
                tracing::warn!(
                    "{} cannot be made: {error}; the denial log has no checkpoints",
                    file.display()
                );
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// It is whole before it has its name, and of several processes one gives it.
    fn make(file: &Path) -> io::Result<()> {
        let dir = file.parent().unwrap_or(Path::new("."));
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let key = KeyPair::generate_for(&PKCS_ED25519).map_err(io::Error::other)?;
        let unfinished = file.with_added_extension(format!("{}.new", std::process::id()));
        files::remove(&unfinished)?;
        files::write_new(&unfinished, key.serialize_pem().as_bytes(), 0o600)?;
        let linked = match fs::hard_link(&unfinished, file) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            // A file system without links.
            Err(error)
                if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::Unsupported) =>
            {
                fs::rename(&unfinished, file)
            }
            linked => linked,
        };
        files::remove(&unfinished)?;
        linked.and_then(|()| File::open(dir)?.sync_all())
    }

    /// Its public half, under this name.
    pub fn verifier_key(&self, name: String) -> VerifierKey {
        VerifierKey { name, public: self.public }
    }

    /// The checkpoint with its signature, under the name of its origin.
    ///
    /// # Errors
    ///
    /// The cryptography fails.
    pub fn sign(&self, checkpoint: Checkpoint) -> io::Result<SignedCheckpoint> {
        let bytes = self.key.sign(checkpoint.text().as_bytes()).map_err(io::Error::other)?;
        let name = checkpoint.origin.clone();
        let signature = Signature { key_id: id(&name, &self.public), name, bytes };
        Ok(SignedCheckpoint { checkpoint, signatures: vec![signature] })
    }
}

/// Without the key.
impl fmt::Debug for NoteSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NoteSigner").finish_non_exhaustive()
    }
}
