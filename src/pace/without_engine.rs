//! The start of a turn for which the engine has no slot, because it is away: this proxy takes its
//! part of the pace.

use std::time::Duration;

use tokio::time::sleep_until;

use super::config::Away;
use super::lane::{Share, TurnId};
use super::lane_cell::TurnGuard;
use super::no_turn::{NoTurn, WaitReason};
use super::slot::{CONNECT_LEAD, StartRule};
use super::tick::Tick;

/// When the engine is asked again while a turn waits for its part of the pace.
const AWAY_RETRY: Duration = Duration::from_millis(250);

/// How a turn goes on without the engine.
enum WithoutEngine {
    Start(StartRule),
    /// Its part of the pace comes then.
    WaitUntil(Tick),
}

impl TurnGuard {
    /// Starts the turn without the engine, which has been away since then, or waits a moment before
    /// the engine is asked again: `None`.
    ///
    /// # Errors
    ///
    /// As [`Self::start_without_engine`].
    pub(super) async fn try_without_engine(
        &self,
        id: TurnId,
        since: Tick,
        deadline: Tick,
    ) -> Result<Option<StartRule>, NoTurn> {
        let start = match self.start_without_engine(id, since, deadline)? {
            WithoutEngine::Start(rule) => return Ok(Some(rule)),
            WithoutEngine::WaitUntil(start) => start,
        };
        let clock = &self.cell.context.clock;
        let retry = clock.now() + AWAY_RETRY;
        sleep_until(clock.instant(start.min(retry))).await;
        Ok(None)
    }

    /// Settles the start of a turn for which the engine has no slot since that moment: it takes
    /// this proxy's part of the pace, also where a single operation has failed. Where that is not
    /// soon, the engine is asked again until then.
    ///
    /// # Errors
    ///
    /// The time does not come before `deadline`, or nothing starts without the engine.
    fn start_without_engine(
        &self,
        id: TurnId,
        since: Tick,
        deadline: Tick,
    ) -> Result<WithoutEngine, NoTurn> {
        let context = &self.cell.context;
        let (cluster, config) = (&context.cluster, context.config.load());
        let is_up = cluster.engine().is_some_and(|engine| engine.status().is_up);
        let now = context.clock.now();
        if config.away == Away::Stop {
            let goes_on = is_up && now < deadline;
            return if goes_on {
                Ok(WithoutEngine::WaitUntil(now + AWAY_RETRY))
            } else {
                Err(NoTurn::EngineAway)
            };
        }
        let mut state = self.cell.state.lock();
        let known = state.lane.share();
        let share = if known.delay_factor > 1 {
            known
        } else {
            Share::away(cluster.delay_factor(&config), since)
        };
        let rule = if share.delay_factor > 1 { StartRule::OwnShare } else { StartRule::Free };
        let Some(at) = state.lane.starts_at_with(id, share) else {
            return Ok(WithoutEngine::Start(rule));
        };
        if at <= now + CONNECT_LEAD {
            state.lane.fix_start(id, share);
            return Ok(WithoutEngine::Start(rule));
        }
        // An engine that has failed once may respond in time for a slot.
        if at > deadline && (!is_up || now >= deadline) {
            let (wait, by) = (at.since(now), WaitReason::Share);
            return Err(NoTurn::TooLong { wait, by, line: None, delay: Duration::ZERO });
        }
        Ok(WithoutEngine::WaitUntil(at))
    }
}
