//! When the proxy was on, and what it did with disallowed requests, as far as its log says.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::register::ExemptionRegister;
use super::series::print_moment;
use crate::audit::evidence::{BlobStore, Found, Kind};
use crate::audit::{Change, Notice};
use crate::types::timestamp::Timestamp;

/// Spans of time, and changes of the settings, that a report names, the last; the rest are counted.
const REPORT_SPANS_MAX: usize = 1000;
const REPORT_SETTINGS_MAX: usize = 200;

/// The period as a band, without gaps within a log, and the changes of the settings in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Timeline {
    /// In the order of time; of several logs one after the other.
    pub spans: Vec<TimelineSpan>,
    /// Spans before those.
    pub earlier_spans: u64,
    /// In the order of time.
    pub changed: Vec<TimelineSettings>,
    /// Changes before those.
    pub earlier_changed: u64,
}

/// A length of time in which nothing changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TimelineSpan {
    #[serde(serialize_with = "print_moment")]
    pub since: Timestamp,
    #[serde(serialize_with = "print_moment")]
    pub until: Timestamp,
    pub state: ServiceState,
    /// Rules for single agents or origins with a mode of their own, which the state is not of.
    pub exceptions: u64,
    /// The line that says so; none of a time before the first one.
    pub seq: Option<u64>,
    /// The directory of the log, where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
}

/// Whether the proxy was on, and the mode of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceState {
    /// On, and what is disallowed is denied.
    Enforce,
    /// On, and what is disallowed is forwarded, and recorded.
    Observe,
    /// On; the log does not say in which mode.
    On,
    /// No process was running.
    Off,
    /// A process was killed, or the log has no line of that time.
    #[default]
    Unknown,
}

/// A line by which settings changed: a reload, or a start with others than before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TimelineSettings {
    /// Its number in the chain.
    pub seq: u64,
    #[serde(serialize_with = "print_moment")]
    pub time: Timestamp,
    /// What caused it: `start`, or why they were read again.
    pub cause: String,
    pub changes: Vec<Change>,
}

/// The settings in effect, as evidence has them or as far as changes name them.
#[derive(Clone, Debug, Default)]
struct KnownSettings {
    mode: Option<String>,
    exceptions: u64,
    /// None where there is no evidence of them.
    exemptions: Option<Vec<Value>>,
}

/// What of the settings matters here.
#[derive(Deserialize)]
struct EffectiveSettings {
    #[serde(rename = "robots.mode", default)]
    mode: Option<String>,
    #[serde(rename = "agents.rules", default)]
    agents: Vec<ModeRule>,
    #[serde(default)]
    origins: Vec<ModeRule>,
    #[serde(default)]
    exemptions: Vec<Value>,
}

#[derive(Deserialize)]
struct ModeRule {
    #[serde(default)]
    mode: Option<String>,
}

impl KnownSettings {
    /// From evidence, which is settings in their canonical form; `None`: it is none of them.
    fn parse(evidence: &[u8]) -> Option<Self> {
        let settings: EffectiveSettings = serde_json::from_slice(evidence).ok()?;
        let rules = settings.agents.iter().chain(&settings.origins);
        let exceptions = rules.filter(|rule| rule.mode.is_some() && rule.mode != settings.mode);
        Some(Self {
            exceptions: exceptions.count() as u64,
            mode: settings.mode,
            exemptions: Some(settings.exemptions),
        })
    }

    /// Where there is no evidence: what was known before, with these changes.
    fn changed(&self, changes: &[Change]) -> Self {
        let mode = changes.iter().find(|change| change.key == "robots.mode");
        let mode = mode.map(|change| change.new.as_str().map(str::to_owned));
        Self { mode: mode.unwrap_or_else(|| self.mode.clone()), ..Self::default() }
    }

    fn state(&self) -> ServiceState {
        match self.mode.as_deref() {
            Some("enforce") => ServiceState::Enforce,
            Some("observe") => ServiceState::Observe,
            _ => ServiceState::On,
        }
    }
}

/// What one log says of its proxy, from its lines in their order: when it was on, with which settings and which
/// exemptions.
#[derive(Debug, Default)]
pub struct ServiceHistory {
    timeline: TimelineBuilder,
    register: ExemptionRegister,
    settings: KnownSettings,
    /// Of the last notice: those before the period may be read twice.
    seq: u64,
    /// Where the settings are kept; none where that is not known.
    evidence: Option<BlobStore>,
}

impl ServiceHistory {
    /// Of a period that begins then, with the evidence of the log.
    pub fn of(since: Option<Timestamp>, evidence: Option<BlobStore>) -> Self {
        let timeline = TimelineBuilder { since, ..TimelineBuilder::default() };
        Self { timeline, evidence, ..Self::default() }
    }

    /// Takes in a line that is no notice.
    pub fn pass(&mut self, seq: u64, time: Timestamp) {
        self.timeline.pass(seq, time);
    }

    /// Takes in a notice.
    pub fn notice(&mut self, notice: &Notice) {
        if notice.seq() <= self.seq {
            return;
        }
        self.seq = notice.seq();
        let (changes, settings, in_force) = match notice {
            Notice::Started(it) => (it.changes.as_deref(), &it.settings, Some(&it.exemptions)),
            Notice::SettingsChanged(it) => (Some(&*it.changes), &it.settings, None),
            _ => return self.timeline.notice(notice, &self.settings),
        };
        let known = settings.as_ref().and_then(|sha256| self.read(sha256));
        self.settings = known.unwrap_or_else(|| self.settings.changed(changes.unwrap_or_default()));
        if let Some(exemptions) = self.settings.exemptions.as_ref().or(in_force) {
            self.register.set(exemptions, notice.seq(), notice.time());
        }
        self.timeline.notice(notice, &self.settings);
    }

    /// Whether a line has said in which mode the proxy is.
    pub const fn knows_mode(&self) -> bool {
        self.settings.mode.is_some()
    }

    /// The settings of a piece of evidence; none where it is not kept, which `verify` says.
    fn read(&self, sha256: &str) -> Option<KnownSettings> {
        match self.evidence.as_ref()?.get(Kind::Settings, sha256) {
            Ok(Found::Content(content)) => KnownSettings::parse(&content),
            _ => None,
        }
    }

    /// Of the logs, each with its directory where there are several, to the end of the period.
    pub fn together(
        logs: Vec<(Option<String>, Self)>,
        until: Timestamp,
    ) -> (Timeline, ExemptionRegister) {
        let parts = logs.into_iter();
        let parts = parts.map(|(dir, log)| ((dir.clone(), log.timeline), (dir, log.register)));
        let (timelines, registers) = parts.unzip();
        (Timeline::of(timelines, until), ExemptionRegister::together(registers))
    }
}

/// Makes the timeline of one log.
#[derive(Debug, Default)]
struct TimelineBuilder {
    since: Option<Timestamp>,
    spans: VecDeque<TimelineSpan>,
    earlier_spans: u64,
    settings: VecDeque<TimelineSettings>,
    earlier_settings: u64,
    /// The span that goes on.
    open: Option<TimelineSpan>,
    /// The time of the last line, until which a process that is on was on at least.
    last: Option<Timestamp>,
}

impl TimelineBuilder {
    fn pass(&mut self, seq: u64, time: Timestamp) {
        if self.open.is_none() {
            self.begin(ServiceState::On, 0, (seq, time));
        }
        self.last = self.last.max(Some(time));
    }

    /// A notice, with the settings in effect from then on.
    fn notice(&mut self, notice: &Notice, settings: &KnownSettings) {
        let place = (notice.seq(), notice.time());
        match notice {
            Notice::Started(started) => {
                self.end_killed();
                self.begin(settings.state(), settings.exceptions, place);
                if let Some(changes) = started.changes.as_ref().filter(|it| !it.is_empty()) {
                    self.changed(place, "start".into(), changes);
                }
            }
            Notice::SettingsChanged(changed) => {
                self.begin(settings.state(), settings.exceptions, place);
                self.changed(place, changed.who.to_string(), &changed.changes);
            }
            Notice::Stopped(_) => self.begin(ServiceState::Off, 0, place),
            _ => {}
        }
        self.pass(place.0, place.1);
    }

    /// A process has not said that it ends: nothing is known between its last line and the next one.
    fn end_killed(&mut self) {
        let Some(open) = &self.open else { return };
        let seq = open.seq.unwrap_or_default();
        if let Some(last) = self.last.filter(|_| open.state.is_on()) {
            self.begin(ServiceState::Unknown, 0, (seq, last));
        }
    }

    fn begin(&mut self, state: ServiceState, exceptions: u64, (seq, time): (u64, Timestamp)) {
        let goes_on = |open: &TimelineSpan| (open.state, open.exceptions) == (state, exceptions);
        if self.open.as_ref().is_some_and(goes_on) {
            return;
        }
        // A clock may have been set back.
        let time = self.open.as_ref().map_or(time, |open| time.max(open.since));
        let next =
            TimelineSpan { exceptions, seq: Some(seq), ..TimelineSpan::of(time, time, state) };
        if let Some(ended) = self.open.replace(next) {
            self.close(TimelineSpan { until: time, ..ended });
        }
    }

    /// Keeps what of it is in the period.
    fn close(&mut self, mut span: TimelineSpan) {
        span.since = span.since.max(self.since.unwrap_or(span.since));
        if span.since >= span.until {
            return;
        }
        self.spans.push_back(span);
        if self.spans.len() > REPORT_SPANS_MAX {
            self.spans.pop_front();
            self.earlier_spans += 1;
        }
    }

    fn changed(&mut self, (seq, time): (u64, Timestamp), cause: String, changes: &[Change]) {
        if self.since.is_some_and(|since| time < since) {
            return;
        }
        self.settings.push_back(TimelineSettings { seq, time, cause, changes: changes.to_vec() });
        if self.settings.len() > REPORT_SETTINGS_MAX {
            self.settings.pop_front();
            self.earlier_settings += 1;
        }
    }

    /// The spans of the log, to the end of the period.
    fn finish(&mut self, until: Timestamp) -> Vec<TimelineSpan> {
        // What came after the last line the log does not say, but where its process had ended.
        self.end_killed();
        if let Some(open) = self.open.take() {
            self.close(TimelineSpan { until: until.max(open.since), ..open });
        }
        let mut spans = Vec::from(std::mem::take(&mut self.spans));
        spans.retain_mut(|span| {
            span.until = span.until.min(until);
            span.since < span.until
        });
        let (since, begin) = (self.since, spans.first().map_or(until, |span| span.since));
        if let Some(since) = since.filter(|since| *since < begin && self.earlier_spans == 0) {
            spans.insert(0, TimelineSpan::of(since, begin, ServiceState::Unknown));
        }
        spans
    }
}

impl Timeline {
    fn of(logs: Vec<(Option<String>, TimelineBuilder)>, until: Timestamp) -> Self {
        let mut all = Self::default();
        for (dir, mut log) in logs {
            let named = |span| TimelineSpan { log: dir.clone(), ..span };
            all.spans.extend(log.finish(until).into_iter().map(named));
            all.changed.extend(log.settings.into_iter().filter(|it| it.time < until));
            all.earlier_spans += log.earlier_spans;
            all.earlier_changed += log.earlier_settings;
        }
        all
    }

    /// How long the proxy was in that state.
    pub fn length(&self, state: ServiceState) -> Duration {
        let spans = self.spans.iter().filter(|span| span.state == state);
        spans.map(|span| span.until.since(span.since)).sum()
    }
}

impl TimelineSpan {
    fn of(since: Timestamp, until: Timestamp, state: ServiceState) -> Self {
        Self { since, until, state, exceptions: 0, seq: None, log: None }
    }
}

impl ServiceState {
    const fn is_on(self) -> bool {
        matches!(self, Self::Enforce | Self::Observe | Self::On)
    }
}
