//! The register of exemptions: each that was in force in the period, which line brought it, when it
//! ended, and how often it was used. [`super::ExemptionUse`] has the uses by origin.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::series::{print_moment, print_option};
use super::tally::{ExemptionKey, Tally, Use};
use crate::audit::parse_time;
use crate::audit::read::filter::Place;
use crate::types::timestamp::Timestamp;

/// Exemptions in the register; people write them, so there are few.
const REGISTER_ROWS_MAX: usize = 10_000;

/// The exemptions of the period.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ExemptionRegister {
    /// In the order in which they came.
    pub rows: Vec<RegisteredExemption>,
    /// More than there are rows for.
    pub omitted: u64,
}

/// One exemption, as the settings had it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RegisteredExemption {
    /// An origin, or `*.example.com`.
    pub origin: String,
    /// Patterns; none: all paths.
    pub paths: Vec<String>,
    /// Product tokens; none: all agents.
    pub agents: Vec<String>,
    pub by: String,
    pub reason: String,
    pub ticket: Option<String>,
    #[serde(serialize_with = "print_moment")]
    pub until: Timestamp,
    /// It concerns the pace alone: the delay in place of the one that the robots.txt asks for.
    pub crawl_delay: Option<String>,
    /// The directory of the log that the lines are of, where there are several: the first that has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// The line that brought it; the first that names it, of a log that was pruned.
    pub brought_by_seq: u64,
    #[serde(serialize_with = "print_moment")]
    pub brought_at: Timestamp,
    /// The line by which the settings had it no more.
    pub removed_by_seq: Option<u64>,
    #[serde(serialize_with = "print_option")]
    pub removed_at: Option<Timestamp>,
    pub status: RegisterStatus,
    /// Records of requests that were forwarded under it, in the period. An exemption from the pace has none.
    pub used: u64,
    #[serde(serialize_with = "print_option")]
    pub first_used: Option<Timestamp>,
    #[serde(serialize_with = "print_option")]
    pub last_used: Option<Timestamp>,
}

/// How an exemption stands at the end of the period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RegisterStatus {
    InForce,
    /// In force, and not used in the period.
    Unused,
    /// It was removed from the settings, or its time is over.
    Ended,
}

/// An exemption in the settings' own form.
#[derive(Deserialize)]
struct WrittenExemption {
    origin: String,
    #[serde(default)]
    paths: Vec<String>,
    #[serde(default)]
    agents: Vec<String>,
    by: String,
    reason: String,
    #[serde(default)]
    ticket: Option<String>,
    until: String,
    #[serde(default)]
    crawl_delay: Option<Value>,
}

impl ExemptionRegister {
    /// From the line `seq` on the settings have these exemptions and no others.
    pub fn set(&mut self, exemptions: &[Value], seq: u64, time: Timestamp) {
        let parse = |value: &Value| RegisteredExemption::parse(value, seq, time);
        let now: Vec<_> = exemptions.iter().filter_map(parse).collect();
        for row in self.rows.iter_mut().filter(|row| row.removed_by_seq.is_none()) {
            if !now.iter().any(|other| other.is_same(row)) {
                (row.removed_by_seq, row.removed_at) = (Some(seq), Some(time));
            }
        }
        for new in now {
            let is_known =
                self.rows.iter().any(|row| row.removed_by_seq.is_none() && row.is_same(&new));
            match is_known {
                true => {}
                false if self.rows.len() < REGISTER_ROWS_MAX => self.rows.push(new),
                false => self.omitted += 1,
            }
        }
    }

    /// Of several logs: what more than one has is one exemption, which is removed where all have removed it.
    pub(super) fn together(logs: Vec<(Option<String>, Self)>) -> Self {
        let mut all = Self::default();
        for (dir, log) in logs {
            all.omitted += log.omitted;
            for row in log.rows {
                match all.rows.iter_mut().find(|known| known.is_same(&row)) {
                    Some(known) => {
                        let is_removed = known.removed_at.is_some() && row.removed_at.is_some();
                        let last = if known.removed_at < row.removed_at { &row } else { &*known };
                        (known.removed_at, known.removed_by_seq) = if is_removed {
                            (last.removed_at, last.removed_by_seq)
                        } else {
                            (None, None)
                        };
                    }
                    None => all.rows.push(RegisteredExemption { log: dir.clone(), ..row }),
                }
            }
        }
        all
    }

    /// Those of the period and of the origins that are asked for, with their uses.
    pub(super) fn finish(
        mut self,
        (since, until): (Option<Timestamp>, Timestamp),
        origins: &[Place],
        uses: &Tally<ExemptionKey, Use>,
    ) -> Self {
        self.rows.retain_mut(|row| {
            row.count(uses);
            row.removed_at = row.removed_at.filter(|removed| *removed < until);
            row.removed_by_seq = row.removed_by_seq.filter(|_| row.removed_at.is_some());
            let ended = row.removed_at.map_or(row.until, |removed| removed.min(row.until));
            row.status = match row.used {
                _ if ended <= until => RegisterStatus::Ended,
                0 => RegisterStatus::Unused,
                _ => RegisterStatus::InForce,
            };
            // A pattern may be of an origin that it does not spell.
            let is_meant = origins.is_empty()
                || row.used > 0
                || row.origin.starts_with('*')
                || origins.iter().any(|place| place.covers(&row.origin));
            is_meant && row.brought_at < until && since.is_none_or(|since| since < ended)
        });
        self
    }
}

impl RegisteredExemption {
    fn parse(value: &Value, seq: u64, time: Timestamp) -> Option<Self> {
        let written = WrittenExemption::deserialize(value).ok()?;
        Some(Self {
            origin: written.origin,
            paths: written.paths,
            agents: written.agents,
            by: written.by,
            reason: written.reason,
            ticket: written.ticket,
            until: parse_time(&written.until)?,
            crawl_delay: written.crawl_delay.map(|delay| match delay {
                Value::String(text) => text,
                other => other.to_string(),
            }),
            log: None,
            brought_by_seq: seq,
            brought_at: time,
            removed_by_seq: None,
            removed_at: None,
            status: RegisterStatus::Unused,
            used: 0,
            first_used: None,
            last_used: None,
        })
    }

    /// Whether it is the same exemption, wherever it stands among others.
    fn is_same(&self, other: &Self) -> bool {
        let key = |it: &Self| {
            let Self { origin, paths, agents, by, reason, ticket, until, crawl_delay, .. } =
                it.clone();
            (origin, paths, agents, by, reason, ticket, until, crawl_delay)
        };
        key(self) == key(other)
    }

    /// Counts its uses. Records name who allowed it, why and until when, and their origin.
    fn count(&mut self, uses: &Tally<ExemptionKey, Use>) {
        let Ok(place) = Place::parse(&self.origin) else { return };
        let is_own = |key: &ExemptionKey| {
            (&key.by, &key.reason, &key.ticket, key.until)
                == (&self.by, &self.reason, &self.ticket, self.until)
                && place.covers(&key.origin)
        };
        let own = uses.entries().filter(|(key, _)| self.crawl_delay.is_none() && is_own(key));
        let (mut used, mut times) = (0, Vec::new());
        own.for_each(|(_, entry)| {
            used += entry.events.all();
            times.extend(entry.detail.times);
        });
        self.used = used;
        self.first_used = times.iter().map(|(first, _)| *first).min();
        self.last_used = times.iter().map(|(_, last)| *last).max();
    }
}
