//! What the reference proxies share: options, listener, runtime, certificates, fields.

#![forbid(unsafe_code)]

use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;

use hudsucker::certificate_authority::RcgenAuthority;
use hudsucker::rcgen::{Issuer, KeyPair};
use hyper::header::{CONNECTION, HeaderMap, PROXY_AUTHORIZATION, TE, TRAILER, UPGRADE};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use rustls::{ClientConfig, RootCertStore};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;
use tokio::runtime::Builder;

/// As many leaf certificates as any workload needs.
const LEAVES: u64 = 20_000;

/// Where a reference proxy listens, and on how many threads it runs.
#[derive(Debug, clap::Args)]
pub struct Serving {
    #[arg(long)]
    listen: SocketAddr,
    #[arg(long)]
    threads: usize,
    /// Set TCP_NODELAY on the listener, from which accepted connections inherit it.
    #[arg(long)]
    nodelay: bool,
}

impl Serving {
    /// Runs `proxy` on the listener, on one runtime over all threads.
    ///
    /// # Panics
    ///
    /// When the listener or the runtime cannot be made: there is nothing to measure then.
    pub fn run<F: Future<Output = ()>>(&self, proxy: impl FnOnce(TcpListener) -> F) {
        let runtime = Builder::new_multi_thread().worker_threads(self.threads).enable_all().build();
        runtime.expect("a runtime").block_on(async { proxy(self.listener(false)).await });
    }

    /// Runs one `proxy` on each thread, with a runtime and a listener of its own.
    ///
    /// # Panics
    ///
    /// As [`Self::run`].
    pub fn run_each<F: Future<Output = ()>>(&self, proxy: impl Fn(TcpListener) -> F + Sync) {
        let run = || {
            let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async { proxy(self.listener(true)).await });
        };
        thread::scope(|threads| (0..self.threads).for_each(|_| _ = threads.spawn(run)));
    }

    fn listener(&self, is_one_of_several: bool) -> TcpListener {
        let socket = Socket::new(Domain::for_address(self.listen), Type::STREAM, Some(Protocol::TCP));
        let socket = socket.expect("a socket");
        socket.set_reuse_address(true).expect("SO_REUSEADDR");
        socket.set_reuse_port(is_one_of_several).expect("SO_REUSEPORT");
        socket.set_tcp_nodelay(self.nodelay).expect("TCP_NODELAY");
        socket.bind(&self.listen.into()).expect("a free address");
        // A backlog as large as that of the others, for the workloads of new connections.
        socket.listen(4096).expect("a listener");
        socket.set_nonblocking(true).expect("O_NONBLOCK");
        TcpListener::from_std(socket.into()).expect("a runtime")
    }
}

/// The options of those who intercept.
#[derive(Debug, clap::Parser)]
pub struct Interception {
    #[command(flatten)]
    pub serving: Serving,
    #[command(flatten)]
    pub certificates: Certificates,
}

/// For whom those who intercept stand, and whom they believe.
#[derive(Debug, clap::Args)]
pub struct Certificates {
    /// The CA that signs leaf certificates, PEM.
    #[arg(long)]
    ca: PathBuf,
    #[arg(long)]
    ca_key: PathBuf,
    /// The CA that origins are verified against, PEM.
    #[arg(long)]
    origin_ca: PathBuf,
}

impl Certificates {
    /// Makes leaf certificates.
    ///
    /// # Panics
    ///
    /// When there is no such CA.
    pub fn authority(&self) -> RcgenAuthority {
        let key = KeyPair::from_pem(&read(&self.ca_key)).expect("a key");
        let issuer = Issuer::from_ca_cert_pem(&read(&self.ca), key).expect("a certificate");
        RcgenAuthority::new(issuer, LEAVES, aws_lc_rs::default_provider())
    }

    /// How origins are spoken to.
    ///
    /// # Panics
    ///
    /// When there is no such CA.
    pub fn towards_origins(&self) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(&self.origin_ca).expect("a file") {
            roots.add(certificate.expect("PEM")).expect("a certificate");
        }
        ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into())
            .with_safe_default_protocol_versions()
            .expect("versions that the provider has")
            .with_root_certificates(roots)
            .with_no_client_auth()
    }
}

/// Takes out the fields of one connection (RFC 9110 §7.6.1).
pub fn strip(fields: &mut HeaderMap) {
    for name in [CONNECTION, PROXY_AUTHORIZATION, TE, TRAILER, UPGRADE] {
        fields.remove(name);
    }
    fields.remove("keep-alive");
    fields.remove("proxy-connection");
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
