//! The certificate and key of a CA, and the leaves that they sign.

use std::net::IpAddr;

use rcgen::{
    CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, PKCS_ED25519, SanType,
};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;

use super::certificate::Certificate;
use super::error::CertificateError;
use super::root::{date, named, params};
use crate::ca::limits::LEAF_LIFETIME;
use crate::runtime::crypto_provider::provider;
use crate::types::origin::Host;
use crate::types::timestamp::Timestamp;

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
        self.sign_leaf(&provider(), &key, &Host::Name("courtesy.invalid".into()), now)
    }
}

/// A server certificate for one name. The subject is empty: clients read the SAN only, and a long
/// name would not fit a common name.
fn leaf_params(
    provider: &CryptoProvider,
    host: &Host,
    now: Timestamp,
) -> Result<CertificateParams, CertificateError> {
    let mut params = params(provider, now, LEAF_LIFETIME)?;
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
