//! The running proxy: listeners, workers and the drain at the end. Each worker is a thread with its
//! own runtime; a connection stays on one worker.

mod accept;
mod components;
mod engine;
mod lifecycle;
mod listeners;
mod pace_keeper;
mod prepare;
mod publisher;
mod running;
mod totals;
mod witness;
mod worker;

pub use components::{Components, build, build_egress, build_prepared, build_store};
pub use engine::{EngineError, is_name_of, observer};
pub use lifecycle::{Lifecycle, Liveness};
pub use listeners::{BindError, Listeners};
pub use prepare::{Prepared, SetupError, SetupErrors, prepare};
pub use running::{Changed, Server, announce};
