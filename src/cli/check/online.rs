//! Queries whose robots.txt is fetched through the proxy's own store, egress and settings, so that
//! the result is the proxy's.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use tokio::runtime::Runtime;

use super::agent::{Agent, AgentKind};
use super::answer::{Answer, Outcome, Robots, Ruling, printable};
use super::pace::{OperatorPace, Pace};
use crate::audit::Record;
use crate::cli::exit::Failure;
use crate::clients::Client;
use crate::config::{ProfileName, Settings};
use crate::policy::decision::decide;
use crate::policy::profile::Profile;
use crate::policy::state::Policy;
use crate::proxy::{Mode, Rules};
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

    /// Starts a query; the result of `tell` arrives at the receiver. Fails at once if the query is
    /// invalid.
    pub fn ask<T: Send + 'static>(
        &self,
        url: &[u8],
        agent: &Agent,
        profile: Option<ProfileName>,
        tell: impl FnOnce(Answer) -> T + Send + 'static,
    ) -> Result<Receiver<T>, String> {
        let (origin, path) = split(url, self.settings.limits.strict_target)?;
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
            let _ = sender.send(tell(question.answer(&store, &rules).await));
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
fn split(url: &[u8], strict_target: bool) -> Result<(Origin, Vec<u8>), String> {
    let (origin, path) = split_url(url).map_err(|error| error.to_string())?;
    if origin.scheme() == Scheme::Ftp {
        return Err(UrlError::Scheme(origin.scheme().as_str().into()).to_string());
    }
    let path = match percent_encoded(&path) {
        Cow::Owned(_) if strict_target => {
            return Err(
                "the URL has bytes that must be percent-encoded (limits.strict_target)".into()
            );
        }
        encoded => encoded.into_owned(),
    };
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
