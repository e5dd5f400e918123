//! Says when a request may start; the gate says whether.
//!
//! All starts at one origin form a [`lane`]: they are a delay apart, a bounded number of them is
//! under way, and none starts while the origin asks for rest ([`hold`]). A lane takes no lock and
//! reads no clock: time is passed in, and the caller acts on what it returns.

pub mod hold;
pub mod lane;
mod queue;
pub mod tick;
