//! An origin on every address there is. It notes to which each connection came, before a word is said,
//! and when each page was requested.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use courtesy::runtime::clock::monotonic;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::names::ZONE;
use crate::testkit::processes::until;

/// Where it listens; TLS is spoken on the last.
pub const PORTS: [u16; 3] = [80, 8080, 443];

/// Its robots.txt.
const RULES: &str = "User-agent: *\nDisallow: /private/\n";

/// Addresses that its certificate is for, besides the names one label below the zone.
const CERTIFIED: [&str; 2] = ["8.8.8.8", "2606:4700::1111"];

/// A connection that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Contact {
    pub to: IpAddr,
    pub port: u16,
}

/// The origin; it lasts as long as the process.
#[derive(Clone)]
pub struct Everywhere {
    shared: Arc<Shared>,
    ca: String,
}

struct Shared {
    /// Whether each connection has one request.
    closes: bool,
    contacts: Mutex<Vec<Contact>>,
    /// When pages were requested, by the first byte of each request.
    pages: Mutex<Vec<Instant>>,
    /// Where a host and path lead.
    redirects: Mutex<HashMap<String, String>>,
    tls: Arc<ServerConfig>,
}

impl Everywhere {
    pub fn start() -> Self {
        Self::begin(false)
    }

    /// One that closes each connection after one answer.
    pub fn closing() -> Self {
        Self::begin(true)
    }

    fn begin(closes: bool) -> Self {
        let (ca, tls) = certified();
        let shared = Shared {
            closes,
            contacts: Mutex::default(),
            pages: Mutex::default(),
            redirects: Mutex::default(),
            tls,
        };
        let everywhere = Self { shared: Arc::new(shared), ca };
        for port in PORTS {
            // On Linux it answers IPv4 too, as mapped addresses.
            let listener =
                TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).expect("a port of this world");
            let shared = Arc::clone(&everywhere.shared);
            thread::spawn(move || shared.accept(&listener));
        }
        everywhere
    }

    /// Who vouches for it, PEM.
    pub fn ca(&self) -> &str {
        &self.ca
    }

    /// From now on this host and path lead elsewhere.
    pub fn redirect(&self, from: &str, location: &str) {
        self.shared.redirects().insert(from.to_owned(), location.to_owned());
    }

    /// When pages were requested, in order.
    pub fn pages(&self) -> Vec<Instant> {
        let mut pages = self.shared.pages().clone();
        pages.sort();
        pages
    }

    /// All contacts that were made so far, which are forgotten.
    #[track_caller]
    pub fn take_contacts(&self) -> Vec<Contact> {
        // Connections are accepted in their order: when ours have been, so have all before.
        for port in PORTS {
            let mark = TcpStream::connect((BARRIER, port)).expect("it listens");
            until("what came is noted", || {
                self.shared.contacts().iter().any(|it| *it == barrier(port))
            });
            drop(mark);
        }
        let contacts = std::mem::take(&mut *self.shared.contacts());
        contacts.into_iter().filter(|contact| *contact != barrier(contact.port)).collect()
    }
}

/// An address that no test names.
const BARRIER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(9, 9, 9, 9));

const fn barrier(port: u16) -> Contact {
    Contact { to: BARRIER, port }
}

impl Shared {
    fn contacts(&self) -> std::sync::MutexGuard<'_, Vec<Contact>> {
        self.contacts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pages(&self) -> std::sync::MutexGuard<'_, Vec<Instant>> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn redirects(&self) -> std::sync::MutexGuard<'_, HashMap<String, String>> {
        self.redirects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        while let Ok((stream, _)) = listener.accept() {
            let address = stream.local_addr().expect("where it came to, though it be gone");
            self.contacts().push(Contact { to: plain(address), port: address.port() });
            let shared = Arc::clone(self);
            thread::spawn(move || shared.serve(stream, address.port() == 443));
        }
    }

    /// Answers requests to their end, whoever ends them.
    fn serve(&self, stream: TcpStream, secure: bool) -> io::Result<()> {
        stream.set_nodelay(true)?;
        if secure {
            let connection =
                ServerConnection::new(Arc::clone(&self.tls)).map_err(io::Error::other)?;
            return self.answer(BufReader::new(StreamOwned::new(connection, stream)));
        }
        self.answer(BufReader::new(stream))
    }

    fn answer<S: Read + Write>(&self, mut stream: BufReader<S>) -> io::Result<()> {
        loop {
            let (mut path, mut host) = (String::new(), String::new());
            stream.fill_buf()?;
            let begun = monotonic();
            for number in 0.. {
                let mut line = String::new();
                if stream.read_line(&mut line)? == 0 {
                    return Ok(());
                }
                match line.split_once(": ") {
                    _ if number == 0 => {
                        path = line.split(' ').nth(1).unwrap_or_default().to_owned()
                    }
                    _ if line.trim_end().is_empty() => break,
                    Some((name, value)) if name.eq_ignore_ascii_case("host") => {
                        host = value.trim().to_owned()
                    }
                    _ => {}
                }
            }
            if path != "/robots.txt" {
                self.pages().push(begun);
            }
            let location = self.redirects().get(&format!("{host}{path}")).cloned();
            let (status, fields, body) = match location {
                Some(location) => (302, format!("Location: {location}\r\n"), String::new()),
                None if path == "/robots.txt" => (200, String::new(), RULES.to_owned()),
                None => (200, String::new(), format!("{path} of {host}\n")),
            };
            let length = body.len();
            let close = if self.closes { "Connection: close\r\n" } else { "" };
            let head = format!(
                "HTTP/1.1 {status} Said\r\n{fields}{close}Content-Length: {length}\r\n\r\n"
            );
            stream.get_mut().write_all((head + &body).as_bytes())?;
            stream.get_mut().flush()?;
            if self.closes {
                return Ok(());
            }
        }
    }
}

/// An IPv4 address is one, though it comes as a mapped one.
fn plain(address: SocketAddr) -> IpAddr {
    address.ip().to_canonical()
}

/// A CA, and what speaks TLS with a certificate of it.
fn certified() -> (String, Arc<ServerConfig>) {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = params.self_signed(&key).expect("a certificate").pem();
    let issuer = Issuer::from_params(&params, key);
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new([format!("*.{ZONE}")]).expect("a name");
    let addresses = CERTIFIED.map(|text| SanType::IpAddress(text.parse().expect("an address")));
    params.subject_alt_names.extend(addresses);
    let certificate = params.signed_by(&key, &issuer).expect("a certificate");
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(
        rustls::crypto::aws_lc_rs::default_provider(),
    ))
    .with_safe_default_protocol_versions()
    .expect("versions of TLS")
    .with_no_client_auth()
    .with_single_cert(vec![certificate.der().clone()], key)
    .expect("a certificate with its key");
    (ca, Arc::new(config))
}
