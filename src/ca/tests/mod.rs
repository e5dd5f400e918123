//! The CA and its leaves as a client sees them, through a handshake in memory.

mod authority;
mod files;
mod leaves;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

use super::*;
use crate::runtime::clock::{Clock, ManualClock};
use crate::types::origin::Host;
use crate::types::timestamp::Timestamp;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A directory for a CA, and a clock that starts at 2026-11-20.
struct Place {
    dir: tempfile::TempDir,
    clock: Arc<ManualClock>,
}

impl Place {
    fn new() -> Self {
        let clock = ManualClock::starting_at(Timestamp::from_millis(1_795_132_800_000));
        Self { dir: tempfile::tempdir().unwrap(), clock }
    }

    fn now(&self) -> Timestamp {
        self.clock.wall()
    }

    fn source(&self) -> Source {
        Source::Own(self.dir.path().join("state/ca"))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join("state/ca").join(name)
    }

    fn open(&self) -> Result<Authority, CaError> {
        Authority::open(&self.source(), self.now())
    }

    fn rotate(&self) -> Authority {
        Authority::rotate(&self.source(), self.now()).unwrap()
    }

    fn leaves(&self, entries_max: usize) -> Arc<Leaves> {
        let clock: Arc<dyn Clock> = self.clock.clone();
        Arc::new(
            Leaves::open(self.source(), clock, NonZeroUsize::new(entries_max).unwrap()).unwrap(),
        )
    }

    /// Whether a client that trusts `bundle` accepts `certificates` of `host` now.
    fn accepts(&self, bundle: &str, certificates: &[CertificateDer<'_>], host: &Host) -> bool {
        let provider = Arc::new(authority_provider());
        let verifier =
            WebPkiServerVerifier::builder_with_provider(roots(bundle), provider).build().unwrap();
        let now = UnixTime::since_unix_epoch(Duration::from_millis(self.now().millis()));
        let (leaf, above) = certificates.split_first().unwrap();
        verifier.verify_server_cert(leaf, above, &server_name(host), &[], now).is_ok()
    }
}

fn authority_provider() -> rustls::crypto::CryptoProvider {
    crate::runtime::crypto_provider()
}

fn host(text: &str) -> Host {
    let origin = crate::types::origin::split_url(format!("https://{text}/").as_bytes()).unwrap().0;
    origin.host().clone()
}

fn server_name(host: &Host) -> ServerName<'static> {
    match host {
        Host::Name(name) => ServerName::try_from(name.to_string()).unwrap(),
        Host::V4(address) => ServerName::from(std::net::IpAddr::V4(*address)),
        Host::V6(address) => ServerName::from(std::net::IpAddr::V6(*address)),
    }
}

fn roots(bundle: &str) -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
        roots.add(certificate.unwrap()).unwrap();
    }
    Arc::new(roots)
}

/// A client that verifies nothing, so that tests can inspect certificates; it keeps its sessions.
fn client() -> Arc<ClientConfig> {
    #[derive(Debug)]
    struct Anything;

    impl ServerCertVerifier for Anything {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
            Ok(rustls::client::danger::ServerCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &rustls::DigitallySignedStruct,
        ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
            Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
        }

        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &rustls::DigitallySignedStruct,
        ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
            Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
        }

        fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
            authority_provider().signature_verification_algorithms.supported_schemes()
        }
    }

    let mut config = ClientConfig::builder_with_provider(Arc::new(authority_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anything))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Arc::new(config)
}

/// Both ends after a handshake.
fn handshake(
    client: &Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    name: &Host,
) -> (ClientConnection, ServerConnection) {
    let mut client = ClientConnection::new(Arc::clone(client), server_name(name)).unwrap();
    let mut server = ServerConnection::new(server).unwrap();
    // Continues after the handshake, so that the tickets arrive.
    for _ in 0..6 {
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).unwrap();
        }
        server.read_tls(&mut bytes.as_slice()).unwrap();
        server.process_new_packets().unwrap();
        bytes.clear();
        while server.wants_write() {
            server.write_tls(&mut bytes).unwrap();
        }
        client.read_tls(&mut bytes.as_slice()).unwrap();
        client.process_new_packets().unwrap();
    }
    assert!(!client.is_handshaking() && !server.is_handshaking());
    (client, server)
}

/// The certificates that a client of `host` receives.
async fn certificates(leaves: &Leaves, host: &Host) -> Vec<CertificateDer<'static>> {
    let config = leaves.server_config(host).await.unwrap();
    let (client, _) = handshake(&client(), config, host);
    client.peer_certificates().unwrap().to_vec()
}
