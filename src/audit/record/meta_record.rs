//! Notices: lines of the chain about the log itself, the proxy and robots.txt files. Members are in
//! alphabetical order, as in a record.
//!
//! To add a kind, write its struct below, with the members that all have (`event`, `node`, `prev`, `seq`,
//! `time`), and give it a row in `notices!`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Node;
use super::change_record::{Change, Changed, ChangesOmitted, SettingsChanged, Side};
use super::denial_record::{Allowed, Paced, Record};
use super::event::{
    AllowedEvent, ChangedEvent, ChangesOmittedEvent, CheckpointEvent, CountsEvent, Event,
    EvidenceLostEvent, FileEvent, GapEvent, OperatedEvent, PacedEvent, PrunedEvent, PublishedEvent,
    PulseEvent, RewoundEvent, RobotsStatus, SettingsEvent, StartedEvent, StoppedEvent, TornEvent,
    TotalsEvent,
};
use super::robots_record::{Robots, SharedRobots};
use crate::audit::evidence::{BlobName, Kind};
use crate::audit::record::verifier_key::VerifierKey;
use crate::types::timestamp::Timestamp;
use crate::types::words::words;
use crate::types::{LogId, sanitize};

/// Makes [`Notice`] of the kinds, each with the type of its `event`.
macro_rules! notices {
    ($($kind:ident as $event:ident;)+) => {
        /// The kind follows from `event`, which is a member like any other and not the first.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize)]
        #[serde(untagged)]
        pub enum Notice {
            $($kind($kind),)+
        }

        impl Notice {
            /// The `event` of each kind. They are a public interface: a word is added, never changed.
            pub const WORDS: &[&str] = &[$($event::WORD),+];

            /// Reads a notice of the kind `word` from its JSON, which has no `hash`.
            pub(super) fn parse(word: &str, json: &[u8]) -> serde_json::Result<Self> {
                match word {
                    $($event::WORD => serde_json::from_slice(json).map(Self::$kind),)+
                    _ => Err(serde::de::Error::custom("no notice has that event")),
                }
            }

            /// Its `event`.
            pub const fn word(&self) -> &'static str {
                match self { $(Self::$kind(_) => $event::WORD,)+ }
            }

            /// The sequence number of the line.
            pub const fn seq(&self) -> u64 {
                match self { $(Self::$kind(it) => it.seq,)+ }
            }

            /// The time of the line.
            pub const fn time(&self) -> Timestamp {
                match self { $(Self::$kind(it) => it.time,)+ }
            }

            /// The proxy that wrote it; none in a log of an earlier version.
            pub const fn node(&self) -> Option<&Node> {
                match self { $(Self::$kind(it) => it.node.as_ref(),)+ }
            }

            pub(super) fn put(&mut self, place: u64, hash: String) {
                match self { $(Self::$kind(it) => (it.seq, it.prev) = (place, hash),)+ }
            }

            pub(crate) fn set_node(&mut self, node: Option<Node>) {
                match self { $(Self::$kind(it) => it.node = node,)+ }
            }
        }
    };
}

notices! {
    Gap as GapEvent;
    Torn as TornEvent;
    Pruned as PrunedEvent;
    Totals as TotalsEvent;
    Started as StartedEvent;
    SettingsChanged as SettingsEvent;
    Stopped as StoppedEvent;
    Changed as ChangedEvent;
    ChangesOmitted as ChangesOmittedEvent;
    Paced as PacedEvent;
    EvidenceLost as EvidenceLostEvent;
    Rewound as RewoundEvent;
    Pulse as PulseEvent;
    Published as PublishedEvent;
    Operated as OperatedEvent;
    RobotsFile as FileEvent;
    SiteCounts as CountsEvent;
    Allowed as AllowedEvent;
    Checkpointed as CheckpointEvent;
}

impl Notice {
    /// The origin that it is about, where it is about one.
    pub fn origin(&self) -> Option<&str> {
        match self {
            Self::Changed(changed) => Some(&changed.origin),
            Self::ChangesOmitted(omitted) => omitted.origin.as_deref(),
            Self::Paced(paced) => Some(&paced.origin),
            Self::RobotsFile(file) => Some(&file.origin),
            Self::Allowed(allowed) => Some(&allowed.origin),
            Self::SiteCounts(counts) => counts.origin.as_deref(),
            _ => None,
        }
    }

    /// The product tokens that it is about; `*` stands for all that a robots.txt does not name.
    pub fn agents(&self) -> impl Iterator<Item = &str> {
        let (agent, touched) = match self {
            Self::Paced(paced) => (paced.agent.as_deref(), &[][..]),
            Self::Allowed(allowed) => (allowed.agent.as_deref(), &[][..]),
            Self::SiteCounts(counts) => (counts.agent.as_deref(), &[][..]),
            Self::RobotsFile(file) => (file.robots.asked_as.as_deref().or(Some("*")), &[][..]),
            Self::Changed(changed) => (None, &changed.touched[..]),
            _ => (None, &[][..]),
        };
        agent.into_iter().chain(touched.iter().flat_map(|it| &it.agents).map(String::as_str))
    }
}

/// Records could not be written, and are lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gap {
    pub event: GapEvent,
    /// How many records.
    pub lost: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Node>,
    pub prev: String,
    /// Its number in the chain, from 1.
    pub seq: u64,
    /// When the first of them was lost.
    #[serde(with = "super::time")]
    pub since: Timestamp,
    #[serde(with = "super::time")]
    pub time: Timestamp,
    /// The error of the operating system.
    pub why: String,
}

/// Evidence that lines before this one name could not be kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvidenceLost {
    pub event: EvidenceLostEvent,
    /// Its files, as they would be called in the directory of the log.
    pub evidence: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Node>,
    pub prev: String,
    /// Its number in the chain, from 1.
    pub seq: u64,
    #[serde(with = "super::time")]
    pub time: Timestamp,
}

/// The end of the log was no whole line, as after a crash; it was set aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Torn {
    pub event: TornEvent,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Node>,
    /// Bytes that were set aside.
    #[serde(rename = "octets")]
    pub bytes: u64,
    pub prev: String,
    /// Its number in the chain, from 1.
    pub seq: u64,
    /// Of the bytes, in hexadecimal.
    pub sha256: String,
    #[serde(with = "super::time")]
    pub time: Timestamp,
}

/// Lines that were older than they are kept have been removed, from the beginning of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pruned {
    pub event: PrunedEvent,
    /// The hash of the last line that was removed.
    pub last_hash: String,
    /// Its number.
    pub last_seq: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Node>,
    pub prev: String,
    /// Its number in the chain, from 1.
    pub seq: u64,
    #[serde(with = "super::time")]
    pub time: Timestamp,
}

/// How many decisions there were in a time, those that leave no record included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Totals<E = TotalsEvent> {
    /// Requests that were allowed.
    pub allowed: u64,
    /// Requests decided by their host alone.
    pub by_host: u64,
    /// Requests and tunnels that went by a parent proxy; left out where there were none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub by_parent: u64,
    /// Requests decided by their path.
    pub by_path: u64,
    /// Requests answered with the denial.
    pub denied: u64,
    pub event: E,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Node>,
    /// Requests that were held until their time; with `resting` and `waited_ms` left out where there were none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub paced: u64,
    pub prev: String,
    /// The records between the `totals` before this line, or the `started` where that came later, and this line,
    /// as they are in the chain; the writer counts them. Left out by earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<RecordedCounts>,
    /// Requests that got no turn: their wait was too long, or their origin was held.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub resting: u64,
    /// Its number in the chain, from 1.
    pub seq: u64,
    #[serde(with = "super::time")]
    pub since: Timestamp,
    #[serde(with = "super::time")]
    pub time: Timestamp,
    /// The sum of the waits of `paced`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waited_ms: u64,
}

/// The same since the last `totals`, while the time of the next is not there yet: of a process that is killed, the
/// decisions are known to the last of them.
pub type Pulse = Totals<PulseEvent>;

/// A robots.txt, or the lack of one, decides requests: the first line of a day that names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RobotsFile {
    pub event: FileEvent,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Node>,
    pub origin: String,
    pub prev: String,
    /// The file and how it came, as in records.
    pub robots: SharedRobots,
    /// Its number in the chain, from 1.
    pub seq: u64,
    #[serde(with = "super::time")]
    pub time: Timestamp,
}

/// What one agent asked of one site in a time, under one robots.txt, and what became of it. Counts of zero are
/// left out, but those of `allowed` and `denied`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteCounts {
    /// The product token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Requests that the robots.txt, or the lack of one, allowed; tunnels among them.
    pub allowed: u64,
    /// Of those, tunnels: decided by the host alone, and what is asked inside them is not seen.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub by_host: u64,
    /// Bytes of the contents of responses that were passed on.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bytes: u64,
    /// Requests answered with the denial.
    pub denied: u64,
    pub event: CountsEvent,
    /// Disallowed, and forwarded under an exemption.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub exempted: u64,
    /// Forwarded, and not answered.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Node>,
    /// Left out where several sites share the line, because there are more than have a line each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// Requests that were held until their time.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub paced: u64,
    pub prev: String,
    /// Requests that got no turn: their wait was too long, or their origin was held.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub resting: u64,
    /// How many lines share this one, at least; left out where it is of one site.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// Its number in the chain, from 1.
    pub seq: u64,
    /// SHA-256 of the robots.txt that decided, in hexadecimal: a line `file` has it as evidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    #[serde(with = "super::time")]
    pub since: Timestamp,
    /// Of the robots.txt; left out where it decided nothing, as of a destination that is not permitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<RobotsStatus>,
    /// Responses of the origin by the class of their status: `2xx`, `4xx`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub statuses: BTreeMap<String, u64>,
    #[serde(with = "super::time")]
    pub time: Timestamp,
    /// Tunnels to hosts where some paths are disallowed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tunnelled: u64,
    /// The sum of the waits of `paced`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waited_ms: u64,
    /// Disallowed, and forwarded: the mode was `observe`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub would_deny: u64,
}

/// How many records of each event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedCounts {
    /// Answered with the denial.
    pub denied: u64,
    /// Forwarded under an exemption.
    pub exempted: u64,
    /// Tunnelled to hosts where some paths are disallowed.
    pub tunnelled: u64,
    /// Forwarded: the mode was `observe`.
    pub would_deny: u64,
}

/// A proxy begins to serve. Where no `stopped` stands between two of these, it was not stopped cleanly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Started {
    /// What differs from the settings that were in effect when the log was written before, in alphabetical order of
    /// the keys. Left out where those are not known, as in the first line, and by earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Vec<Change>>,
    /// Of all settings in effect, in hexadecimal: see [`SettingsChanged::digest`].
    pub digest: String,
    pub event: StartedEvent,
    /// The exemptions in force, as the settings have them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exemptions: Vec<Value>,
    /// How many more there are, for which there is no room.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub exemptions_omitted: u64,
    pub how: StartMode,
    /// The key that signs its checkpoints; the writer fills it in. Left out where there is none, and by earlier
    /// versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<VerifierKey>,
    /// The identity of the log that it goes on with; the writer fills it in. Left out by earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<LogId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Node>,
    pub prev: String,
    /// Of the table of robots.txt dialects, as in records.
    pub profile_version: u32,
    /// The SHA-256, in hexadecimal, of the program's file; left out where it could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Its number in the chain, from 1.
    pub seq: u64,
    /// The same as `digest`: names a piece of evidence. Left out by earlier versions, which keep none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<String>,
    #[serde(with = "super::time")]
    pub time: Timestamp,
    /// Of the program.
    pub version: String,
}

/// Where the log stands, signed: every hour and at the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpointed {
    pub event: CheckpointEvent,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Node>,
    /// The signed note, as it can be published: of the lines before this one. The writer makes it.
    pub note: String,
    pub prev: String,
    /// Its number in the chain, from 1.
    pub seq: u64,
    #[serde(with = "super::time")]
    pub time: Timestamp,
}

/// The command of `audit.publish` has taken a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The command, without its arguments.
    pub by: String,
    /// The SHA-256, in hexadecimal, of the `note` of an earlier line, which it was given.
    pub checkpoint: String,
    pub event: PublishedEvent,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Node>,
    pub prev: String,
    /// The SHA-256 of its output; names a piece of evidence. Left out where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<String>,
    /// Its number in the chain, from 1.
    pub seq: u64,
    #[serde(with = "super::time")]
    pub time: Timestamp,
}

/// At its start the proxy has asked the shared engine for the head of this log that it has seen, and the log does not
/// have that line: it was cut off, or written anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rewound {
    pub event: RewoundEvent,
    /// The hash that the line of that number has now; left out where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found_hash: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Node>,
    pub prev: String,
    /// The hash of the line that the engine has seen.
    pub seen_hash: String,
    /// Its number.
    pub seen_seq: u64,
    /// Its number in the chain, from 1.
    pub seq: u64,
    #[serde(with = "super::time")]
    pub time: Timestamp,
}

words! {
    /// What was done by the console of a running proxy.
    pub enum Operation {
        LogIn = "log_in",
        /// A report, a dossier or a file was taken away.
        Export = "export",
        /// What is held about a person was looked at.
        Person = "person",
        Forget = "forget",
        Fetch = "fetch",
        Reload = "reload",
        Verify = "verify",
    }
}

/// A visitor has looked at the log, or acted, by the console of the running proxy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operated {
    pub action: Operation,
    /// Who it was: `session` and the beginning of the hash of its name, `token`, or `open`.
    pub by: String,
    pub event: OperatedEvent,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Node>,
    pub prev: String,
    /// Its number in the chain, from 1.
    pub seq: u64,
    /// What it was done to: an origin, what was taken away, or the role that logged in. Of a person nothing is noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    #[serde(with = "super::time")]
    pub time: Timestamp,
}

/// The command that runs the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartMode {
    Serve,
    /// As the proxy of one command.
    Run,
    Demo,
}

/// The proxy has ended as it should: no line of it follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stopped {
    pub event: StoppedEvent,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Node>,
    pub prev: String,
    /// Its number in the chain, from 1.
    pub seq: u64,
    #[serde(with = "super::time")]
    pub time: Timestamp,
    /// The signal's name, or what else ended it.
    pub why: String,
}

impl SiteCounts {
    /// Adds the counts of another line: from the earlier beginning to the later end.
    pub fn add(&mut self, other: &Self) {
        for (own, more) in [
            (&mut self.allowed, other.allowed),
            (&mut self.by_host, other.by_host),
            (&mut self.denied, other.denied),
            (&mut self.exempted, other.exempted),
            (&mut self.failed, other.failed),
            (&mut self.bytes, other.bytes),
            (&mut self.paced, other.paced),
            (&mut self.resting, other.resting),
            (&mut self.tunnelled, other.tunnelled),
            (&mut self.waited_ms, other.waited_ms),
            (&mut self.would_deny, other.would_deny),
        ] {
            *own = own.saturating_add(more);
        }
        for (class, more) in &other.statuses {
            let own = self.statuses.entry(class.clone()).or_default();
            *own = own.saturating_add(*more);
        }
        self.since = self.since.min(other.since);
        self.time = self.time.max(other.time);
    }

    /// Requests: those allowed, and those disallowed whatever became of them.
    pub const fn asked(&self) -> u64 {
        self.allowed.saturating_add(self.denied).saturating_add(self.forwarded())
    }

    /// Requests that were disallowed, and forwarded all the same.
    pub const fn forwarded(&self) -> u64 {
        self.would_deny.saturating_add(self.exempted).saturating_add(self.tunnelled)
    }
}

impl RecordedCounts {
    /// Counts one more.
    pub const fn add(&mut self, event: Event) {
        let count = match event {
            Event::Denied => &mut self.denied,
            Event::WouldDeny => &mut self.would_deny,
            Event::Exempted => &mut self.exempted,
            Event::Tunnelled => &mut self.tunnelled,
        };
        *count += 1;
    }

    /// How many of one event.
    pub const fn of(&self, event: Event) -> u64 {
        match event {
            Event::Denied => self.denied,
            Event::WouldDeny => self.would_deny,
            Event::Exempted => self.exempted,
            Event::Tunnelled => self.tunnelled,
        }
    }
}

const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// What of a line names its evidence: members of a record's `robots`, and of a notice's `from` and `to`, and the
/// `settings` of a notice.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct EvidenceRefs<'a> {
    /// How the file came.
    pub capture: Option<&'a str>,
    /// How the last attempt failed.
    pub failed_capture: Option<&'a str>,
    /// The file.
    pub sha256: Option<&'a str>,
    /// The settings in effect.
    #[serde(skip)]
    pub settings: Option<&'a str>,
    /// What a command has answered to a checkpoint.
    #[serde(skip)]
    pub receipt: Option<&'a str>,
}

impl<'a> EvidenceRefs<'a> {
    /// Of settings.
    pub fn settings(sha256: &'a str) -> Self {
        Self { settings: Some(sha256), ..Self::default() }
    }

    /// Of a published checkpoint.
    pub fn receipt(sha256: &'a str) -> Self {
        Self { receipt: Some(sha256), ..Self::default() }
    }

    /// What it names.
    pub fn blobs(self) -> impl Iterator<Item = BlobName> + use<'a> {
        let Self { capture, failed_capture, sha256, settings, receipt } = self;
        let captures = [capture, failed_capture].map(|name| (Kind::Capture, name));
        [(Kind::File, sha256), (Kind::Settings, settings), (Kind::Receipt, receipt)]
            .into_iter()
            .chain(captures)
            .filter_map(|(kind, sha256)| Some((kind, sanitize::digest(sha256?)?)))
    }
}

impl<E, R> Record<E, R> {
    /// What names its evidence.
    pub fn evidence_refs(&self) -> Option<EvidenceRefs<'_>> {
        self.robots.as_deref().map(Robots::evidence_refs)
    }

    /// The evidence that it can be checked against.
    pub fn blobs(&self) -> impl Iterator<Item = BlobName> {
        self.evidence_refs().into_iter().flat_map(EvidenceRefs::blobs)
    }
}

impl Robots {
    fn evidence_refs(&self) -> EvidenceRefs<'_> {
        let [capture, failed_capture, sha256] =
            [&self.capture, &self.failed_capture, &self.sha256].map(|digest| digest.as_deref());
        EvidenceRefs { capture, failed_capture, sha256, ..EvidenceRefs::default() }
    }
}

impl Side {
    fn evidence_refs(&self) -> EvidenceRefs<'_> {
        let [capture, failed_capture, sha256] =
            [&self.capture, &self.failed_capture, &self.sha256].map(|digest| digest.as_deref());
        EvidenceRefs { capture, failed_capture, sha256, ..EvidenceRefs::default() }
    }
}

impl Notice {
    /// What names its evidence.
    pub fn evidence_refs(&self) -> impl Iterator<Item = EvidenceRefs<'_>> {
        let refs = match self {
            Self::Changed(changed) => {
                [&changed.from, &changed.to].map(|side| Some(side.evidence_refs()))
            }
            Self::Paced(paced) => [Some(paced.robots.evidence_refs()), None],
            Self::RobotsFile(file) => [Some(file.robots.evidence_refs()), None],
            Self::Allowed(allowed) => [allowed.evidence_refs(), None],
            Self::Started(Started { settings, .. })
            | Self::SettingsChanged(SettingsChanged { settings, .. }) => {
                [settings.as_deref().map(EvidenceRefs::settings), None]
            }
            Self::Published(published) => {
                [published.receipt.as_deref().map(EvidenceRefs::receipt), None]
            }
            _ => [None, None],
        };
        refs.into_iter().flatten()
    }

    /// The evidence that it can be checked against.
    pub fn blobs(&self) -> impl Iterator<Item = BlobName> {
        self.evidence_refs().flat_map(EvidenceRefs::blobs)
    }
}
