//! Says when a request may start; the gate (`proxy/decision`) says whether.
//!
//! | word | meaning |
//! | --- | --- |
//! | lane | all requests to one origin, with its delays, concurrency and holds; or to one address, where addresses have limits |
//! | turn | the right of one request to start once; egress sends nothing without one |
//! | start | the writing of a request's head to its connection; the next start is a delay later |
//! | delay | the least time between two starts: of the lane (`pace.delay`), or of a group of the robots.txt (Crawl-delay) |
//! | concurrency | the paced requests that may be under way at an origin (`pace.concurrency`) |
//! | exchange | a request with its response; an origin has at most 256, paced or not |
//! | visit | a document that a browser shows and what it loads for it, which is one start at each origin |
//! | hold | a time without starts, because the origin asks for that (Retry-After) or fails |
//! | slot | the time for one start that a turn has reserved at the engine, where several proxies share a lane |
//! | engine | what several proxies share ([`crate::engine`]); it is *away* when it cannot be reached |
//! | share | this proxy's part of the requests under way at an origin: with the engine, `1 / proxies`; while it is away, by its rank |
//! | cell | a span of the engine's time, a little longer than a delay, in which one proxy alone may start without the engine |
//! | place | the right to one request under way, taken at the engine where more proxies request an origin than requests may be under way |
//! | page | any request of a crawler but a subresource of a visit and a robots.txt |
//!
//! # The way of a request
//!
//! ```text
//! Lanes::try_acquire    acquire         a turn at once: no delay, no hold, one more may be under way
//!   else wait_for_turn  acquire         queued in its lane, alternating with other clients
//!     LaneCell::grant…  lane_cell       its turn, when time (timer) or the end of another allows it
//!     Turn::reserve_slot
//!                       turn            a slot at the engine (slot), if proxies keep one pace; while
//!                                       that is away, a cell of this proxy
//! Lanes::try_start…     lanes           over its connection: the time has come at the origin, and at
//!                                       the address; wait_for_start_time if not
//! Turn::note_…          turn            the head is written; what a response means for the lane
//! drop(Turn)            lane_cell       the request is over; the next may have its turn
//! ```
//!
//! A [`Lane`](lane::Lane) is pure: it takes no lock and reads no clock; time is passed in as a
//! [`Tick`](tick::Tick), and the caller acts on what it returns. A `LaneCell` is a lane under its
//! lock, with the requests that wait. [`Lanes`] has those of all origins.

mod acquire;
mod addresses;
pub mod config;
mod context;
mod exchange_limit;
pub mod hold;
pub mod lane;
mod lane_cell;
mod lane_waits;
mod lanes;
mod listener;
mod no_turn;
mod shard;
#[cfg(test)]
mod simulation;
mod slot;
mod stats;
pub mod tick;
mod timer;
mod turn;
mod turn_request;
mod visits;

pub use acquire::{PendingTurn, TryAcquire};
pub use config::{AddressLimits, Away, Config, OriginPace, PaceMode};
pub use exchange_limit::NoExchange;
pub use hold::RequestFailure;
pub use lane::group::GroupName;
pub use lane::kept::{KeptHold, KeptLane};
pub use lane_waits::{LaneHold, LaneWait, LaneWaits, LongestWait};
pub use lanes::{LaneView, Lanes};
pub use listener::{HoldBegun, PaceListener, Waiting};
pub use no_turn::{NoTurn, WaitReason, Waited};
pub use stats::{Counts, WaitTotals};
pub use turn::Turn;
pub use turn_request::TurnRequest;
pub use visits::Visit;
