//! A proxy for the occasion before a site for the occasion. The settings are the user's where they
//! are about this machine, and ours where they would change what the trial has to show.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use super::super::exit::Failure;
use super::super::private::PrivateProxy;
use super::finding::Finding;
use super::http;
use super::site::{DISALLOWED, PROXY_NAME, Site};
use crate::audit;
use crate::clock::{Clock, SystemClock};
use crate::config::{Agents, Deny, Egress, Robots, Settings, Via};

const SUBJECT: &str = "plain HTTP";

#[derive(Debug)]
pub struct Trial {
    pub proxy: PrivateProxy,
    pub site: Site,
    pub scratch: Scratch,
}

impl Trial {
    pub fn begin(settings: &Settings) -> Result<Self, Failure> {
        let site = Site::open()?;
        let scratch = Scratch::make()?;
        let proxy = PrivateProxy::start(settings_for(settings, &site), &scratch.0.join("audit"))?;
        Ok(Self { proxy, site, scratch })
    }

    /// A page that is allowed is fetched, one that is not is denied, and the site never sees it.
    pub fn plain_http(&self) -> Finding {
        let status = |path: &str| {
            let answer = http::get(self.proxy.address, &self.site.url(path)).ok().flatten();
            answer.map(|answer| (answer.status, answer.is_ours()))
        };
        let disallowed = format!("{DISALLOWED}doctor");
        let (page, denied) = (status("/doctor"), status(&disallowed));
        match (page, denied, self.site.visit(&disallowed)) {
            (Some((200, _)), Some((403, true)), None) => {
                Finding::well(SUBJECT, "an allowed page came, a disallowed one was denied")
            }
            outcome => {
                let said = format!("the proxy does not do what it should: {outcome:?}");
                Finding::bad(SUBJECT, said, "this is a fault of courtesy: please report it")
            }
        }
    }
}

/// Why nothing can be tried.
pub fn not_begun(failure: &Failure) -> Finding {
    let said = format!("a proxy on loopback could not be started: {:#}", failure.error);
    Finding::bad(SUBJECT, said, "see what is said above; tls.extra_roots must name readable files")
}

fn settings_for(settings: &Settings, site: &Site) -> Settings {
    Settings {
        workers: Some(1),
        agents: Agents::default(),
        origins: Vec::new(),
        exemptions: Vec::new(),
        robots: Robots::default(),
        deny: Deny::default(),
        egress: Egress {
            allow: vec![site.address.ip().into()],
            via: Via::As(PROXY_NAME.into()),
            ..Egress::default()
        },
        ..settings.clone()
    }
}

/// A directory that is gone with the trial.
#[derive(Debug)]
pub struct Scratch(pub PathBuf);

impl Scratch {
    fn make() -> std::io::Result<Self> {
        let dir = std::env::temp_dir().join(format!("courtesy-doctor-{}", audit::new_id(SystemClock.wall())));
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
