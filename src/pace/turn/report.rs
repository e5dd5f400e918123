//! What a request in its turn reports to its lane: its start, its response, its failure.

use std::sync::atomic::Ordering;

use http::{HeaderMap, StatusCode};

use super::{Turn, VisitRole};
use crate::pace::conditions::Role;
use crate::pace::engine_holds;
use crate::pace::hold::{Outcome, RequestFailure};
use crate::pace::lane::{HoldChange, HoldScope};
use crate::pace::lane_cell::LaneCell;
use crate::pace::limits::KEPT_HOLD_MIN;
use crate::pace::response_outcome::{concerns_pace, jitter, outcome};
use crate::pace::visits::is_document;
use crate::policy::pace::RateLimit;

impl Turn {
    /// The head of the request has been written: the distance to the next start counts from now.
    pub fn note_request_written(&self) {
        if self.0.conditions.role == Role::PageQueued
            && let Some((cell, id)) = self.in_lane()
        {
            let now = cell.context.clock.now();
            cell.update(now, |state| state.lane.record_start(id, now));
        }
        if let Some(guard) = &self.0.address {
            guard.update(|lane, id, now| lane.record_start(id, now));
        }
    }

    /// The head of the response has come: what it says about the pace applies.
    pub fn note_response(&self, status: StatusCode, headers: &HeaderMap) {
        if let Some(guard) = &self.0.address {
            guard.update(|lane, id, now| lane.note_response_head(id, now));
        }
        if matches!(self.0.visit, VisitRole::Document) && is_document(status, headers) {
            let context = &self.0.guard.cell.context;
            context.visits.begin(self.client(), self.origin(), context.clock.now());
        }
        let Some((cell, id)) = self.in_lane() else { return };
        let now = cell.context.clock.now();
        if !concerns_pace(status, headers) {
            let mut state = cell.state.lock();
            if !state.lane.follows_responses(now) {
                state.lane.note_response_head(id, now);
                return;
            }
        }
        let (config, date) = (cell.context.config.load(), cell.context.clock.date());
        let is_robots_txt = self.0.conditions.role == Role::RobotsTxt;
        let (outcome, limit) = outcome((status, headers), is_robots_txt, &config, date);
        // A response to one agent concerns no other: the rest is that of its robots.txt.
        let (outcome, limit) = match outcome {
            Outcome::RetryLater { .. } if self.0.is_for_one_agent => {
                (Outcome::Ignored, RateLimit::default())
            }
            _ if self.0.is_for_one_agent => (outcome, RateLimit::default()),
            _ => (outcome, limit),
        };
        if limit != RateLimit::default() {
            cell.update(now, |state| {
                if let Some((delay, time)) = limit.spread {
                    state.lane.spread(delay, now + time);
                }
                if let Some((concurrency, time)) = limit.concurrent {
                    let concurrency = usize::try_from(concurrency).unwrap_or(usize::MAX);
                    state.lane.limit_concurrency(concurrency, now + time);
                }
            });
        }
        self.note(outcome);
    }

    /// The client holds its request up, or does so no longer: meanwhile the request does not count
    /// as under way.
    pub fn note_client_stall(&self, is_stalled: bool) {
        if let Some((cell, id)) = self.in_lane() {
            let now = cell.context.clock.now();
            cell.update(now, |state| state.lane.set_stalled(id, is_stalled));
        }
        if let Some(guard) = &self.0.address {
            guard.update(|lane, id, _| lane.set_stalled(id, is_stalled));
        }
    }

    /// There was no response, or not all of one.
    pub fn note_failure(&self, failure: RequestFailure) {
        // The fetch of a robots.txt has a back-off of its own.
        let is_robots_txt = self.0.conditions.role == Role::RobotsTxt;
        self.note(match failure {
            _ if is_robots_txt => Outcome::Ignored,
            RequestFailure::Timeout => Outcome::Failure { status: 503 },
            RequestFailure::ConnectionLost => Outcome::ConnectionLost,
            RequestFailure::EnhanceYourCalm => Outcome::Overload { status: 429 },
            RequestFailure::Other => Outcome::Ignored,
        });
    }

    fn note(&self, outcome: Outcome) {
        let Some((cell, id)) = self.in_lane() else { return };
        let (now, jitter) = (cell.context.clock.now(), jitter(outcome));
        let (change, has_recovered) = cell.update(now, |state| {
            let had_streak = state.lane.has_streak();
            let change = state.lane.note(id, outcome, now, jitter);
            if change != HoldChange::Nothing {
                cell.count_bytes(state);
                LaneCell::drop_late_waiters(state, now);
                let hold = state.lane.hold_at(now);
                if hold.is_some_and(|hold| hold.until.since(now) >= KEPT_HOLD_MIN) {
                    cell.context.has_new_holds.store(true, Ordering::Relaxed);
                }
            }
            (change, had_streak && !state.lane.has_streak())
        });
        // Where clients do not trust each other, what the proxy itself was told stays here, too.
        let scope = cell.context.config.load().lane.hold_scope;
        if change == HoldChange::OfAll && scope == HoldScope::Origin {
            engine_holds::report(cell, outcome, jitter);
        }
        if has_recovered {
            engine_holds::report_recovery(cell);
        }
    }
}
