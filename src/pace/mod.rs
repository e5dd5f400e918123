//! Says when a request may start; the gate says whether.
//!
//! All starts at one origin form a [`lane`]: they are a delay apart, a bounded number of them is
//! under way, and none starts while the origin asks for rest ([`hold`]). A lane takes no lock and
//! reads no clock: time is passed in, and the caller acts on what it returns. [`Lanes`] has the
//! lanes of all origins, and gives each request its [`Turn`], without which egress sends nothing.
//! Where addresses have limits, each has a lane as well, which a request enters with its connection.

mod addresses;
mod cluster;
mod config;
mod exchange_wait;
mod exchanges;
pub mod hold;
pub mod lane;
mod lane_cell;
mod lanes;
mod limits;
mod no_turn;
mod outcome;
mod presence;
mod queue;
mod shard;
mod shared;
mod shared_holds;
#[cfg(test)]
mod simulation;
mod slot;
mod start;
mod stats;
mod take;
mod terms;
pub mod tick;
mod ticks;
mod timer;
mod turn;
mod visits;
mod waited;
mod waiting;

pub use config::{AddressLimits, Away, Config, OriginPace, PaceMode, Subresources};
pub use exchanges::NoExchange;
pub use lane::kept::{KeptHold, KeptLane};
pub use lanes::{LaneView, Lanes};
pub use no_turn::{NoTurn, WaitReason};
pub use stats::{Counts, WaitTotals};
pub use take::{TurnOrWait, TurnRequest, Wait};
pub use turn::Turn;
pub use visits::Visit;
pub use waited::Waited;
