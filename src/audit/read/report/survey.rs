//! Counts the lines of a log for a report.

use super::events::Events;
use super::keys::{
    AgentKey, ClientKey, ExemptionKey, NodeKey, OriginKey, PacedKey, ProfileKey, RuleKey,
};
use super::logs::{Log, NamedLog};
use super::missing::Losses;
use super::paced::{self, PacedTotals};
use super::series::Series;
use super::site::Site;
use super::stretches::{Stretch, Stretches};
use super::summary::{Decided, Records};
use super::tally::Tally;
use super::usage::Use;
use super::writers::Writers;
use crate::audit::read::filter::{CompiledFilter, Filter};
use crate::audit::read::raw_record::RawRecord;
use crate::audit::{
    AnyLine, Content, Event, LineError, LineKind, Notice, Record, checked_hash, checked_seq,
    parse_time,
};
use crate::types::timestamp::Timestamp;

/// Exemptions that a report tells apart, by origin; people write them, so there are few.
pub(super) const REPORT_EXEMPTIONS_MAX: usize = 10_000;

/// Takes in lines, in any order.
#[derive(Debug)]
pub struct Survey {
    pub(super) since: Option<Timestamp>,
    pub(super) until: Option<Timestamp>,
    pub(super) compiled: CompiledFilter,
    pub(super) log: Log,
    /// Those that have been read, of several.
    pub(super) logs: Vec<NamedLog>,
    pub(super) writers: Writers,
    pub(super) records: Records,
    pub(super) decided: Decided,
    /// The times that `decided` is of.
    pub(super) decided_times: Stretches,
    pub(super) paced_totals: PacedTotals,
    pub(super) paced: Tally<PacedKey, Use>,
    pub(super) losses: Losses,
    pub(super) origins: Tally<OriginKey, Site>,
    pub(super) agents: Tally<AgentKey>,
    pub(super) rules: Tally<RuleKey>,
    pub(super) clients: Tally<ClientKey>,
    pub(super) nodes: Tally<NodeKey>,
    pub(super) profiles: Tally<ProfileKey>,
    pub(super) exemptions: Tally<ExemptionKey, Use>,
    pub(super) series: Series,
}

impl Survey {
    /// Of the records that `filter` admits.
    pub fn of(filter: Filter) -> Self {
        Self {
            since: filter.since,
            until: filter.until,
            compiled: CompiledFilter::new(filter),
            log: Log::default(),
            logs: Vec::new(),
            writers: Writers::default(),
            records: Records::default(),
            decided: Decided::default(),
            decided_times: Stretches::default(),
            paced_totals: PacedTotals::default(),
            paced: Tally::default(),
            losses: Losses::default(),
            origins: Tally::default(),
            agents: Tally::default(),
            rules: Tally::default(),
            clients: Tally::default(),
            nodes: Tally::default(),
            profiles: Tally::default(),
            exemptions: Tally::bounded(REPORT_EXEMPTIONS_MAX, usize::MAX),
            series: Series::default(),
        }
    }

    /// Takes in a line, without its end.
    pub fn read(&mut self, line: &[u8]) {
        let hash = match checked_hash(line) {
            Ok(hash) => hash,
            Err(LineError::Changed) => return self.changed(),
            Err(_) => return self.damaged(),
        };
        let is_admitted = self.compiled.admits(line);
        // Of most lines of a long log nothing but their place is asked for.
        if !is_admitted && let Some((seq, time)) = place(line) {
            return self.log.pass(seq, time, hash);
        }
        let content = match Content::parse(line) {
            Ok(content) => content,
            Err(_) => return self.not_understood(line, hash),
        };
        self.log.pass(content.seq(), content.time(), hash);
        if is_admitted || self.compiled.covers(content.time(), content.time()) {
            self.writers.pass(&content);
        }
        match content {
            Content::Notice(notice) => self.notice(notice),
            Content::Record(record) if is_admitted => self.record(&record),
            Content::Record(_) => {}
        }
    }

    /// A line whose hash holds, and that says what this version does not know: a notice of a later one counts as a
    /// line of the log, and anything else as damaged.
    fn not_understood(&mut self, line: &[u8], hash: &str) {
        let is_notice = matches!(LineKind::of(line), Some(LineKind::Notice(_) | LineKind::Unknown));
        match AnyLine::parse(line) {
            Ok(AnyLine { seq, time: Some(time), .. }) if is_notice => {
                self.log.pass(seq, time, hash)
            }
            _ => self.damaged(),
        }
    }

    /// Ends one of several logs; later lines are of another.
    pub fn end_log(&mut self, dir: &str) {
        let log = std::mem::take(&mut self.log);
        self.losses.end_log(&log, self.since.is_none());
        self.logs.push(NamedLog { dir: dir.to_owned(), log });
    }

    /// Counts a part of the log that is no line.
    pub fn damaged(&mut self) {
        self.losses.unreadable += 1;
    }

    /// Counts a changed line; nothing else of it is counted.
    fn changed(&mut self) {
        self.losses.changed += 1;
        self.log.lines += 1;
    }

    fn record(&mut self, record: &Record) {
        self.records.add(record);
        self.series.add(record.time, record.reason, record.event);
        let events = Events::one(record.event);
        self.origins.add(OriginKey::of(record), events).add(record, self.since);
        self.agents.add(AgentKey::of(record), events);
        self.clients.add(ClientKey::of(record), events);
        self.nodes.add(NodeKey::of(record), events);
        self.profiles.add(ProfileKey::of(record), events);
        if let Some(rule) = RuleKey::of(record) {
            self.rules.add(rule, events);
        }
        if let Some(exemption) =
            ExemptionKey::of(record).filter(|_| record.event == Event::Exempted)
        {
            self.exemptions.add(exemption, events).note(record.time);
        }
    }

    fn notice(&mut self, notice: Notice) {
        let is_meant = self.compiled.covers_notice(&notice);
        match notice {
            Notice::Gap(gap) if self.compiled.covers(gap.since, gap.time) => self.losses.gap(&gap),
            Notice::Torn(torn) if self.compiled.covers(torn.time, torn.time) => {
                self.losses.torn(&torn)
            }
            // Removed lines are missing, whenever they were removed.
            Notice::Pruned(pruned) => self.losses.pruned(&pruned),
            // Counted whole where they end: which part of them is of the period is not known.
            Notice::Totals(totals) if self.compiled.covers(totals.time, totals.time) => {
                self.decided.add(&totals);
                self.paced_totals.add(&totals);
                self.decided_times.add(Stretch { from: totals.since, to: totals.time });
            }
            Notice::Paced(paced) if is_meant => paced::add(&mut self.paced, &paced),
            Notice::Gap(_) | Notice::Torn(_) | Notice::Totals(_) | Notice::Paced(_) => {}
            Notice::Started(_) | Notice::SettingsChanged(_) | Notice::Stopped(_) => {}
            Notice::Changed(_) | Notice::ChangesOmitted(_) | Notice::EvidenceLost(_) => {}
            Notice::Rewound(_) => {}
        }
    }
}

/// Number and time of a record's line.
fn place(line: &[u8]) -> Option<(u64, Timestamp)> {
    let raw = RawRecord::of(line)?;
    Some((checked_seq(raw.seq()?).ok()?, parse_time(&raw.time()?)?))
}
