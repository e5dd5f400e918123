//! A proxy for the occasion before a site for the occasion. The settings are the user's where they
//! are about this machine, and ours where they would change what the trial has to show.

use std::fs::DirBuilder;
use std::net::Ipv4Addr;
use std::num::NonZeroUsize;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::ServerConfig;

use super::super::ephemeral_proxy::EphemeralProxy;
use super::super::exit::Failure;
use super::super::http;
use super::finding::Finding;
use super::site::{DISALLOWED, PROXY_NAME, Site};
use crate::audit;
use crate::ca::{CaError, Leaves, Source};
use crate::config::{Agents, Deny, Egress, Robots, Settings, Via};
use crate::proxy::HttpsMode;
use crate::runtime::clock::{Clock, SystemClock};
use crate::types::origin::{Host, Scheme};

/// The User-Agent of the trial.
const USER_AGENT: &str = "User-Agent: courtesy-doctor\r\n";

#[derive(Debug)]
pub struct Trial {
    pub proxy: EphemeralProxy,
    pub site: Site,
    pub scratch: Scratch,
    /// What clients are tried with: without interception they would see a stranger's certificate.
    pub schemes: Vec<Scheme>,
}

impl Trial {
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
        Ok(Self { proxy, site, scratch, schemes })
    }

    /// Checks what the proxy does with requests that reach it in plain text.
    pub fn proxy(&self) -> Vec<Finding> {
        [("HTTP", Scheme::Http), ("HTTPS to the site", Scheme::Https)]
            .map(|it| self.asked(it.0, it.1))
            .into()
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
                Finding::bad(subject, said, "this is a fault of courtesy: please report it")
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
