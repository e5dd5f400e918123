//! When a turn starts for which the engine has no slot, because it is away: by this proxy's share
//! of the pace, its fallback.

use std::time::Duration;

use tokio::time::sleep_until;

use super::config::Away;
use super::lane::{Share, TurnId};
use super::lane_cell::TurnGuard;
use super::no_turn::{NoTurn, WaitReason};
use super::slot::{CONNECT_LEAD, StartRule};
use super::tick::Tick;

/// When the engine is asked again while a turn waits for its start by the share.
const AWAY_RETRY: Duration = Duration::from_millis(250);

/// What a turn does without the engine.
enum WithoutEngine {
    Start(StartRule),
    /// Its start by the share comes then; until that the engine is asked again.
    WaitUntil(Tick),
}

impl TurnGuard {
    /// The rule by which the turn starts without the engine, which has been away since then.
    /// `None`: its start is not near; this has waited a moment, and the engine is to be asked
    /// again.
    ///
    /// # Errors
    ///
    /// As [`Self::decide_without_engine`].
    pub(super) async fn wait_or_fall_back(
        &self,
        id: TurnId,
        since: Tick,
        deadline: Tick,
    ) -> Result<Option<StartRule>, NoTurn> {
        let start = match self.decide_without_engine(id, since, deadline)? {
            WithoutEngine::Start(rule) => return Ok(Some(rule)),
            WithoutEngine::WaitUntil(start) => start,
        };
        let clock = &self.cell.context.clock;
        let retry = clock.now() + AWAY_RETRY;
        sleep_until(clock.instant(start.min(retry))).await;
        Ok(None)
    }

    /// Decides when a turn starts for which the engine has no slot since that moment: by this
    /// proxy's share of the pace, also where a single operation has failed.
    ///
    /// # Errors
    ///
    /// The time does not come before `deadline`, or nothing starts without the engine.
    fn decide_without_engine(
        &self,
        id: TurnId,
        since: Tick,
        deadline: Tick,
    ) -> Result<WithoutEngine, NoTurn> {
        let context = &self.cell.context;
        let (peers, config) = (&context.peers, context.config.load());
        let is_up = peers.engine().is_some_and(|engine| engine.status().is_up);
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
            Share::away(peers.delay_factor(&config), since)
        };
        let rule =
            if share.delay_factor > 1 { StartRule::FallbackShare } else { StartRule::WithoutSlot };
        let Some(at) = state.lane.starts_at_with(id, share) else {
            return Ok(WithoutEngine::Start(rule));
        };
        if at <= now + CONNECT_LEAD {
            state.lane.fix_start_with(id, share);
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
