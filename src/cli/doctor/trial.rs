//! A proxy for the occasion before a site for the occasion. The settings are the user's where they
//! are about this machine, and ours where they would change what the trial has to show.

use std::fs::DirBuilder;
use std::net::Ipv4Addr;
use std::num::NonZeroUsize;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;

use super::super::ephemeral_proxy::EphemeralProxy;
use super::super::exit::Failure;
use super::super::http;
use super::finding::Finding;
use super::site::{DELAY, DISALLOWED, PACED_AGENT, PROXY_NAME, Site};
use crate::audit;
use crate::ca::{CaError, Leaves, Source};
use crate::config::{Agents, Deny, Egress, Engine, Pace, Robots, Settings, Via};
use crate::pace::PaceMode;
use crate::proxy::HttpsMode;
use crate::runtime::clock::{Clock, SystemClock};
use crate::types::origin::{Host, Scheme};

/// How exactly the site sees a distance.
const ACCURACY: Duration = Duration::from_millis(20);

/// The User-Agent of the trial.
const USER_AGENT: &str = "User-Agent: courtesy-doctor\r\n";

/// A proxy and a site on loopback, between which clients are tried.
#[derive(Debug)]
pub struct Trial {
    pub proxy: EphemeralProxy,
    pub site: Site,
    pub scratch: Scratch,
    /// Whether requests are held, by the user's settings.
    pace: PaceMode,
    /// What clients are tried with: without interception they would see a stranger's certificate.
    pub schemes: Vec<Scheme>,
}

impl Trial {
    /// Starts both, with what of `settings` concerns clients.
    pub fn begin(settings: &Settings) -> Result<Self, Failure> {
        let scratch = Scratch::make()?;
        // The site's authority is made here as well; no other program trusts it.
        let (tls, root) = site_tls(scratch.0.join("site"))?;
        let site = Site::open(tls)?;
        let proxy =
            EphemeralProxy::start(settings_for(settings, &site, root), &scratch.0.join("audit"))?;
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
        let starts = ["/first", "/second"].map(|path| {
            let url = self.site.url(Scheme::Http, path);
            let _ = http::get(self.proxy.address, &url, &agent);
            self.site.visited_at(path)
        });
        let [Some(first), Some(second)] = starts else {
            return self.fault("pace", "two requests with a Crawl-delay did not reach the site");
        };
        let distance = second.saturating_duration_since(first);
        let said = format!(
            "two requests to a site with Crawl-delay {} were {} ms apart",
            DELAY.as_secs_f64(),
            distance.as_millis()
        );
        if distance + ACCURACY < DELAY {
            self.fault("pace", &said)
        } else {
            Finding::well("pace", said)
        }
    }

    fn fault(&self, subject: &str, said: &str) -> Finding {
        Finding::bad(subject, said, "this is a fault of courtesy: please report it")
    }

    /// A page that is allowed is fetched, one that is not is denied, and the site never sees it.
    fn asked(&self, subject: &str, scheme: Scheme) -> Finding {
        let status = |path: &str| {
            let answer = http::get(self.proxy.address, &self.site.url(scheme, path), USER_AGENT);
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
        // Other proxies are not to count one that lives for the occasion.
        engine: Engine::default(),
        pace: Pace { mode: Some(settings.pace().mode), ..Pace::default() },
        egress: Egress {
            allow: vec![site.address(Scheme::Http).ip().into()],
            connect_ports: vec![site.address(Scheme::Https).port()],
            via: Via::As(PROXY_NAME.into()),
            ..Egress::default()
        },
        ..settings.clone()
    };
    settings.https.tunnel.clear();
    settings.tls.extra_roots.push(root);
    settings
}

/// A directory that is gone with the trial.
#[derive(Debug)]
pub struct Scratch(pub PathBuf);

impl Scratch {
    fn make() -> std::io::Result<Self> {
        let dir = std::env::temp_dir()
            .join(format!("courtesy-doctor-{}", audit::new_id(SystemClock.wall())));
        DirBuilder::new().mode(0o700).create(&dir)?;
        Ok(Self(dir))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A temporary directory that stays is no trouble worth words.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
