//! A site on loopback, by HTTP and HTTPS, that disallows `/private/`. Its names end in `.localhost`:
//! the proxy knows what that means, and no resolver needs to.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tempfile::TempDir;

/// What the page says that is allowed.
pub const WELCOME: &str = "You are welcome here.";

/// What the page says that is not.
pub const SECRET: &str = "Nobody sees this.";

/// Line 3 is the one that refuses.
const ROBOTS_TXT: &str = "# This file is obeyed.\nUser-agent: *\nDisallow: /private/\n";

/// The names that its certificate has. The third is that of a machine elsewhere, in a network of
/// the test's own (`inside`); the last is known to every resolver.
const HOSTS: [&str; 4] = ["site.localhost", "other.localhost", "site.example", "localhost"];

/// A request that reached the site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub scheme: &'static str,
    pub path: String,
    /// Whether the proxy is named in its Via field.
    pub by_proxy: bool,
}

/// A running site; it stops when dropped.
pub struct Site {
    host: &'static str,
    http: SocketAddr,
    https: SocketAddr,
    shared: Arc<Shared>,
    directory: TempDir,
}

struct Shared {
    files: Mutex<BTreeMap<String, Vec<u8>>>,
    seen: Mutex<Vec<Seen>>,
    stopped: AtomicBool,
}

impl Site {
    pub fn start() -> Self {
        Self::at(Ipv4Addr::LOCALHOST, HOSTS[0], [0, 0])
    }

    /// By a name that other programs resolve as well.
    pub fn localhost() -> Self {
        Self::at(Ipv4Addr::LOCALHOST, HOSTS[3], [0, 0])
    }

    /// A site that is not on loopback, by its name.
    pub fn elsewhere() -> Self {
        Self::at(Ipv4Addr::UNSPECIFIED, HOSTS[2], [0, 0])
    }

    /// The same at the ports of HTTP and HTTPS, which a network of the test's own has free.
    pub fn at_the_usual_ports() -> Self {
        Self::at(Ipv4Addr::UNSPECIFIED, HOSTS[2], [80, 443])
    }

    fn at(ip: Ipv4Addr, host: &'static str, ports: [u16; 2]) -> Self {
        let directory = TempDir::new().expect("a directory");
        let tls = Arc::new(tls(&directory.path().join("root.pem")));
        let page = format!("<!doctype html><title>a page</title><p>{WELCOME}</p>\n");
        let files = [
            ("/robots.txt", ROBOTS_TXT.to_owned()),
            ("/page", page),
            ("/private/page", format!("<p>{SECRET}</p>\n")),
        ];
        let files =
            files.into_iter().map(|(path, content)| (path.to_owned(), content.into_bytes()));
        let shared = Arc::new(Shared {
            files: Mutex::new(files.collect()),
            seen: Mutex::default(),
            stopped: AtomicBool::new(false),
        });
        let http = listen((ip, ports[0]), Arc::clone(&shared), |shared, stream| {
            shared.answer("http", stream)
        });
        let https = listen((ip, ports[1]), Arc::clone(&shared), move |shared, stream| {
            let connection = ServerConnection::new(Arc::clone(&tls)).expect("sound settings");
            shared.answer("https", StreamOwned::new(connection, stream));
        });
        Self { host, http, https, shared, directory }
    }

    pub fn ports(&self) -> [u16; 2] {
        [self.http.port(), self.https.port()]
    }

    /// The certificate authority that its certificate is from, PEM.
    pub fn root(&self) -> PathBuf {
        self.directory.path().join("root.pem")
    }

    pub fn url(&self, scheme: &str, path: &str) -> String {
        self.url_of(self.host, scheme, path)
    }

    /// A URL of the site's other name.
    pub fn other_url(&self, scheme: &str, path: &str) -> String {
        self.url_of(HOSTS[1], scheme, path)
    }

    fn url_of(&self, host: &str, scheme: &str, path: &str) -> String {
        match (scheme, self.http.port(), self.https.port()) {
            ("http", 80, _) | ("https", _, 443) => format!("{scheme}://{host}{path}"),
            ("http", port, _) | (_, _, port) => format!("{scheme}://{host}:{port}{path}"),
        }
    }

    /// What every client asks for: by HTTP and HTTPS, a page and a page that is disallowed.
    pub fn four(&self) -> [String; 4] {
        [
            ("http", "/page"),
            ("http", "/private/page"),
            ("https", "/page"),
            ("https", "/private/page"),
        ]
        .map(|(scheme, path)| self.url(scheme, path))
    }

    /// Serves what is in a directory, and in those below it, under `path`.
    pub fn publish(&self, path: &str, directory: &Path) {
        for entry in fs::read_dir(directory).expect("a directory") {
            let file = entry.expect("an entry").path();
            let name = file.file_name().expect("it has a name").to_string_lossy().into_owned();
            let path = format!("{path}/{name}");
            if file.is_dir() {
                self.publish(&path, &file);
            } else {
                let content = fs::read(&file).expect("a file");
                self.shared.files.lock().expect("no test holds it").insert(path, content);
            }
        }
    }

    /// Serves this text at `path`.
    pub fn publish_text(&self, path: &str, text: &str) {
        self.shared.files.lock().expect("no test holds it").insert(path.to_owned(), text.into());
    }

    /// What has reached it so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().expect("no test holds it").clone()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Release);
        for address in [self.http, self.https] {
            // Each listener waits for one more connection.
            let _ = TcpStream::connect(address);
        }
    }
}

fn listen(
    address: (Ipv4Addr, u16),
    shared: Arc<Shared>,
    answer: impl Fn(&Shared, TcpStream) + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind(address).expect("a free port");
    let address = listener.local_addr().expect("its address");
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            if shared.stopped.load(Ordering::Acquire) {
                break;
            }
            let Ok(stream) = stream else { continue };
            let _ = stream.set_read_timeout(Some(Duration::from_secs(20)));
            let (shared, answer) = (Arc::clone(&shared), Arc::clone(&answer));
            std::thread::spawn(move || answer(&shared, stream));
        }
    });
    address
}

impl Shared {
    /// One exchange, and the connection ends.
    fn answer(&self, scheme: &'static str, mut stream: impl Read + Write) {
        let mut lines = BufReader::new(&mut stream).lines().map_while(Result::ok);
        let Some(line) = lines.next() else { return };
        let head: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
        let mut words = line.split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let path = target.split('?').next().unwrap_or_default();
        let by_proxy = head.iter().any(|field| is_via_courtesy(field));
        self.seen.lock().expect("no test holds it").push(Seen {
            scheme,
            path: path.to_owned(),
            by_proxy,
        });

        let file = self.files.lock().expect("no test holds it").get(path).cloned();
        let status = if file.is_some() { "200 OK" } else { "404 Not Found" };
        let kind = match path {
            "/robots.txt" => "text/plain",
            _ if path.ends_with("/page") => "text/html",
            _ => "application/byte-stream",
        };
        let body = file.unwrap_or_default();
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        let body = if method == "HEAD" { Vec::new() } else { body };
        let _ = stream.write_all(&[head.into_bytes(), body].concat());
        let _ = stream.flush();
    }
}

/// `Via: 1.1 courtesy`, and whatever it says of itself after that.
fn is_via_courtesy(field: &str) -> bool {
    field
        .to_ascii_lowercase()
        .strip_prefix("via: ")
        .is_some_and(|value| value.contains(" courtesy"))
}

/// A certificate for [`HOSTS`], and its authority in `root`.
fn tls(root: &Path) -> ServerConfig {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority =
        CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("a root");
    fs::write(root, authority.pem()).expect("a file");
    let key = KeyPair::generate().expect("a key");
    let leaf = CertificateParams::new(HOSTS.map(str::to_owned)).expect("names");
    let leaf = leaf.signed_by(&key, &authority).expect("a certificate");
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![leaf.into()], key)
        .expect("a certificate with its key")
}
