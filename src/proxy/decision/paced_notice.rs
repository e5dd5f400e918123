//! The notice of a delay that a robots.txt asks for.

use std::time::Duration;

use super::decision_context::DecisionContext;
use super::request_info::Subject;
use crate::audit::evidence::Blob;
use crate::audit::{self, Paced, PacedEvent, Record};
use crate::pace::PaceMode;
use crate::policy::decision::SelectedGroup;
use crate::policy::exemption::Exemption;
use crate::policy::pace::SitePace;
use crate::policy::state::RobotsCopy;
use crate::proxy::outcome::denial::blobs;
use crate::robots::{self, Group};
use crate::store::OriginRobots;
use crate::watch::{PacedKey, Watch};

/// What applies to a request that a robots.txt asks a delay of.
pub(super) struct PacedRequest<'a> {
    pub context: &'a DecisionContext<'a>,
    pub known: &'a OriginRobots,
    pub copy: &'a RobotsCopy,
    pub group: Option<&'a Group<'a>>,
    /// What the file asks.
    pub site_pace: SitePace,
    /// What is kept instead.
    pub exempted: Option<(&'a Exemption, Duration)>,
    pub mode: PaceMode,
}

impl PacedRequest<'_> {
    /// Writes the notice, if it is the first one of the day.
    pub(super) fn note(&self, watch: &Watch) {
        if self.mode == PaceMode::Off {
            return;
        }
        let snapshot = &self.copy.snapshot;
        let key = PacedKey {
            origin: self.context.subject.origin(),
            group: self.group.map_or("", Group::name),
            delay: self.delay(),
            is_exempted: self.exempted.is_some(),
            is_tunnel: self.is_tunnel(),
            sha256: snapshot.sha256,
        };
        let bytes = snapshot.body.len() + snapshot.capture.json.len();
        let client = || self.context.info.client.key();
        watch.paced(&key, client, (bytes, self.context.now()), || (self.notice(), self.evidence()));
    }

    fn is_tunnel(&self) -> bool {
        matches!(self.context.subject, Subject::Host(_))
    }

    fn delay(&self) -> Duration {
        self.exempted.map_or(self.site_pace.delay, |(_, delay)| delay)
    }

    fn notice(&self) -> Paced {
        let Self { context, site_pace, .. } = self;
        let origin = context.subject.origin();
        let group =
            self.group.map(|group| SelectedGroup { name: group.name(), line: group.line() });
        Paced {
            agent: context.agent.token.map(|token| Record::text(token.as_bytes())),
            clamped: site_pace.is_clamped() && self.exempted.is_none(),
            delay_ms: u64::try_from(self.delay().as_millis()).unwrap_or(u64::MAX),
            event: PacedEvent::It,
            exemption: self
                .exempted
                .map(|(exemption, _)| audit::PaceExemption::of(exemption).into()),
            group: group.as_ref().map(|group| audit::Group::of(group).into()),
            line: site_pace.line,
            node: None,
            observed: self.mode == PaceMode::Observe,
            origin: origin.to_string(),
            pace_seen: self.is_tunnel().then_some(false),
            prev: String::new(),
            profile: audit::Profile::of(self.known.profile()).into(),
            robots: context.summary(self.known, None).record.clone(),
            seq: 0,
            source: site_pace.record.as_str().to_owned(),
            text: self.line(),
            time: context.now(),
        }
    }

    /// The line as written.
    fn line(&self) -> String {
        let dialect = &self.known.profile().dialect;
        let line = robots::lines(&self.copy.snapshot.body, dialect)
            .find(|(number, _)| *number == self.site_pace.line);
        Record::pattern(line.map(|(_, text)| text).unwrap_or_default().trim_ascii())
    }

    fn evidence(&self) -> Vec<Blob> {
        blobs(self.known)
    }
}
