//! A temporary proxy in front of a test site on loopback. The settings are the user's where they are
//! about this machine, and ours where they would change what the trial has to show.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::finding::Finding;
use crate::ca::{CaError, Leaves, Source};
use crate::cli::ephemeral_proxy::EphemeralProxy;
use crate::cli::exit::Failure;
use crate::cli::health;
use crate::cli::temporary_dir::{Purpose, TemporaryDir};
use crate::config::{Agents, Deny, Egress, Engine, Pace, Robots, Settings};
use crate::pace::PaceMode;
use crate::proxy::HttpsMode;
use crate::runtime::clock::{SystemClock, monotonic};
use crate::runtime::lock::Lock;
use crate::types::origin::{Host, Scheme};

/// The User-Agent of the trial.
const USER_AGENT: &str = "User-Agent: courtesy-doctor\r\n";

/// A proxy and a site on loopback, between which clients are tried.
#[derive(Debug)]
pub struct Trial {
    pub proxy: EphemeralProxy,
    pub site: Site,
    pub scratch: TemporaryDir,
    /// Whether requests are held, by the user's settings.
    pace: PaceMode,
    /// What clients are tried with: without interception they would see a stranger's certificate.
    pub schemes: Vec<Scheme>,
}

impl Trial {
    /// Starts both, with what of `settings` concerns clients.
    pub fn begin(settings: &Settings) -> Result<Self, Failure> {
        let scratch = TemporaryDir::new(Purpose::Doctor)?;
        // The site's authority is made here as well; no other program trusts it.
        let (tls, root) = site_tls(scratch.path().join("site"))?;
        let site = Site::open(tls)?;
        let proxy = EphemeralProxy::start(
            settings_for(settings, &site, root),
            &scratch.path().join("audit"),
            None,
        )?;
        let schemes = match settings.https().mode {
            HttpsMode::Intercept => vec![Scheme::Http, Scheme::Https],
            HttpsMode::Classify => vec![Scheme::Http],
        };
        Ok(Self { proxy, site, scratch, pace: settings.pace().mode, schemes })
    }

    /// Checks what the proxy does with requests that reach it in plain text.
    pub fn proxy(&self) -> Vec<Finding> {
        let schemes = [("HTTP", Scheme::Http), ("HTTPS to the site", Scheme::Https)];
        let answered = schemes.map(|(subject, scheme)| self.asked(subject, scheme));
        answered.into_iter().chain([self.paced()]).collect()
    }

    /// Two requests of an agent that the site asks for a delay start that far apart.
    fn paced(&self) -> Finding {
        if self.pace != PaceMode::Enforce {
            let said = format!("no request is held until its time (pace.mode = \"{}\")", self.pace);
            return Finding::well("pace", said);
        }
        let agent = format!("User-Agent: {PACED_AGENT}\r\n");
        // Not from when the site saw the first, which a busy machine lets it see late.
        let asked = monotonic();
        let starts = ["/first", "/second"].map(|path| {
            let url = self.site.url(Scheme::Http, path);
            let _ = health::http_get(self.proxy.address, &url, &agent);
            self.site.visited_at(path)
        });
        let [Some(_), Some(second)] = starts else {
            return self.fault("pace", "two requests with a Crawl-delay did not reach the site");
        };
        let distance = second.saturating_duration_since(asked);
        let said = format!(
            "two requests to a site with Crawl-delay {} were {} ms apart",
            DELAY.as_secs_f64(),
            distance.as_millis()
        );
        if distance < DELAY { self.fault("pace", &said) } else { Finding::well("pace", said) }
    }

    fn fault(&self, subject: &str, said: &str) -> Finding {
        Finding::bad(subject, said, "this is a fault of courtesy: please report it")
    }

    /// A page that is allowed is fetched, one that is not is denied, and the site never sees it.
    fn asked(&self, subject: &str, scheme: Scheme) -> Finding {
        let status = |path: &str| {
            let answer =
                health::http_get(self.proxy.address, &self.site.url(scheme, path), USER_AGENT);
            let answer = answer.ok().flatten();
            answer.map(|answer| (answer.status, answer.is_ours()))
        };
        let disallowed = format!("{DISALLOWED}{}", scheme.as_str());
        let (page, denied) = (status("/"), status(&disallowed));
        match (page, denied, self.site.visit(&disallowed)) {
            (Some((200, _)), Some((403, true)), None) => {
                Finding::well(subject, "an allowed page came, a disallowed one was denied")
            }
            outcome => {
                let said = format!("the proxy does not do what it should: {outcome:?}");
                self.fault(subject, &said)
            }
        }
    }
}

/// Why nothing can be tried.
pub fn not_begun(failure: &Failure) -> Finding {
    let said = format!("a proxy on loopback could not be started: {:#}", failure.error);
    Finding::bad("HTTP", said, "see the findings above; tls.extra_roots must name readable files")
}

fn site_tls(dir: PathBuf) -> Result<(Arc<ServerConfig>, PathBuf), Failure> {
    let leaves = Leaves::open(Source::Own(dir), Arc::new(SystemClock), NonZeroUsize::MIN)?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let config = runtime.block_on(leaves.server_config(&Host::V4(Ipv4Addr::LOCALHOST)));
    let mut config = ServerConfig::clone(&*config.map_err(CaError::from)?);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok((Arc::new(config), leaves.authority().file().to_owned()))
}

fn settings_for(settings: &Settings, site: &Site, root: PathBuf) -> Settings {
    let mut settings = Settings {
        workers: Some(1),
        agents: Agents::default(),
        origins: Vec::new(),
        exemptions: Vec::new(),
        robots: Robots::default(),
        deny: Deny::default(),
        // Other proxies are not to count a temporary one.
        engine: Engine::default(),
        pace: Pace { mode: Some(settings.pace().mode), ..Pace::default() },
        egress: Egress {
            allow: vec![site.address(Scheme::Http).ip().into()],
            connect_ports: vec![site.address(Scheme::Https).port()],
            ..Egress::default()
        },
        ..settings.clone()
    };
    settings.https.tunnel.clear();
    settings.tls.extra_roots.push(root);
    settings
}

// A test site on loopback, by HTTP and HTTPS, that records its requests and whether they came through
// our proxy.

/// A path that the robots.txt of the site disallows.
pub const DISALLOWED: &str = "/disallowed/";

/// The agent that the robots.txt asks for a delay, and that delay.
pub const PACED_AGENT: &str = "courtesy-doctor-paced";
/// See [`PACED_AGENT`].
pub const DELAY: Duration = Duration::from_millis(500);

const TIMEOUT: Duration = Duration::from_secs(5);
const HEAD_BYTES_MAX: u64 = 16 * 1024;

/// A site of its own on loopback, by HTTP and HTTPS, that notes its visits.
#[derive(Clone, Debug)]
pub struct Site {
    plain: SocketAddr,
    secure: SocketAddr,
    visits: Arc<Lock<Vec<Visit>>>,
}

#[derive(Clone, Debug)]
struct Visit {
    path: String,
    at: Instant,
    through_proxy: bool,
}

impl Site {
    /// Opens it; it stays open as long as the process lives.
    pub fn open(tls: Arc<ServerConfig>) -> io::Result<Self> {
        let [plain, secure] = [(); 2].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
        let (plain, secure) = (plain?, secure?);
        let site = Self {
            plain: plain.local_addr()?,
            secure: secure.local_addr()?,
            visits: Arc::default(),
        };
        site.listen(plain, |site, stream| site.serve(stream))?;
        site.listen(secure, move |site, stream| {
            // A client that does not like the handshake has said so to its user.
            if let Ok(connection) = ServerConnection::new(Arc::clone(&tls)) {
                site.serve(StreamOwned::new(connection, stream));
            }
        })?;
        Ok(site)
    }

    /// Where it listens.
    pub const fn address(&self, scheme: Scheme) -> SocketAddr {
        match scheme {
            Scheme::Https => self.secure,
            _ => self.plain,
        }
    }

    /// The URL of `path` at this site.
    pub fn url(&self, scheme: Scheme, path: &str) -> String {
        format!("{}://{}{path}", scheme.as_str(), self.address(scheme))
    }

    /// How `path` was asked for: through the proxy (`true`), around it, or not at all.
    pub fn visit(&self, path: &str) -> Option<bool> {
        let visits = self.visits.lock();
        let mut of_path = visits.iter().filter(|visit| visit.path == path).peekable();
        of_path.peek()?;
        Some(of_path.all(|visit| visit.through_proxy))
    }

    /// When `path` was asked for first.
    pub fn visited_at(&self, path: &str) -> Option<Instant> {
        self.visits.lock().iter().find(|visit| visit.path == path).map(|visit| visit.at)
    }

    fn listen(
        &self,
        listener: TcpListener,
        serve: impl Fn(&Self, TcpStream) + Clone + Send + 'static,
    ) -> io::Result<()> {
        let site = self.clone();
        std::thread::Builder::new().name("site".into()).spawn(move || {
            for stream in listener.incoming().flatten() {
                let (site, serve) = (site.clone(), serve.clone());
                let _ = stream.set_read_timeout(Some(TIMEOUT));
                std::thread::spawn(move || serve(&site, stream));
            }
        })?;
        Ok(())
    }

    fn serve(&self, mut stream: impl Read + Write) {
        let head = BufReader::new((&mut stream).take(HEAD_BYTES_MAX));
        let mut lines = head.lines().map_while(Result::ok);
        let request = lines.next().unwrap_or_default();
        let at = monotonic();
        let is_via = |field: &String| {
            field.to_ascii_lowercase().starts_with("via:") && field.contains(" courtesy (")
        };
        // To the end of the head, whatever is in it: what is left unread resets the connection.
        let fields: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
        let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
        let body = match path.as_str() {
            "/robots.txt" => format!(
                "User-agent: *\nDisallow: {DISALLOWED}\n\nUser-agent: {PACED_AGENT}\nCrawl-delay: {}\n",
                DELAY.as_secs_f64()
            ),
            _ => "courtesy doctor was here\n".to_owned(),
        };
        let visit = Visit { path, at, through_proxy: fields.iter().any(is_via) };
        self.visits.lock().push(visit);
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n{body}"
        );
        // The client may have disconnected.
        let _ = stream.write_all(answer.as_bytes()).and_then(|()| stream.flush());
    }
}
