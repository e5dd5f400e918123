//! A CA that can sign: read from its files, with a matching key and the attributes of a CA. Its
//! validity is checked at each use, since it may expire while the proxy runs. The proxy's own CA is
//! generated if there is none; only a rotation replaces it.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, SanType,
};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use time::OffsetDateTime;

use super::certificate::{CaError, Certificate, CertificateError, print_date};
use super::storage::{self, Storage};
use crate::runtime::crypto_provider;
use crate::types::origin::Host;
use crate::types::timestamp::Timestamp;

/// Former CAs that clients should still trust; more have been rotated away on purpose.
pub(crate) const CA_PREVIOUS_MAX: usize = 3;

/// Life of a leaf certificate from its making. Another is made after two thirds of it.
pub const LEAF_LIFETIME: Duration = Duration::from_secs(7 * 24 * 60 * 60);

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
                    let root = Root::new(&crypto_provider(), now)?;
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
        let root = Root::new(&crypto_provider(), now)?;
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

/// Life of a CA that is made here: long enough that rotating is rare, short enough that a key that
/// has leaked is not good for ever.
const CA_LIFE: Duration = Duration::from_secs(2 * 365 * 24 * 60 * 60);

/// How far before its making a certificate begins, for clients whose clock is slow.
const CERTIFICATE_BACKDATE: Duration = Duration::from_secs(60 * 60);

/// Bytes of a serial number: 126 random bits, more than the 64 that are asked of public CAs, and
/// within the 20 bytes of RFC 5280 §4.1.2.2.
const SERIAL_BYTES: usize = 16;

/// A CA in the form of its files.
pub(super) struct Root {
    pub certificate_pem: String,
    /// PKCS #8.
    pub key_pem: String,
}

impl Root {
    /// RFC 5280 §4.2.1: the extensions that strict clients require, critical where they have to be,
    /// and a path length of zero, so that no leaf can sign.
    pub fn new(provider: &CryptoProvider, now: Timestamp) -> Result<Self, CertificateError> {
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
        let mut params = root_params(provider, now, CA_LIFE)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        // The common name: the day, and the beginning of the key identifier.
        let identifier = params.key_identifier(&key);
        let name = format!(
            "courtesy CA {} {}",
            print_date(now),
            crate::types::sanitize::hex(&identifier[..3])
        );
        params.distinguished_name = named(&name);
        let certificate = params.self_signed(&key)?;
        Ok(Self { certificate_pem: certificate.pem(), key_pem: key.serialize_pem() })
    }
}

/// Common to all certificates: a random serial number, both key identifiers, and a validity that
/// begins slightly in the past.
pub(super) fn root_params(
    provider: &CryptoProvider,
    now: Timestamp,
    life: std::time::Duration,
) -> Result<CertificateParams, CertificateError> {
    let mut params = CertificateParams::default();
    params.serial_number = Some(serial_number(provider)?.to_vec().into());
    params.use_authority_key_identifier_extension = true;
    params.not_before = date(now) - CERTIFICATE_BACKDATE;
    params.not_after = date(now) + life;
    Ok(params)
}

/// RFC 5280 §4.1.2.2: positive, and unique per issuer. rcgen's default is a hash of the key, which
/// all leaves share: Firefox refuses a second certificate with a known serial number.
fn serial_number(provider: &CryptoProvider) -> Result<[u8; SERIAL_BYTES], CertificateError> {
    let mut bytes = [0; SERIAL_BYTES];
    provider.secure_random.fill(&mut bytes).map_err(|_| CertificateError::Random)?;
    // Positive, and of constant length.
    bytes[0] = bytes[0] & 0x7f | 0x40;
    Ok(bytes)
}

pub(super) fn named(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name
}

/// Clamps the date of a wrong clock to what a certificate can express.
pub(super) fn date(moment: Timestamp) -> OffsetDateTime {
    let latest = time::macros::datetime!(9000-01-01 00:00 UTC);
    let since_epoch =
        time::Duration::milliseconds(i64::try_from(moment.millis()).unwrap_or(i64::MAX));
    OffsetDateTime::UNIX_EPOCH.checked_add(since_epoch).unwrap_or(latest).min(latest)
}

/// A CA's certificate with its key.
pub(super) struct Signer {
    certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

impl Signer {
    /// `key` must be that of `certificate`.
    pub fn new(certificate: Certificate, key: KeyPair) -> Result<Self, rcgen::Error> {
        let issuer = Issuer::from_ca_cert_der(certificate.der(), key)?;
        Ok(Self { certificate, issuer })
    }

    /// The certificate of the CA.
    pub const fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// Whether a signature takes no longer than handing the work to another thread, as with
    /// elliptic curves of this size.
    pub fn signs_at_once(&self) -> bool {
        [&PKCS_ECDSA_P256_SHA256, &PKCS_ED25519].contains(&self.issuer.key().algorithm())
    }

    /// A leaf for `host` with `key`, valid within the CA's own validity.
    pub fn sign_leaf(
        &self,
        provider: &CryptoProvider,
        key: &KeyPair,
        host: &Host,
        now: Timestamp,
    ) -> Result<CertificateDer<'static>, CertificateError> {
        let ca = &self.certificate;
        if let Some(invalidity) = ca.invalidity(now) {
            return Err(CertificateError::Invalid(invalidity));
        }
        let mut params = leaf_params(provider, host, now)?;
        params.not_before = params.not_before.max(date(ca.not_before()));
        params.not_after = params.not_after.min(date(ca.not_after()));
        Ok(params.signed_by(key, &self.issuer)?.into())
    }

    /// A leaf that is never used, for a time at which the CA is valid.
    pub fn probe(&self, now: Timestamp) -> Result<CertificateDer<'static>, CertificateError> {
        let now = now.max(self.certificate.not_before()).min(self.certificate.not_after());
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        self.sign_leaf(&crypto_provider(), &key, &Host::Name("courtesy.invalid".into()), now)
    }
}

/// A server certificate for one name. The subject is empty: clients read the SAN only, and a long
/// name would not fit a common name.
fn leaf_params(
    provider: &CryptoProvider,
    host: &Host,
    now: Timestamp,
) -> Result<CertificateParams, CertificateError> {
    let mut params = root_params(provider, now, LEAF_LIFETIME)?;
    params.distinguished_name = named("courtesy");
    params.subject_alt_names = vec![match host {
        Host::Name(name) => SanType::DnsName(name.to_string().try_into()?),
        Host::V4(address) => SanType::IpAddress(IpAddr::V4(*address)),
        Host::V6(address) => SanType::IpAddress(IpAddr::V6(*address)),
    }];
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    Ok(params)
}
