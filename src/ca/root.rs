//! Generates a new CA: a key and a self-signed certificate.

use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, KeyPair, KeyUsagePurpose,
};
use rustls::crypto::CryptoProvider;
use time::OffsetDateTime;

use super::certificate::print_date;
use super::error::CertificateError;
use crate::types::timestamp::Timestamp;

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
        let mut params = params(provider, now, CA_LIFE)?;
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
pub(super) fn params(
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
