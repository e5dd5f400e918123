//! A leaf certificate and its TLS configuration. All leaves of a process share one key, which is
//! never written.

use std::sync::Arc;

use rcgen::KeyPair;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::ProducesTickets;
use rustls::sign::{CertifiedKey, SigningKey, SingleCertAndKey};

use super::authority::Authority;
use super::error::CertificateError;
use super::tickets::HostTickets;
use crate::ca::limits::LEAF_LIFETIME;
use crate::runtime::clock::SystemClock;
use crate::runtime::crypto_provider::provider;
use crate::types::origin::Host;
use crate::types::timestamp::Timestamp;

/// The TLS configuration for one host, with its expiry.
#[derive(Debug)]
pub(super) struct Leaf {
    pub config: Arc<ServerConfig>,
    made_at: Timestamp,
    renew_at: Timestamp,
}

/// Issues leaves, all with one key.
#[derive(Debug)]
pub(super) struct LeafIssuer {
    key: KeyPair,
    signing_key: Arc<dyn SigningKey>,
    provider: Arc<CryptoProvider>,
    tickets: Arc<dyn ProducesTickets>,
}

impl Leaf {
    /// Whether it is in the first two thirds of its lifetime. Not before its start, as after a
    /// wrong clock has been corrected.
    pub fn is_fresh(&self, now: Timestamp) -> bool {
        self.made_at <= now && now < self.renew_at
    }
}

impl LeafIssuer {
    /// An issuer with a key of its own, which all its leaves share.
    pub fn new() -> Result<Self, CertificateError> {
        let provider = provider();
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
        let der = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let signing_key = provider.key_provider.load_private_key(der)?;
        Ok(Self { key, signing_key, provider: Arc::new(provider), tickets: Ticketer::new()? })
    }

    /// Issues a leaf certificate for `host`.
    pub fn issue(
        &self,
        authority: &Authority,
        host: &Host,
        now: Timestamp,
    ) -> Result<Leaf, CertificateError> {
        let ends = authority.certificate().not_after().min(now.plus(LEAF_LIFETIME));
        let certificate = authority.signer().sign_leaf(&self.provider, &self.key, host, now)?;
        let chain = std::iter::once(certificate).chain(authority.chain()).collect();
        let renew_at = now.plus(now.until(ends) * 2 / 3);
        Ok(Leaf { config: Arc::new(self.config(chain, host)?), made_at: now, renew_at })
    }

    /// TLS 1.2 and 1.3; sessions are resumed by ticket, so the server stores none; no early data,
    /// which could be replayed.
    fn config(
        &self,
        chain: Vec<CertificateDer<'static>>,
        host: &Host,
    ) -> Result<ServerConfig, CertificateError> {
        let certified = CertifiedKey::new(chain, Arc::clone(&self.signing_key));
        let mut config =
            ServerConfig::builder_with_details(Arc::clone(&self.provider), Arc::new(SystemClock))
                .with_safe_default_protocol_versions()?
                .with_no_client_auth()
                .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // In the server's order: clients of this proxy are on this machine or near it, with the
        // same CPU features.
        config.ignore_client_order = true;
        // One ticket per connection, also after a resumption, so that the client has one for the
        // next.
        config.send_tls13_tickets = 1;
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        config.ticketer = Arc::new(HostTickets::new(host, Arc::clone(&self.tickets)));
        Ok(config)
    }
}
