//! An authority that issues any certificate that it is asked for, and servers that show it.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

pub const BOTH: &[&[u8]] = &[b"h2", b"http/1.1"];
pub const HTTP1: &[&[u8]] = &[b"http/1.1"];

/// A chain as an origin sends it, and the key of its first certificate.
pub struct Site {
    pub chain: Vec<CertificateDer<'static>>,
    pub key: KeyPair,
}

/// Whoever signs certificates.
pub struct Authority {
    pub certificate: CertificateDer<'static>,
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub fn new() -> Self {
        Self::named("an authority")
    }

    pub fn named(name: &str) -> Self {
        let (params, key) = (Self::params(name), KeyPair::generate().unwrap());
        let certificate = params.self_signed(&key).unwrap();
        let (pem, certificate) = (certificate.pem(), certificate.der().clone());
        Self { certificate, pem, issuer: Issuer::new(params, key) }
    }

    pub fn params(name: &str) -> CertificateParams {
        let mut params = params(&[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params
    }

    /// Another authority below this one.
    pub fn below(&self, params: CertificateParams) -> Self {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let (pem, certificate) = (certificate.pem(), certificate.der().clone());
        Self { certificate, pem, issuer: Issuer::new(params, key) }
    }

    pub fn issue(&self, params: &CertificateParams) -> Site {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Site { chain: vec![certificate.der().clone()], key }
    }

    /// A certificate that nothing is wrong with.
    pub fn good(&self) -> Site {
        self.issue(&params(&["127.0.0.1", "localhost"]))
    }
}

pub fn params(names: &[&str]) -> CertificateParams {
    CertificateParams::new(names.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap()
}

impl Site {
    /// What a server shows: whether key and certificate belong together is not looked at.
    pub fn certified(&self) -> Arc<CertifiedKey> {
        let key = PrivateKeyDer::try_from(self.key.serialize_der()).unwrap();
        let key = aws_lc_rs::sign::any_supported_type(&key).unwrap();
        Arc::new(CertifiedKey::new(self.chain.clone(), key))
    }

    pub fn config(&self, alpn: &[&[u8]]) -> ServerConfig {
        let mut config =
            server().with_no_client_auth().with_cert_resolver(Arc::new(Shows(self.certified())));
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        config
    }
}

/// A server's configuration as far as every one has it.
pub fn server() -> rustls::ConfigBuilder<ServerConfig, rustls::WantsVerifier> {
    ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
}

/// Shows one certificate to everybody.
#[derive(Debug)]
pub struct Shows(pub Arc<CertifiedKey>);

impl rustls::server::ResolvesServerCert for Shows {
    fn resolve(&self, _: rustls::server::ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}
