//! A log made for a test, line by line, as the writer chains them.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::audit::{
    AgentSource, Change, Client, Content, CountsEvent, Event, Exemption, Gap, GapEvent, Group,
    Head, Notice, Paced, PacedEvent, Profile, Pruned, PrunedEvent, Reason, Record, ReloadTrigger,
    Robots, RobotsStatus, Rule, SettingsChanged, SettingsEvent, SiteCounts, StartMode, Started,
    StartedEvent, Stopped, StoppedEvent, Torn, TornEvent, Totals, new_id,
};
use crate::types::sanitize::sha256_hex;
use crate::types::timestamp::Timestamp;

/// 2026-11-20T12:00:00Z, a Friday.
pub const NOON: Timestamp = Timestamp::from_millis(1_795_176_000_000);
pub const HOUR: Duration = Duration::from_secs(60 * 60);
pub const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Debug)]
pub struct Log {
    pub head: Head,
    /// Without their ends.
    pub lines: Vec<Vec<u8>>,
}

impl Log {
    pub fn new() -> Self {
        Self { head: Head::genesis(), lines: Vec::new() }
    }

    pub fn record(&mut self, record: Record) {
        self.push(Content::Record(Box::new(record)));
    }

    /// A denial by a rule of the file whose content is `pattern`.
    pub fn rule(&mut self, time: Timestamp, origin: &str, agent: &str, pattern: &str, line: u32) {
        self.record(by_rule(time, origin, agent, pattern, line));
    }

    /// A denial for want of a robots.txt.
    pub fn unreachable(&mut self, time: Timestamp, origin: &str, since: Timestamp) {
        self.unreachable_for(time, origin, since, None);
    }

    /// The same, where the last attempt counts for one agent alone.
    pub fn unreachable_for(
        &mut self,
        time: Timestamp,
        origin: &str,
        since: Timestamp,
        agent: Option<&str>,
    ) {
        let (state, asked_as) = (RobotsStatus::Unreachable, agent.map(str::to_owned));
        let robots = Robots { state, since: Some(since), asked_as, ..robots(time, origin, None) };
        let record = record(time, origin, Some("ExampleBot"), Reason::RobotsUnreachable);
        self.record(Record { robots: Some(robots.into()), ..record });
    }

    /// What an exemption let through.
    pub fn exempted(&mut self, time: Timestamp, origin: &str, by: &str, until: Timestamp) {
        let exemption = Exemption {
            by: by.into(),
            reason: "contract".into(),
            ticket: Some("OPS-7".into()),
            until,
        };
        let record = by_rule(time, origin, "ExampleBot", "/", 2);
        self.record(Record { event: Event::Exempted, exemption: Some(exemption), ..record });
    }

    /// What the mode `observe` let through.
    pub fn observed(&mut self, time: Timestamp, origin: &str, agent: &str) {
        self.record(Record { event: Event::WouldDeny, ..by_rule(time, origin, agent, "/", 2) });
    }

    /// A tunnel of whose paths some are disallowed.
    pub fn tunnelled(&mut self, time: Timestamp, origin: &str, agent: &str) {
        let record = record(time, origin, Some(agent), Reason::PathNotSeen);
        self.record(Record { event: Event::Tunnelled, path_seen: false, ..record });
    }

    /// The delay of ten seconds that a line asks for.
    pub fn paced(&mut self, time: Timestamp, origin: &str, group: &str) {
        self.notice(Notice::Paced(Paced {
            agent: Some("ExampleBot".into()),
            clamped: false,
            delay_ms: 10_000,
            event: PacedEvent::It,
            exemption: None,
            group: Some(Box::new(Group { line: 1, token: group.into() })),
            line: 2,
            node: None,
            observed: false,
            origin: origin.into(),
            pace_seen: None,
            prev: String::new(),
            profile: Profile { name: "rfc9309".into(), settings: BTreeMap::new(), version: 2 }
                .into(),
            robots: robots(time, origin, None).into(),
            seq: 0,
            source: "crawl_delay".into(),
            text: "Crawl-delay: 10".into(),
            time,
        }));
    }

    pub fn totals(&mut self, since: Timestamp, time: Timestamp, allowed: u64, denied: u64) {
        self.notice(Notice::Totals(totals(since, time, allowed, denied)));
    }

    pub fn pulse(&mut self, since: Timestamp, time: Timestamp, allowed: u64, denied: u64) {
        self.notice(Notice::Pulse(totals(since, time, allowed, denied)));
    }

    /// Of an agent at a site; without one, of all that have no line of their own.
    pub fn counts(&mut self, time: Timestamp, origin: Option<&str>, [allowed, denied]: [u64; 2]) {
        self.notice(Notice::SiteCounts(SiteCounts {
            agent: origin.map(|_| "ExampleBot".into()),
            allowed,
            by_host: 0,
            bytes: 1000,
            denied,
            event: CountsEvent::It,
            exempted: 0,
            failed: 0,
            node: None,
            origin: origin.map(str::to_owned),
            paced: 1,
            prev: String::new(),
            resting: 0,
            rows: origin.is_none().then_some(3),
            seq: 0,
            sha256: None,
            since: time,
            state: Some(RobotsStatus::Rules),
            statuses: BTreeMap::from([("2xx".into(), allowed)]),
            time,
            tunnelled: 0,
            waited_ms: 10,
            would_deny: 2,
        }));
    }

    pub fn stopped(&mut self, time: Timestamp) {
        let (event, node, prev, why) = (StoppedEvent::It, None, String::new(), "SIGTERM".into());
        self.notice(Notice::Stopped(Stopped { event, node, prev, seq: 0, time, why }));
    }

    pub fn started(&mut self, time: Timestamp, node: &str, version: &str) {
        self.notice(Notice::Started(started(time, node, version)));
    }

    /// From then on the settings of this evidence are in effect.
    pub fn settings(&mut self, time: Timestamp, settings: Option<String>, changes: Vec<Change>) {
        self.notice(Notice::SettingsChanged(SettingsChanged {
            changes,
            contents: Vec::new(),
            digest: settings.clone().unwrap_or_default(),
            event: SettingsEvent::It,
            node: None,
            omitted: None,
            prev: String::new(),
            seq: 0,
            settings,
            time,
            who: ReloadTrigger::Hup,
        }));
    }

    pub fn gap(&mut self, since: Timestamp, time: Timestamp, lost: u64) {
        let why = "No space left on device (os error 28)".into();
        let event = GapEvent::It;
        self.notice(Notice::Gap(Gap {
            event,
            lost,
            node: None,
            prev: String::new(),
            seq: 0,
            since,
            time,
            why,
        }));
    }

    pub fn torn(&mut self, time: Timestamp, bytes: u64) {
        let sha256 = sha256_hex(b"");
        let event = TornEvent::It;
        self.notice(Notice::Torn(Torn {
            event,
            node: None,
            bytes,
            prev: String::new(),
            seq: 0,
            sha256,
            time,
        }));
    }

    pub fn pruned(&mut self, time: Timestamp, last_seq: u64) {
        let last_hash = "0".repeat(64);
        let event = PrunedEvent::It;
        self.notice(Notice::Pruned(Pruned {
            event,
            last_hash,
            last_seq,
            node: None,
            prev: String::new(),
            seq: 0,
            time,
        }));
    }

    pub fn notice(&mut self, notice: Notice) {
        self.push(Content::Notice(notice));
    }

    fn push(&mut self, content: Content) {
        let mut line = Vec::new();
        self.head.push(content, &mut line);
        line.pop();
        self.lines.push(line);
    }
}

pub fn by_rule(time: Timestamp, origin: &str, agent: &str, pattern: &str, line: u32) -> Record {
    Record {
        group: Some(Group { line: 1, token: "*".into() }),
        robots: Some(robots(time, origin, Some(sha256_hex(pattern.as_bytes()))).into()),
        rule: Some(Rule {
            directive: "disallow".into(),
            line,
            pattern: Record::pattern(pattern.as_bytes()),
            read_as: Vec::new(),
        }),
        ..record(time, origin, Some(agent), Reason::DisallowRule)
    }
}

pub fn record(time: Timestamp, origin: &str, agent: Option<&str>, reason: Reason) -> Record {
    Record {
        agent: agent.map(|agent| Record::text(agent.as_bytes())),
        agent_source: AgentSource::UserAgent,
        client: Client::at([127, 0, 0, 1], None),
        event: Event::Denied,
        exemption: None,
        group: None,
        id: new_id(time),
        method: "GET".into(),
        node: None,
        origin: origin.into(),
        pace_seen: None,
        path_seen: true,
        prev: String::new(),
        profile: Profile { name: "rfc9309".into(), settings: BTreeMap::new(), version: 1 },
        reason,
        robots: None,
        rule: None,
        seq: 0,
        setting: None,
        sni: None,
        time,
        trace_id: None,
        url_as_received: None,
        url: Record::url(format!("{origin}/private/a").as_bytes()),
        user_agent: agent.map(|agent| Record::text(agent.as_bytes())),
    }
}

fn robots(time: Timestamp, origin: &str, sha256: Option<String>) -> Robots {
    Robots {
        asked_as: None,
        capture: None,
        cause: None,
        confirmed_at: Some(time),
        cut: false,
        failed_capture: None,
        failures: None,
        fetched_at: Some(time),
        next_try: None,
        result: Some("successful".into()),
        sha256,
        since: None,
        site_up: None,
        state: RobotsStatus::Rules,
        status: Some(200),
        tried: Some(time),
        url: format!("{origin}/robots.txt"),
        url_reached: None,
    }
}

fn totals<E: Default>(since: Timestamp, time: Timestamp, allowed: u64, denied: u64) -> Totals<E> {
    Totals {
        allowed,
        by_host: 0,
        by_parent: allowed / 3,
        by_path: allowed + denied,
        denied,
        event: E::default(),
        node: None,
        paced: 3,
        prev: String::new(),
        recorded: None,
        resting: 2,
        seq: 0,
        since,
        time,
        waited_ms: 61_000,
    }
}

/// A proxy that starts with settings of which there is no evidence.
pub fn started(time: Timestamp, node: &str, version: &str) -> Started {
    Started {
        changes: None,
        digest: sha256_hex(b""),
        event: StartedEvent::It,
        exemptions: Vec::new(),
        exemptions_omitted: 0,
        how: StartMode::Serve,
        key: None,
        log: None,
        node: Some(node.into()),
        prev: String::new(),
        profile_version: 1,
        program: None,
        seq: 0,
        settings: None,
        time,
        version: version.into(),
    }
}
