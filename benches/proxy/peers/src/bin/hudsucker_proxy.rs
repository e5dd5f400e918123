//! hudsucker with a handler that does nothing: what interception costs with the crate for it.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use clap::Parser;
use hudsucker::certificate_authority::RcgenAuthority;
use hudsucker::rcgen::{Issuer, KeyPair};
use hudsucker::{HttpHandler, Proxy};
use hyper_util::client::legacy::connect::HttpConnector;
use peers::Serving;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use rustls::{ClientConfig, RootCertStore};

/// As many leaf certificates as any workload needs.
const LEAVES: u64 = 20_000;

#[derive(Parser)]
struct Args {
    #[command(flatten)]
    serving: Serving,
    /// The CA that signs leaf certificates, PEM.
    #[arg(long)]
    ca: PathBuf,
    #[arg(long)]
    ca_key: PathBuf,
    /// The CA that origins are verified against, PEM.
    #[arg(long)]
    origin_ca: PathBuf,
}

#[derive(Clone)]
struct Nothing;

impl HttpHandler for Nothing {}

fn main() {
    let args = Args::parse();
    let key = KeyPair::from_pem(&read(&args.ca_key)).expect("a key");
    let issuer = Issuer::from_ca_cert_pem(&read(&args.ca), key).expect("a certificate");
    let authority = RcgenAuthority::new(issuer, LEAVES, aws_lc_rs::default_provider());
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    let connector = hyper_rustls::HttpsConnectorBuilder::new()
        .with_tls_config(towards_origins(&args.origin_ca))
        .https_or_http()
        .enable_http1()
        .wrap_connector(connector);
    args.serving.run(async |listener| {
        let proxy = Proxy::builder()
            .with_listener(listener)
            .with_ca(authority)
            .with_http_connector(connector)
            .with_http_handler(Nothing)
            .build()
            .expect("a proxy");
        proxy.start().await.expect("it serves until it is killed");
    });
}

fn towards_origins(ca: &Path) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(ca).expect("a file") {
        roots.add(certificate.expect("PEM")).expect("a certificate");
    }
    ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into())
        .with_safe_default_protocol_versions()
        .expect("versions that the provider has")
        .with_root_certificates(roots)
        .with_no_client_auth()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
