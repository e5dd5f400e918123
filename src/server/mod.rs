//! The running proxy: listeners, workers and the drain at the end. Each worker is a thread with its
//! own runtime; a connection stays on one worker.

mod accept;
mod build;
mod components;
mod descriptors;
mod egress;
mod engine;
mod lifecycle;
mod listeners;
mod liveness;
mod membership;
mod pace_keeper;
mod prepare;
mod reload;
mod running;
mod totals;
mod witness;
mod worker;
mod worker_queue;

pub use build::{build, build_prepared};
pub use components::Components;
pub use egress::{build_egress, store};
pub use engine::{EngineError, is_name_of, observer};
pub use lifecycle::Lifecycle;
pub use listeners::{BindError, Listeners};
pub use liveness::Liveness;
pub use prepare::{Prepared, SetupError, SetupErrors, prepare};
pub use reload::Changed;
pub use running::{Server, announce};
