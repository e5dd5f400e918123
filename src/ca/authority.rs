//! A CA that can sign: read from its files, with a matching key and the attributes of a CA. Its
//! validity is checked at each use, since it may expire while the proxy runs. The proxy's own CA is
//! generated if there is none; only a rotation replaces it.

use std::fmt;
use std::path::{Path, PathBuf};

use rcgen::KeyPair;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::certificate::Certificate;
use super::error::CaError;
use super::root::Root;
use super::signer::Signer;
use super::storage::{self, Storage};
use crate::runtime::crypto_provider::provider;
use crate::types::timestamp::Timestamp;

/// Former CAs that clients should still trust; more have been rotated away on purpose.
pub(crate) const CA_PREVIOUS_MAX: usize = 3;

/// The location of a CA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The proxy's own, in this directory.
    Own(PathBuf),
    /// The operator's, as `https.ca_cert` and `https.ca_key`.
    Files { certificate: PathBuf, key: PathBuf },
    /// The operator's, as systemd credentials.
    Credentials { certificate: PathBuf, key: PathBuf },
}

/// A CA that can sign.
pub struct Authority {
    signer: Signer,
    /// The further certificates of its file: for a root, others to be trusted; for an intermediate
    /// CA, the chain to the root.
    behind: Vec<Certificate>,
    file: PathBuf,
}

impl Authority {
    /// Reads the CA. Generates the proxy's own if there is none.
    pub fn open(source: &Source, now: Timestamp) -> Result<Self, CaError> {
        match source {
            Source::Own(dir) => {
                let storage = Storage::lock(dir)?;
                if !storage.holds_ca() {
                    let root = Root::new(&provider(), now)?;
                    storage.install(&root.certificate_pem, &root.key_pem)?;
                }
                Self::stored(&storage, now)
            }
            Source::Files { certificate, key } => {
                Self::read(certificate, key, &storage::read_private(key)?, now)
            }
            // The mode is not checked: the directory belongs to the service, and where systemd
            // grants access by an ACL, the group bits show its mask rather than the group's rights.
            Source::Credentials { certificate, key } => {
                Self::read(certificate, key, &storage::read(key)?, now)
            }
        }
    }

    /// The CA that [`Self::open`] would return, or `None` if it would generate one. Changes
    /// nothing.
    ///
    /// # Errors
    ///
    /// The error of [`Self::open`], if it can be known in advance.
    pub fn check(source: &Source, now: Timestamp) -> Result<Option<Self>, CaError> {
        match source {
            Source::Own(dir) => {
                Storage::look(dir)?.map(|storage| Self::stored(&storage, now)).transpose()
            }
            others => Self::open(others, now).map(Some),
        }
    }

    /// Generates a new CA that signs from now on. The old certificate remains trusted; its key is
    /// deleted. Works even if the old CA is expired or unreadable.
    pub fn rotate(source: &Source, now: Timestamp) -> Result<Self, CaError> {
        let storage = Storage::lock(source.own()?)?;
        let mut trusted = certificates(&storage.certificate()).unwrap_or_default();
        trusted.retain(|certificate| !certificate.is_expired(now));
        trusted.truncate(CA_PREVIOUS_MAX);
        let root = Root::new(&provider(), now)?;
        let previous: String = trusted.iter().map(Certificate::pem).collect();
        storage.install(&(root.certificate_pem + &previous), &root.key_pem)?;
        Self::stored(&storage, now)
    }

    /// Ends the overlap of a rotation: only the signing CA remains trusted.
    pub fn end_overlap(source: &Source, now: Timestamp) -> Result<Self, CaError> {
        let storage = Storage::lock(source.own()?)?;
        let authority = Self::stored(&storage, now)?;
        storage.replace_certificates(&authority.certificate().pem())?;
        Ok(Self { behind: Vec::new(), ..authority })
    }

    /// The signing CA.
    pub const fn certificate(&self) -> &Certificate {
        self.signer.certificate()
    }

    /// What signs the leaves.
    pub(super) const fn signer(&self) -> &Signer {
        &self.signer
    }

    /// Earlier CAs that clients should continue to trust, the latest first.
    pub fn previous(&self) -> &[Certificate] {
        if self.certificate().is_self_issued() { &self.behind } else { &[] }
    }

    /// Whether a signature takes no longer than handing the work to another thread, as with
    /// elliptic curves of this size.
    pub(super) fn signs_at_once(&self) -> bool {
        self.signer.signs_at_once()
    }

    /// The certificate file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// All certificates that clients are to trust, as PEM.
    pub fn bundle(&self) -> String {
        self.all().map(Certificate::pem).collect()
    }

    /// The certificates sent after a leaf: the chain up to the root, for clients that know only
    /// that. A root is not sent, because a client that trusts it has it.
    pub(super) fn chain(&self) -> impl Iterator<Item = CertificateDer<'static>> {
        let below_a_root = self.all().filter(|certificate| !certificate.is_self_issued());
        below_a_root.map(|certificate| certificate.der().clone())
    }

    fn all(&self) -> impl Iterator<Item = &Certificate> {
        std::iter::once(self.certificate()).chain(&self.behind)
    }

    fn stored(storage: &Storage, now: Timestamp) -> Result<Self, CaError> {
        let key = storage.key();
        Self::read(&storage.certificate(), &key, &storage::read_private(&key)?, now)
    }

    fn read(file: &Path, key_file: &Path, key_pem: &str, now: Timestamp) -> Result<Self, CaError> {
        let mut found = certificates(file)?.into_iter();
        let certificate =
            found.next().ok_or_else(|| CaError::unusable(file, "no certificate in it"))?;
        let key = key_pair(key_pem).map_err(|reason| CaError::unusable(key_file, reason))?;
        if certificate.x509().public_key().subject_public_key.data != key.public_key_raw() {
            return Err(CaError::Mismatch {
                certificate: file.to_owned(),
                key: key_file.to_owned(),
            });
        }
        certificate.check_may_sign().map_err(|reason| CaError::unusable(file, reason))?;
        let signer =
            Signer::new(certificate, key).map_err(|error| CaError::unusable(file, error))?;
        let behind = found.filter(|certificate| !certificate.is_expired(now)).collect();
        let authority = Self { signer, behind, file: file.to_owned() };
        authority.check_name(now)?;
        Ok(authority)
    }

    /// A client finds the issuer of a leaf by its name, byte by byte. rcgen parses and re-encodes a
    /// name, and some foreign names do not survive that.
    fn check_name(&self, now: Timestamp) -> Result<(), CaError> {
        let probe = Certificate::parse(self.signer.probe(now)?)
            .map_err(|it| CaError::unusable(&self.file, it))?;
        if probe.x509().issuer().as_raw() != self.certificate().x509().subject().as_raw() {
            let reason = format!(
                "the name \"{}\" cannot be repeated as an issuer",
                self.certificate().subject()
            );
            return Err(CaError::unusable(&self.file, reason));
        }
        Ok(())
    }
}

impl Source {
    /// The files of the operator's CA.
    pub fn files_of_others(&self) -> Vec<PathBuf> {
        match self {
            Self::Own(_) => Vec::new(),
            Self::Files { certificate, key } | Self::Credentials { certificate, key } => {
                vec![certificate.clone(), key.clone()]
            }
        }
    }

    /// The directory of the proxy's own CA.
    fn own(&self) -> Result<&Path, CaError> {
        match self {
            Self::Own(dir) => Ok(dir),
            Self::Files { certificate, .. } | Self::Credentials { certificate, .. } => {
                Err(CaError::NotOurs { file: certificate.clone() })
            }
        }
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority")
            .field("subject", &self.certificate().subject())
            .finish_non_exhaustive()
    }
}

/// All certificates of a file.
fn certificates(file: &Path) -> Result<Vec<Certificate>, CaError> {
    let pem = storage::read(file)?;
    CertificateDer::pem_slice_iter(pem.as_bytes())
        .map(|der| der.map_err(|error| error.to_string()).and_then(Certificate::parse))
        .collect::<Result<_, _>>()
        .map_err(|reason| CaError::unusable(file, reason))
}

fn key_pair(pem: &str) -> Result<KeyPair, String> {
    let key = PrivateKeyDer::from_pem_slice(pem.as_bytes())
        .map_err(|error| format!("no key in it: {error}"))?;
    KeyPair::try_from(&key).map_err(|error| format!("the key cannot be used: {error}"))
}
