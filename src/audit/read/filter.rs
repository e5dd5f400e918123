//! Filters for records. Of several conditions of one kind any must hold, and one of each kind.

#[cfg(test)]
pub(in crate::audit) mod tests;

use std::borrow::Cow;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::audit::record::raw_record::{RawRecord, split_port};
use crate::audit::summary::{Needs, value_hash};
use crate::audit::{AnyLine, Content, Notice, print_time};
use crate::types::origin::host::Glob;
use crate::types::origin::{Origin, Scheme, UrlError, split_url};
use crate::types::timestamp::Timestamp;

/// The conditions by kind; a kind without any holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// From then on.
    pub since: Option<Timestamp>,
    /// Before then.
    pub until: Option<Timestamp>,
    pub origins: Vec<Place>,
    /// Product tokens, in any case.
    pub agents: Vec<Glob>,
    /// Words of [`crate::audit::Event`], and of [`Notice::WORDS`].
    pub events: Vec<String>,
    /// Words of [`crate::audit::Reason`].
    pub reasons: Vec<String>,
    pub rules: Vec<Rule>,
    pub clients: Vec<Client>,
    /// The beginnings of identifiers.
    pub ids: Vec<String>,
    /// Numbers in the chain.
    pub seqs: Vec<u64>,
    pub urls: Vec<Glob>,
    /// Names of the proxies that wrote them (`audit.node`), in any case.
    pub nodes: Vec<Glob>,
    /// The beginnings of digests of the robots.txt that decided, in lower case.
    pub sha256s: Vec<String>,
    /// The beginnings of trace ids, in lower case.
    pub traces: Vec<String>,
    pub profiles: Vec<Profile>,
    /// Who allowed what was exempted, in any case.
    pub exempted_by: Vec<Glob>,
}

impl Filter {
    /// What a summary is asked for: records that are admitted have it, and notices, where their words are asked for.
    pub fn needs(&self) -> Needs {
        let Self { since, until, origins, agents, events, reasons, clients, ids, seqs, .. } = self;
        // The rules for all agents in a notice are those of any that it does not name.
        let any = events.iter().any(|event| Notice::WORDS.contains(&event.as_str())).then_some("*");
        let mut agents = hashes(agents, |glob| glob.literal().map(value_hash));
        agents.extend(any.filter(|_| !agents.is_empty()).map(value_hash));
        Needs {
            since: *since,
            until: *until,
            seqs: seqs.clone(),
            ids: ids.clone(),
            events: events.clone(),
            reasons: reasons.clone(),
            hosts: hashes(origins, Place::hash),
            agents,
            clients: hashes(clients, Client::hash),
        }
    }
}

/// None where one of the conditions is met by values that are not known.
fn hashes<C>(conditions: &[C], hash: impl Fn(&C) -> Option<u32>) -> Vec<u32> {
    conditions.iter().map(hash).collect::<Option<_>>().unwrap_or_default()
}

/// A [`Filter`] made ready for many lines.
#[derive(Clone, Debug)]
pub struct CompiledFilter {
    filter: Filter,
    since: Option<String>,
    until: Option<String>,
}

impl CompiledFilter {
    /// Compiles `filter`.
    pub fn new(filter: Filter) -> Self {
        let (since, until) = (filter.since.map(print_time), filter.until.map(print_time));
        Self { filter, since, until }
    }

    /// Whether a line, without its end, is a record that is meant.
    pub fn admits(&self, line: &[u8]) -> bool {
        RawRecord::of(line).is_some_and(|raw| self.admits_brief(&raw))
    }

    /// Whether the members of a record's line can be read: it is in canonical form as far as that
    /// can be told at a glance.
    pub fn is_readable(line: &[u8]) -> bool {
        RawRecord::of(line).is_some()
    }

    /// Whether a line is a notice that is meant: its word is asked for, or `any_word` will do, and
    /// the other conditions hold.
    pub fn admits_notice(&self, line: &[u8], any_word: bool) -> bool {
        let is_meant = |notice: &Notice| any_word || self.asks_for(notice.word());
        matches!(Content::parse(line), Ok(Content::Notice(it)) if is_meant(&it) && self.covers_line(line, &it))
    }

    /// As [`Self::covers_notice`] of the notice of a line; that of an allowed request has what records have.
    pub fn covers_line(&self, line: &[u8], notice: &Notice) -> bool {
        match notice {
            Notice::Allowed(_) => {
                RawRecord::of_allowed(line).is_some_and(|raw| self.admits_brief(&raw))
            }
            notice => self.covers_notice(notice),
        }
    }

    /// Whether this event is one of those that are asked for.
    pub fn asks_for(&self, event: &str) -> bool {
        self.filter.events.iter().any(|wanted| wanted == event)
    }

    /// Whether no events are asked for, so that any will do.
    pub const fn asks_for_any(&self) -> bool {
        self.filter.events.is_empty()
    }

    /// Whether all conditions but that of the event hold for a notice. What only records have, it
    /// has not.
    pub fn covers_notice(&self, notice: &Notice) -> bool {
        let Filter { since: _, until: _, events: _, nodes, seqs, origins, agents, .. } =
            &self.filter;
        let Filter { reasons, rules, clients, ids, urls, .. } = &self.filter;
        let Filter { sha256s, traces, profiles, exempted_by, .. } = &self.filter;
        let is_of_records =
            !(reasons.is_empty() && rules.is_empty() && clients.is_empty() && ids.is_empty())
                || !(urls.is_empty() && sha256s.is_empty() && traces.is_empty())
                || !(profiles.is_empty() && exempted_by.is_empty());
        // A robots.txt's rules for all agents are those of an agent that it does not name.
        let is_of_agent = |glob: &Glob| {
            notice.agents().any(|agent| agent == "*" || glob.matches(agent.as_bytes()))
        };
        !is_of_records
            && self.covers(notice.time(), notice.time())
            && any(seqs, || Some(notice.seq()), |seq, found| seq == found)
            && any(nodes, || notice.node(), |glob, node| glob.matches(node.as_str().as_bytes()))
            && any(origins, || notice.origin(), |place, origin| place.covers(origin))
            && any(agents, || Some(()), |glob, ()| is_of_agent(glob))
    }

    /// The sort key of lines of several logs: their time, then their identifier; as they are
    /// written, so that texts sort as times do. A notice has no identifier, and stands before the
    /// records of its time.
    pub fn order(line: &[u8]) -> (String, String) {
        let text = |text: Option<Cow<'_, str>>| text.map(Cow::into_owned).unwrap_or_default();
        match RawRecord::of(line) {
            Some(record) => (text(record.time()), text(record.id())),
            None => {
                let time = AnyLine::parse(line).ok().and_then(|any| any.time);
                (time.map(print_time).unwrap_or_default(), String::new())
            }
        }
    }

    /// Whether any time from `start` to `end` is meant.
    pub fn covers(&self, start: Timestamp, end: Timestamp) -> bool {
        self.filter.since.is_none_or(|since| end >= since)
            && self.filter.until.is_none_or(|until| start < until)
    }

    fn admits_brief(&self, raw: &RawRecord<'_>) -> bool {
        let Filter {
            origins, agents, events, reasons, rules, clients, ids, seqs, urls, nodes, ..
        } = &self.filter;
        let Filter { sha256s, traces, profiles, exempted_by, .. } = &self.filter;
        // The cheapest first: members early in a line are found sooner.
        any(agents, || raw.agent(), |glob, agent| glob.matches(agent.as_bytes()))
            && any(events, || raw.event(), |event, found| *event == **found)
            && any(clients, || Some(raw), |client, raw| client.is(raw))
            && any(exempted_by, || raw.exempted_by(), |glob, by| glob.matches(by.as_bytes()))
            && any(ids, || raw.id(), |start, id| id.starts_with(start.as_str()))
            && any(nodes, || raw.node(), |glob, node| glob.matches(node.as_bytes()))
            && any(origins, || raw.origin(), |place, origin| place.covers(origin))
            && any(profiles, || Some(raw), |profile, raw| profile.is(raw))
            && any(reasons, || raw.reason(), |reason, found| *reason == **found)
            && any(rules, || Some(raw), |rule, raw| rule.is(raw))
            && any(sha256s, || raw.sha256(), |start, sha256| sha256.starts_with(start.as_str()))
            && any(seqs, || raw.seq(), |seq, found| seq == found)
            && self.is_in_time(raw)
            && any(traces, || raw.trace_id(), |start, trace| trace.starts_with(start.as_str()))
            && any(urls, || raw.url(), |glob, url| glob.matches(url.as_bytes()))
    }

    fn is_in_time(&self, raw: &RawRecord<'_>) -> bool {
        if self.since.is_none() && self.until.is_none() {
            return true;
        }
        raw.time().is_some_and(|time| {
            self.since.as_deref().is_none_or(|since| *time >= *since)
                && self.until.as_deref().is_none_or(|until| *time < *until)
        })
    }
}

/// Whether one of the conditions holds, or there are none.
fn any<C, V>(
    conditions: &[C],
    value: impl FnOnce() -> Option<V>,
    holds: impl Fn(&C, &V) -> bool,
) -> bool {
    conditions.is_empty()
        || value().is_some_and(|value| conditions.iter().any(|one| holds(one, &value)))
}

/// An origin, or the hosts of origins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Origin(Origin),
    /// With any scheme, and any port unless one is given.
    Host {
        host: Glob,
        port: Option<u16>,
    },
}

/// Why a text names no origins.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    #[error("an origin ends after host and port: write {0}; --url takes whole URLs")]
    Path(Origin),
    #[error(transparent)]
    Url(#[from] UrlError),
}

impl Place {
    /// Reads `https://example.com`, `example.com`, `example.com:8080`, `*.example.com`.
    pub fn parse(text: &str) -> Result<Self, PlaceError> {
        if text.contains("://") {
            return match split_url(text.as_bytes())? {
                (origin, rest) if *rest == *b"/" => Ok(Self::Origin(origin)),
                // Without its path it would stand for more than was meant.
                (origin, _) => Err(PlaceError::Path(origin)),
            };
        }
        if !text.contains('*') {
            let has_port = text.rsplit(']').next().is_some_and(|rest| rest.contains(':'));
            let origin = Origin::from_authority(Scheme::Https, text)?;
            let host = Glob::new(&origin.host().to_string());
            return Ok(Self::Host { host, port: has_port.then(|| origin.port()) });
        }
        let (host, port) = match text.rsplit_once(':') {
            None => (text, None),
            Some((host, port)) => {
                (host, Some(port.parse().map_err(|_| UrlError::Port(port.into()))?))
            }
        };
        Ok(Self::Host { host: Glob::new(host.trim_end_matches('.')), port })
    }

    /// Of the host, or of the domain that all of the hosts are below.
    fn hash(&self) -> Option<u32> {
        let glob = match self {
            Self::Origin(wanted) => return Some(value_hash(split_port(&wanted.authority()).0)),
            Self::Host { host, .. } => host,
        };
        let domain = || glob.ending().split_once('.').map(|(_, domain)| domain);
        let known = glob.literal().or_else(domain).filter(|domain| !domain.is_empty());
        known.map(value_hash)
    }

    /// `origin` as a record has it.
    pub fn covers(&self, origin: &str) -> bool {
        let Some((scheme, authority)) = origin.split_once("://") else { return false };
        match self {
            Self::Origin(wanted) => {
                scheme == wanted.scheme().as_str() && authority == wanted.authority()
            }
            Self::Host { host, port } => {
                let (name, written) = split_port(authority);
                let default = if scheme == Scheme::Http.as_str() { "80" } else { "443" };
                host.matches(name.as_bytes())
                    && port.is_none_or(|port| written.unwrap_or(default).parse() == Ok(port))
            }
        }
    }
}

/// A rule by its line or by its pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    Line(u32),
    Pattern(String),
}

impl Rule {
    /// A line number, or a pattern as it is written in the file.
    pub fn parse(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Pattern(text.into()), Self::Line)
    }

    fn is(&self, raw: &RawRecord<'_>) -> bool {
        match self {
            Self::Line(line) => raw.rule_line() == Some(*line),
            Self::Pattern(pattern) => raw.rule_pattern().is_some_and(|found| found == *pattern),
        }
    }
}

/// The clients whose records are selected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Client {
    Block(IpNet),
    Name(String),
}

impl Client {
    /// An address, a block of them, a name, or the keyed hash of an address or a name.
    pub fn parse(text: &str) -> Self {
        let block = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        block.map_or_else(|_| Self::Name(text.into()), Self::Block)
    }

    /// Of an address or a name; none of a block of many addresses.
    fn hash(&self) -> Option<u32> {
        match self {
            Self::Name(name) => Some(value_hash(name)),
            Self::Block(block) => {
                let is_one = block.prefix_len() == block.max_prefix_len();
                is_one.then(|| value_hash(&block.addr().to_string()))
            }
        }
    }

    fn is(&self, raw: &RawRecord<'_>) -> bool {
        match self {
            Self::Name(name) => {
                let is = |found: Option<Cow<'_, str>>| found.is_some_and(|found| found == *name);
                is(raw.client_name()) || is(raw.client_address())
            }
            Self::Block(block) => {
                let address = raw.client_address().and_then(|address| address.parse().ok());
                address.is_some_and(|address: IpAddr| block.contains(&address.to_canonical()))
            }
        }
    }
}

/// A dialect of robots.txt, in one version or in any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    pub name: String,
    /// The version of the table of profiles; any if absent.
    pub version: Option<u32>,
}

impl Profile {
    fn is(&self, raw: &RawRecord<'_>) -> bool {
        raw.profile_name().is_some_and(|name| name == *self.name)
            && self.version.is_none_or(|version| raw.profile_version() == Some(version))
    }
}
