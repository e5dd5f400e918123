//! Queries whose robots.txt is fetched through the proxy's own store, egress and settings, so that
//! the result is the proxy's.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use lru::LruCache;
use sha2::{Digest, Sha256};
use tokio::runtime::Runtime;

use super::answer::{Answer, OperatorPace, Outcome, Pace, Robots, Ruling, printable};
use super::args::{Agent, AgentKind};
use crate::audit::Record;
use crate::cli::exit::Failure;
use crate::clients::Client;
use crate::config::{ProfileName, Settings};
use crate::policy::decision::decide;
use crate::policy::profile::Profile;
use crate::policy::state::Policy;
use crate::proxy::{Https, Mode, Rules};
use crate::robots::{Dialect, RobotsTxt, path_of_url};
use crate::runtime::clock::{Clock, SystemClock};
use crate::server;
use crate::store::{OriginRobots, Store};
use crate::types::origin::{Origin, Scheme, UrlError, percent_encoded, split_url};
use crate::types::timestamp::Timestamp;

/// Answers as a proxy with these settings would: it fetches by the same store and egress.
pub struct Online {
    settings: Settings,
    rules: Arc<Rules>,
    store: Arc<Store>,
    /// Created once each: the store identifies a profile by its pointer.
    profiles: RefCell<HashMap<&'static str, Arc<Profile>>>,
    /// Last, so that its tasks end before what they use is dropped.
    runtime: Runtime,
}

/// A valid query.
struct Question {
    url: Vec<u8>,
    origin: Origin,
    path: Vec<u8>,
    agent: Agent,
    /// In place of the configured one.
    profile: Option<Arc<Profile>>,
    operator: OperatorPace,
}

impl Online {
    /// Starts a thread for fetches. Nothing is kept on disk.
    pub fn new(settings: &Settings) -> Result<Self, Failure> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let egress = server::build_egress(settings, Vec::new())?;
        // A thread of its own, so that fetches continue while the next line is read.
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        Ok(Self {
            settings: settings.clone(),
            rules: Arc::new(settings.rules()),
            store: server::build_store(settings, &egress, &clock, None),
            profiles: RefCell::default(),
            runtime,
        })
    }

    /// Starts a query; the result of `render` arrives at the receiver. Fails at once if the query is
    /// invalid.
    pub fn ask<T: Send + 'static>(
        &self,
        url: &[u8],
        agent: &Agent,
        profile: Option<ProfileName>,
        render: impl FnOnce(Answer) -> T + Send + 'static,
    ) -> Result<Receiver<T>, String> {
        let (origin, path) = split(url)?;
        agent.identification()?;
        let operator = self.operator(&origin);
        let question = Question {
            operator,
            url: url.to_vec(),
            origin,
            path,
            agent: agent.clone(),
            profile: profile.map(|name| self.profile(name)),
        };
        let (sender, receiver) = channel();
        let (store, rules) = (Arc::clone(&self.store), Arc::clone(&self.rules));
        self.runtime.spawn(async move {
            // The receiver is gone if the output was closed.
            let _ = sender.send(render(question.answer(&store, &rules).await));
        });
        Ok(receiver)
    }

    fn operator(&self, origin: &Origin) -> OperatorPace {
        let own = self.settings.origins.iter().find(|rule| rule.origin == *origin);
        OperatorPace {
            delay_max: self.settings.pace.max_crawl_delay,
            delay: own.and_then(|rule| rule.delay).unwrap_or(self.settings.pace.delay),
            exempted: None,
            is_tunnel: self.settings.https().tunnels(origin),
        }
    }

    fn profile(&self, name: ProfileName) -> Arc<Profile> {
        let mut profiles = self.profiles.borrow_mut();
        let profile =
            profiles.entry(name.as_str()).or_insert_with(|| Arc::new(self.settings.profile(name)));
        Arc::clone(profile)
    }
}

/// As in the proxy: a URL may have a scheme that the proxy does not serve, and the path is judged
/// as it is sent.
fn split(url: &[u8]) -> Result<(Origin, Vec<u8>), String> {
    let (origin, path) = split_url(url).map_err(|error| error.to_string())?;
    if origin.scheme() == Scheme::Ftp {
        return Err(UrlError::Scheme(origin.scheme().as_str().into()).to_string());
    }
    let path = percent_encoded(&path).into_owned();
    if path.iter().all(u8::is_ascii_graphic) {
        Ok((origin, path))
    } else {
        Err("the URL has a blank or a control character: write it percent-encoded".into())
    }
}

impl Question {
    async fn answer(&self, store: &Arc<Store>, rules: &Rules) -> Answer {
        let identification = self.agent.identification().ok();
        let agent = rules.agent(identification.as_ref(), None);
        let token = match self.agent.kind() {
            AgentKind::Token => self.agent.token(),
            // A configured rule may override what the User-Agent yields.
            AgentKind::Header => agent.token,
        };
        let profile = self.profile.as_ref().unwrap_or_else(|| rules.profile(&agent, &self.origin));
        let client = Client::at(Ipv4Addr::LOCALHOST.into());
        let known = store.lookup(&self.origin, profile, token, &client).await;
        let now = SystemClock.wall();
        let (ruling, robots) = match &known {
            Ok(known) => self.decided(known, token, now),
            Err(undecided) => (Ruling::undecided(undecided), self.robots_unknown()),
        };
        let pace = self.pace(rules, known.as_ref().ok(), token, now);
        let let_through = match ruling.decision {
            // Without a result, nothing is allowed.
            Outcome::Allow => None,
            _ if known.is_err() => None,
            _ => self.let_through(rules, rules.mode(&agent, &self.origin), token, now),
        };
        Answer {
            url: Record::url(&self.url),
            ruling,
            agent: token.map(printable),
            profile: profile.name,
            robots,
            pace,
            let_through,
        }
    }

    fn decided(
        &self,
        known: &OriginRobots,
        token: Option<&str>,
        now: Timestamp,
    ) -> (Ruling, Robots) {
        let ruling = Ruling::of(&decide(&known.policy(now), token, &self.path));
        let robots = Robots::of(self.origin.robots_url(), known.state(), ruling.line, now);
        (ruling, robots)
    }

    fn pace(
        &self,
        rules: &Rules,
        known: Option<&OriginRobots>,
        token: Option<&str>,
        now: Timestamp,
    ) -> Pace {
        let exempted = rules.exemptions.crawl_delay(&self.origin, &self.path, token, now);
        let exempted = exempted.map(|(_, delay)| delay);
        let operator = OperatorPace { exempted, ..self.operator };
        match known.map(|known| (known, known.policy(now))) {
            Some((known, Policy::Rules(copy))) => {
                Pace::of(&copy.rules, token, known.profile(), operator, now)
                    .quoting(&copy.snapshot.body, copy.rules.dialect())
            }
            _ => Pace::own(operator),
        }
    }

    /// The operator's overrides of the robots.txt.
    fn let_through(
        &self,
        rules: &Rules,
        mode: Mode,
        token: Option<&str>,
        now: Timestamp,
    ) -> Option<String> {
        let exemption = rules.exemptions.find(&self.origin, &self.path, token, now);
        exemption
            .map(|exemption| format!("an exemption by {}: {}", exemption.by, exemption.reason))
            .or_else(|| (mode == Mode::Observe).then(|| "the mode \"observe\"".into()))
    }

    fn robots_unknown(&self) -> Robots {
        Robots { url: self.origin.robots_url(), ..Robots::default() }
    }
}

/// The defaults of a query.
pub struct Defaults {
    pub agent: Agent,
    /// As given by --profile: takes precedence over settings for an agent or an origin.
    pub profile: Option<ProfileName>,
    pub configured_profile: ProfileName,
    /// The pace at any origin.
    pub pace: OperatorPace,
    /// Which origins are tunnelled.
    pub https: Https,
}

/// Created when the first file has to be fetched: offline queries need neither network nor CA
/// certificates.
pub struct LazyOnline {
    settings: Settings,
    online: OnceCell<Online>,
}

impl LazyOnline {
    /// For these settings; nothing is started yet.
    pub const fn new(settings: Settings) -> Self {
        Self { settings, online: OnceCell::new() }
    }

    /// The value, made at the first call.
    pub fn get(&self) -> Result<&Online, Failure> {
        if self.online.get().is_none() {
            let _ = self.online.set(Online::new(&self.settings)?);
        }
        Ok(self.online.get().expect("it has just been set"))
    }
}

// Queries about a given robots.txt: no network, and the decision of the file by its dialect's
// matcher, without what a proxy adds to it.

/// The number of parsed files that are kept. Queries about one file usually follow each other.
const FILES_MAX: NonZeroUsize = NonZeroUsize::new(64).expect("it is not zero");

/// The bytes that the parsed files may take; the one in use counts too, but is never dropped.
const BYTES_MAX: usize = 64 << 20;

/// Parsed files by content and dialect.
pub struct Library {
    files: LruCache<([u8; 32], Dialect), Arc<RobotsTxt>>,
    bytes: usize,
}

impl Library {
    /// A library without files.
    pub fn new() -> Self {
        Self { files: LruCache::new(FILES_MAX), bytes: 0 }
    }

    /// The file as the matcher of `profile` reads it.
    pub fn read(&mut self, body: &[u8], profile: ProfileName) -> Arc<RobotsTxt> {
        let dialect = dialect(profile);
        let key = (Sha256::digest(body).into(), dialect);
        if let Some(known) = self.files.get(&key) {
            return Arc::clone(known);
        }
        let read = Arc::new(RobotsTxt::parse(body, &key.1));
        self.bytes += read.weight();
        if let Some((_, gone)) = self.files.push(key, Arc::clone(&read)) {
            self.bytes -= gone.weight();
        }
        while self.bytes > BYTES_MAX {
            let Some((_, gone)) = self.files.pop_lru() else { break };
            self.bytes -= gone.weight();
        }
        read
    }
}

/// Without the size limit, which is for fetching: a given file is judged as it is.
fn dialect(profile: ProfileName) -> Dialect {
    let profile = Profile::named(profile.as_str()).expect("the names are those of the table");
    profile.dialect.of_matcher()
}

/// The decision of the file for a URL, or for a path and query.
pub fn ruling(rules: &RobotsTxt, token: Option<&str>, url: &[u8]) -> Ruling {
    Ruling::of(&rules.decide(token, &path_of_url(url)).into())
}
