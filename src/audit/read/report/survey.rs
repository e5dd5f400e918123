//! Counts the lines of a log for a report.

use std::time::Duration;

use super::events::Events;
use super::missing::{Kill, Log, Losses, NamedLog, Writers};
use super::series::{Series, Stretch, Stretches};
use super::site::{self, Fetched, PacedRequests, PacedTotals, Site};
use super::summary::{
    Asked, Decided, ExemptionStatus, ExemptionUse, FileVersions, Forwarded, Outages, Records,
    Report, Row, Unreachable, Verified,
};
use super::tally::{
    AgentKey, ClientKey, ExemptionKey, Key, NodeKey, OriginKey, PacedKey, ProfileKey, RuleKey,
    Tally, TallyEntry, Top, Use,
};
use super::timeline::ServiceHistory;
use crate::audit::evidence::BlobStore;
use crate::audit::read;
use crate::audit::read::filter::{CompiledFilter, Filter, Place};
use crate::audit::record::raw_record::RawRecord;
use crate::audit::{
    AnyLine, Content, Event, LineError, LineKind, Notice, Pulse, Record, Totals, checked_hash,
    checked_seq, parse_time,
};
use crate::types::timestamp::Timestamp;

/// Exemptions that a report tells apart, by origin; people write them, so there are few.
pub(super) const REPORT_EXEMPTIONS_MAX: usize = 10_000;

/// Takes in lines, in any order.
#[derive(Debug)]
pub struct Survey {
    pub(super) since: Option<Timestamp>,
    pub(super) until: Option<Timestamp>,
    pub(super) origins_asked: Vec<Place>,
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
    pub(super) fetched: Fetched,
    pub(super) losses: Losses,
    /// Of the log that is read, and of those that have been read, of several.
    pub(super) service: ServiceHistory,
    pub(super) services: Vec<(Option<String>, ServiceHistory)>,
    /// Of the process whose lines are read.
    pub(super) process: Option<Process>,
    pub(super) origins: Tally<OriginKey, Site>,
    pub(super) agents: Tally<AgentKey>,
    pub(super) rules: Tally<RuleKey>,
    pub(super) clients: Tally<ClientKey>,
    pub(super) nodes: Tally<NodeKey>,
    pub(super) profiles: Tally<ProfileKey>,
    pub(super) exemptions: Tally<ExemptionKey, Use>,
    pub(super) series: Series,
}

/// A process that has started, and has not said that it ends.
#[derive(Debug)]
pub(super) struct Process {
    /// Its decisions are counted until then.
    counted_until: Timestamp,
    /// Those since its last totals, where they are of the period.
    pulse: Option<Box<Pulse>>,
}

impl Survey {
    /// Of the records that `filter` admits.
    pub fn of(filter: Filter) -> Self {
        Self {
            since: filter.since,
            until: filter.until,
            origins_asked: filter.origins.clone(),
            compiled: CompiledFilter::new(filter),
            log: Log::default(),
            logs: Vec::new(),
            writers: Writers::default(),
            records: Records::default(),
            decided: Decided::default(),
            decided_times: Stretches::default(),
            paced_totals: PacedTotals::default(),
            paced: Tally::default(),
            fetched: Fetched::default(),
            losses: Losses::default(),
            service: ServiceHistory::default(),
            services: Vec::new(),
            process: None,
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

    /// Begins a log; later lines are of it. Without its evidence settings are known by their changes alone.
    pub fn begin_log(&mut self, log: &read::Log) {
        self.log.has_gaps = log.has_gaps();
        self.service = ServiceHistory::of(self.since, Some(BlobStore::of(&log.dir())));
    }

    /// Takes in a line before the period, for the settings that were in effect when that began.
    pub fn read_before(&mut self, line: &[u8]) {
        let is_of_process = matches!(LineKind::of(line), Some(LineKind::Notice(_)));
        if let Ok(Content::Notice(notice)) = Content::parse(line)
            && is_of_process
            && self.since.is_some_and(|since| notice.time() < since)
        {
            self.service.notice(&notice);
        }
    }

    /// Whether a line has said in which mode the proxy is.
    pub fn knows_mode(&self) -> bool {
        self.service.knows_mode()
    }

    /// Takes note of the place of a line that was taken in of another log.
    pub fn pass(&mut self, line: &[u8]) {
        match checked_hash(line).map(|hash| (hash, AnyLine::parse(line))) {
            Ok((hash, Ok(AnyLine { seq, time: Some(time), .. }))) => self.log.pass(seq, time, hash),
            // It is no copy of the other line.
            _ => self.read(line),
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
            self.service.pass(seq, time);
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
        match &content {
            Content::Notice(notice) => self.service.notice(notice),
            Content::Record(record) => self.service.pass(record.seq, record.time),
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
        self.end_process();
        let log = std::mem::take(&mut self.log);
        self.losses.end_log(&log, self.since.is_none());
        self.services.push((Some(dir.to_owned()), std::mem::take(&mut self.service)));
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
            Notice::Totals(totals) => {
                self.process = Some(Process { counted_until: totals.time, pulse: None });
                self.decided(&totals);
            }
            Notice::Pulse(pulse) => {
                let (counted_until, pulse) = (pulse.time, Some(Box::new(pulse)));
                self.process = Some(Process { counted_until, pulse });
            }
            Notice::Started(started) => {
                if let Some(counted_until) = self.end_process()
                    && self.compiled.covers(counted_until, started.time)
                {
                    self.losses.kill(Kill { counted_until, started_at: started.time });
                }
                self.process = Some(Process { counted_until: started.time, pulse: None });
            }
            Notice::Stopped(_) => {
                self.end_process();
            }
            Notice::SiteCounts(counts) if is_meant => self.fetched.add(&counts),
            Notice::SiteCounts(_) => {}
            Notice::Paced(paced) if is_meant => site::add(&mut self.paced, &paced),
            Notice::Gap(_) | Notice::Torn(_) | Notice::Paced(_) | Notice::SettingsChanged(_) => {}
            Notice::Changed(_) | Notice::ChangesOmitted(_) | Notice::EvidenceLost(_) => {}
            Notice::Rewound(_)
            | Notice::Published(_)
            | Notice::Operated(_)
            | Notice::RobotsFile(_)
            | Notice::Checkpointed(_)
            | Notice::Allowed(_) => {}
        }
    }
}

impl Survey {
    /// Counts what was decided, where that ends within the period.
    fn decided<E>(&mut self, totals: &Totals<E>) {
        if self.compiled.covers(totals.time, totals.time) {
            self.decided.add(totals);
            self.paced_totals.add(totals);
            self.decided_times.add(Stretch { from: totals.since, to: totals.time });
        }
    }

    /// Is done with the lines of a process: counts what no totals have. Returns until when its decisions are counted.
    fn end_process(&mut self) -> Option<Timestamp> {
        let Process { counted_until, pulse } = self.process.take()?;
        if let Some(pulse) = pulse {
            self.decided(&pulse);
        }
        Some(counted_until)
    }
}

/// Number and time of a record's line.
fn place(line: &[u8]) -> Option<(u64, Timestamp)> {
    let raw = RawRecord::of(line)?;
    Some((checked_seq(raw.seq()?).ok()?, parse_time(&raw.time()?)?))
}

/// Bars of a report's chart over time: the days of a quarter, and what a terminal has room for.
const REPORT_BARS_MAX: usize = 92;

/// How long before its end an exemption is reported as expiring soon.
const EXEMPTION_NOTICE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// How a report is to be.
#[derive(Clone, Debug)]
pub struct Request {
    /// Rows of each list.
    pub rows_max: usize,
    pub made_at: Timestamp,
    /// The origins reported on, as they were written; empty: all.
    pub origins: Vec<String>,
    /// The same of product tokens, and of clients.
    pub agents: Vec<String>,
    pub clients: Vec<String>,
    /// The result of verifying the log; none without verification.
    pub verified: Option<Verified>,
}

impl Survey {
    /// The report of all records that were added.
    pub fn finish(mut self, request: Request) -> Report {
        self.end_process();
        let Request { rows_max, made_at, origins, agents, clients, verified } = request;
        let is_whole = origins.is_empty() && agents.is_empty() && clients.is_empty();
        let end = self.until.unwrap_or(made_at);
        let mut decided = self.decided;
        decided.counted_seconds = self.decided_times.sum().total.as_secs();
        let missing = self.losses.finish(&self.log, self.since.is_none());
        if self.logs.is_empty() {
            self.services.push((None, self.service));
        }
        let period_end = self.until.map_or(made_at, |until| until.min(made_at));
        // What comes after the last line belongs to no period that was not asked for.
        let last = self.logs.iter().map(|named| &named.log).chain([&self.log]);
        let last = last.filter_map(|log| log.until).max().filter(|_| self.until.is_none());
        let (service, register) =
            ServiceHistory::together(self.services, last.unwrap_or(period_end));
        let register =
            register.finish((self.since, period_end), &self.origins_asked, &self.exemptions);
        let log = if self.logs.is_empty() { self.log } else { Log::together(&self.logs) };
        // Begins with the log: nothing is known of the time before its first line.
        let since = self.since.max(log.since);
        let until = self.until.map(|until| until.min(made_at));
        Report {
            courtesy: env!("CARGO_PKG_VERSION"),
            made_at,
            period: Asked { since: self.since, until: self.until, origins, agents, clients },
            service,
            register,
            missing,
            log,
            logs: self.logs,
            writers: self.writers,
            verified,
            forwarded: Forwarded {
                records: self.records.events().forwarded(),
                events: forwarded(self.records.events()),
                by_origin: rows_of(&self.origins, rows_max, forwarded),
                by_agent: rows_of(&self.agents, rows_max, forwarded),
            },
            records: self.records,
            decided: is_whole.then_some(decided),
            by_origin: rows(&self.origins, rows_max),
            by_agent: rows(&self.agents, rows_max),
            by_rule: rows(&self.rules, rows_max),
            by_client: rows(&self.clients, rows_max),
            by_node: rows(&self.nodes, rows_max),
            by_profile: rows(&self.profiles, rows_max),
            fetched: self.fetched.finish(rows_max),
            paced: PacedRequests {
                totals: is_whole.then_some(self.paced_totals),
                lines: site::lines(&self.paced, rows_max),
            },
            unreachable: unreachable(&self.origins, rows_max),
            exemptions: self
                .exemptions
                .top(rows_max, |key, entry| exemption(key, entry, end, made_at)),
            over_time: self.series.over(since, until, REPORT_BARS_MAX),
            robots_txt: robots_txt(&self.origins, rows_max),
        }
    }
}

fn rows<K: Key, D: Default>(tally: &Tally<K, D>, rows_max: usize) -> Top<Row<K>> {
    rows_of(tally, rows_max, |events| events)
}

fn rows_of<K: Key, D: Default>(
    tally: &Tally<K, D>,
    rows_max: usize,
    counted: impl Fn(Events) -> Events,
) -> Top<Row<K>> {
    tally.top_of(rows_max, &counted, |key, entry| {
        let events = counted(entry.events);
        Row { key: key.clone(), records: events.all(), events }
    })
}

const fn forwarded(events: Events) -> Events {
    Events { denied: 0, ..events }
}

fn unreachable(origins: &Tally<OriginKey, Site>, rows_max: usize) -> Unreachable {
    let outages = |(key, entry): (&OriginKey, &TallyEntry<Site>)| {
        let sum = entry.detail.unreachable.sum();
        (sum.count > 0).then(|| Outages {
            origin: key.origin.clone(),
            seconds: sum.total.as_secs(),
            outages: sum.count,
            longest_seconds: sum.longest.map_or(0, |longest| longest.length().as_secs()),
            longest_since: sum.longest.map(|longest| longest.from),
            agents: if entry.detail.unreachable_for_all {
                Vec::new()
            } else {
                entry.detail.unreachable_for.iter().cloned().collect()
            },
            records: entry.detail.unreachable_records,
        })
    };
    let mut rows: Vec<_> = origins.entries().filter_map(outages).collect();
    rows.sort_unstable_by(|a, b| b.seconds.cmp(&a.seconds).then_with(|| a.origin.cmp(&b.origin)));
    let origins = rows.len() as u64;
    rows.truncate(rows_max);
    Unreachable { origins, rows }
}

fn exemption(
    key: &ExemptionKey,
    entry: &TallyEntry<Use>,
    end: Timestamp,
    made_at: Timestamp,
) -> ExemptionUse {
    let status = match key.until {
        until if until <= made_at => ExemptionStatus::Expired,
        until if until <= end.plus(EXEMPTION_NOTICE) => ExemptionStatus::ExpiresSoon,
        _ => ExemptionStatus::Running,
    };
    let (first, last) = entry.detail.times.unzip();
    ExemptionUse { key: key.clone(), records: entry.events.all(), first, last, status }
}

fn robots_txt(origins: &Tally<OriginKey, Site>, rows_max: usize) -> Vec<FileVersions> {
    let versions = |key: &OriginKey, entry: &TallyEntry<Site>| FileVersions {
        origin: key.origin.clone(),
        versions: entry.detail.versions.sorted(),
        earlier: entry.detail.versions.earlier,
    };
    let mut files = origins.top(rows_max, versions).rows;
    files.retain(|file| !file.versions.is_empty());
    files
}
