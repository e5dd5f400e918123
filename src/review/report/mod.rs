//! The report of a period: everything that the lines of a log add up to, in one pass and bounded
//! memory. Nothing here is printed; [`Report`] is data, and its JSON is a public interface.

mod finish;
mod keys;
mod missing;
mod series;
mod site;
mod stretches;
mod summary;
mod tally;
#[cfg(test)]
mod tests;

use serde::Serializer;

use crate::audit::{Content, Event, LineError, Notice, Record, print_time, split};
use crate::limits::REPORT_EXEMPTIONS_MAX;
use crate::moment::Moment;
use missing::Losses;
use series::Series;
use site::Site;
use stretches::{Stretch, Stretches};
use tally::Tally;

pub use finish::Request;
pub use keys::{AgentKey, ClientKey, ExemptionKey, OriginKey, ProfileKey, RuleKey};
pub use missing::{LostRecords, Missing};
pub use series::{Bucket, ByReason, OverTime};
pub use site::Version;
pub use summary::*;
pub use tally::Top;

/// What is reported about: from `since` on, and before `until`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Period {
    pub since: Option<Moment>,
    pub until: Option<Moment>,
}

/// Takes in lines, in any order.
#[derive(Debug)]
pub struct Survey {
    period: Period,
    log: Log,
    records: Records,
    decided: Decided,
    /// The times that `decided` is of.
    decided_times: Stretches,
    losses: Losses,
    origins: Tally<OriginKey, Site>,
    agents: Tally<AgentKey>,
    rules: Tally<RuleKey>,
    clients: Tally<ClientKey>,
    profiles: Tally<ProfileKey>,
    exemptions: Tally<ExemptionKey, Use>,
    series: Series,
}

/// When something was used.
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    /// First and last.
    times: Option<(Moment, Moment)>,
}

impl Period {
    pub fn contains(&self, time: Moment) -> bool {
        self.since.is_none_or(|since| since <= time) && self.until.is_none_or(|until| time < until)
    }

    /// Whether some of the time from `from` to `to` is in it.
    fn touches(&self, from: Moment, to: Moment) -> bool {
        self.since.is_none_or(|since| since <= to) && self.until.is_none_or(|until| from < until)
    }
}

impl Survey {
    pub fn of(period: Period) -> Self {
        Self {
            period,
            log: Log::default(),
            records: Records::default(),
            decided: Decided::default(),
            decided_times: Stretches::default(),
            losses: Losses::default(),
            origins: Tally::default(),
            agents: Tally::default(),
            rules: Tally::default(),
            clients: Tally::default(),
            profiles: Tally::default(),
            exemptions: Tally::bounded(REPORT_EXEMPTIONS_MAX, usize::MAX),
            series: Series::default(),
        }
    }

    /// Takes in a line, without its end: a notice, or a record of the period that is `wanted`.
    pub fn read(&mut self, line: &[u8], wanted: impl Fn(&Record) -> bool) {
        let content = split(line).ok_or(LineError::NoHash).and_then(|(_, hash)| {
            let content = Content::parse(line)?;
            self.log.pass(content.seq(), content.time(), hash);
            Ok(content)
        });
        match content {
            Err(_) => self.losses.unreadable += 1,
            Ok(Content::Notice(notice)) => self.notice(notice),
            Ok(Content::Record(record)) if self.period.contains(record.time) && wanted(&record) => {
                self.record(&record);
            }
            Ok(Content::Record(_)) => {}
        }
    }

    fn record(&mut self, record: &Record) {
        self.records.add(record);
        self.series.add(record.time, record.reason);
        self.origins.add(OriginKey::of(record)).add(record, self.period.since);
        self.agents.add(AgentKey::of(record));
        self.clients.add(ClientKey::of(record));
        self.profiles.add(ProfileKey::of(record));
        if let Some(rule) = RuleKey::of(record) {
            self.rules.add(rule);
        }
        if let Some(exemption) = ExemptionKey::of(record).filter(|_| record.event == Event::Exempted) {
            self.exemptions.add(exemption).note(record.time);
        }
    }

    fn notice(&mut self, notice: Notice) {
        match notice {
            Notice::Gap(gap) if self.period.touches(gap.since, gap.time) => self.losses.gap(&gap),
            Notice::Torn(torn) if self.period.contains(torn.time) => self.losses.torn(&torn),
            // What was removed is missing, whenever that was done.
            Notice::Pruned(pruned) => self.losses.pruned(&pruned),
            // Counted whole where they end: which part of them is of the period is not known.
            Notice::Totals(totals) if self.period.contains(totals.time) => {
                self.decided.add(&totals);
                self.decided_times.add(Stretch { from: totals.since, to: totals.time });
            }
            Notice::Gap(_) | Notice::Torn(_) | Notice::Totals(_) => {}
        }
    }
}

impl Use {
    fn note(&mut self, time: Moment) {
        let (first, last) = self.times.unwrap_or((time, time));
        self.times = Some((first.min(time), last.max(time)));
    }
}

fn print_moment<S: Serializer>(moment: &Moment, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&print_time(*moment))
}

/// As above, or `null`.
fn print_option<S: Serializer>(moment: &Option<Moment>, serializer: S) -> Result<S::Ok, S::Error> {
    match moment {
        Some(moment) => print_moment(moment, serializer),
        None => serializer.serialize_none(),
    }
}
