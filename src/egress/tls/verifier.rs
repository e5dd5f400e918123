//! Verifies the certificates of origins, and presents no certificate of the proxy. The verifier is
//! that of `WebPKI`, wrapped only to explain more of what it refuses. The hosts in
//! `tls.insecure_origins` have another, which accepts any certificate and still requires proof of
//! its key.

use std::cell::Cell;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, WebPkiServerVerifier};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme};
use webpki::EndEntityCert;

/// Findings that the error of rustls does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Finding {
    #[error("it is self-signed, and no known issuer vouches for it")]
    SelfSigned,
    #[error(
        "its issuer is unknown, and the origin sent no certificate of the issuer: its chain is broken"
    )]
    ChainBroken,
    #[error("its key is too weak: RSA with fewer than 2048 bits")]
    WeakKey,
}

impl From<Finding> for Error {
    fn from(finding: Finding) -> Self {
        Self::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(finding))))
    }
}

/// Verifies as `WebPKI` does, with more detailed errors.
#[derive(Debug)]
pub struct Verifier(pub Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.0.verify_server_cert(end_entity, intermediates, name, ocsp, now).map_err(|error| {
            match error {
                Error::InvalidCertificate(CertificateError::UnknownIssuer)
                    if is_self_signed(end_entity) =>
                {
                    Finding::SelfSigned.into()
                }
                Error::InvalidCertificate(CertificateError::UnknownIssuer)
                    if intermediates.is_empty() =>
                {
                    Finding::ChainBroken.into()
                }
                error => error,
            }
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        or_weak_key(self.0.verify_tls12_signature(message, certificate, signed), certificate)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        or_weak_key(self.0.verify_tls13_signature(message, certificate, signed), certificate)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

fn is_self_signed(certificate: &CertificateDer<'_>) -> bool {
    EndEntityCert::try_from(certificate)
        .is_ok_and(|certificate| certificate.issuer() == certificate.subject())
}

/// Replaces the error for a weak key: the provider accepts no RSA key of fewer than 2048 bits, and
/// reports a bad signature.
fn or_weak_key<T>(
    verified: Result<T, Error>,
    certificate: &CertificateDer<'_>,
) -> Result<T, Error> {
    verified
        .map_err(|error| if has_weak_key(certificate) { Finding::WeakKey.into() } else { error })
}

fn has_weak_key(certificate: &CertificateDer<'_>) -> bool {
    /// The object identifier rsaEncryption (RFC 8017, appendix A.1).
    const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
    /// The shortest encoding of a key with a modulus of 2048 bits.
    const BYTES_MIN: usize = 256 + 32;
    let Ok(certificate) = EndEntityCert::try_from(certificate) else { return false };
    let key = certificate.subject_public_key_info();
    key.len() < BYTES_MIN && memchr::memmem::find(&key, RSA).is_some()
}

/// For `tls.insecure_origins`: accepts any certificate, if the origin holds its key.
#[derive(Debug)]
pub struct Unverified(pub WebPkiSupportedAlgorithms);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signed, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

tokio::task_local! {
    /// Whether the origin requested a client certificate in the handshake of this task.
    static REQUESTED: Cell<bool>;
}

/// Presents no client certificate, and notes that one was requested: an origin that requires one
/// often reports no more than a failed handshake.
#[derive(Debug)]
pub struct NoCertificate;

impl NoCertificate {
    /// The outcome of a handshake, and whether the origin requested a certificate in it.
    pub async fn observe<T>(handshake: impl Future<Output = T>) -> (T, bool) {
        let observed = async { (handshake.await, REQUESTED.with(Cell::get)) };
        REQUESTED.scope(Cell::new(false), observed).await
    }
}

impl ResolvesClientCert for NoCertificate {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let _ = REQUESTED.try_with(|requested| requested.set(true));
        None
    }

    fn has_certs(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::pem::PemObject;

    /// Self-signed, RSA with 1024 bits: no library here makes one any more.
    const WEAK: &str = "\
-----BEGIN CERTIFICATE-----
MIICBjCCAW+gAwIBAgIUPyRwA12OjQHRXbJHqqY598aeH6swDQYJKoZIhvcNAQEL
BQAwFzEVMBMGA1UEAwwMd2Vhay5leGFtcGxlMCAXDTI2MTEyMDIyMzI1MFoYDzIx
MjYxMDI3MjIzMjUwWjAXMRUwEwYDVQQDDAx3ZWFrLmV4YW1wbGUwgZ8wDQYJKoZI
hvcNAQEBBQADgY0AMIGJAoGBALDKGKt5IwWfpYfYT8aCMDWSR9F9e/8Pe2G1k+3K
NSiaZep3g15SNvs79dcld06KZN2XNyn2bg0+2s11Or4gqa5pPw+ft46lZPfnsaNH
QvHXkAdQErDtXQQrZnm7yEZ4A4Q3ULWFaygOg13pTaNozFTgOwBFuMOh3PHB06xk
UTAFAgMBAAGjTTBLMB0GA1UdDgQWBBTSaqgbBDVp6Iag2CL3Z8T+rlnsBjAfBgNV
HSMEGDAWgBTSaqgbBDVp6Iag2CL3Z8T+rlnsBjAJBgNVHRMEAjAAMA0GCSqGSIb3
DQEBCwUAA4GBAB0Ve+4jJyaziVUUo1nf9IxWZOKPZ7RucPgBpvLyjL73usjev5H4
ArFmi/TaniDPZ3f1zIwXBiCSr5vbids13j/xMKLtAC2bS9ocWv977imvAyU/b0tE
DpUVOhEYUOMzwumhIyVdOfx2S8cj5ll+GRZHTXfX4D8OA5KF2H/+HfKE
-----END CERTIFICATE-----
";

    #[test]
    fn a_weak_rsa_key_is_detected() {
        let certificate = CertificateDer::from_pem_slice(WEAK.as_bytes()).unwrap();
        assert!(has_weak_key(&certificate));
        assert!(is_self_signed(&certificate));
    }

    #[test]
    fn short_keys_of_other_kinds_are_not_weak() {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::new([]).unwrap().self_signed(&key).unwrap();
        assert!(!has_weak_key(certificate.der()));
    }
}
