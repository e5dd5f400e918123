//! The three parties: a [`Site`] with its robots.txt, `courtesy run` around a client, and the client,
//! of which only its answers are looked at. Every client says them in one form ([`Answer`]).

mod answer;
mod programs;
mod run;
mod site;

pub use crate::testkit::inside;
pub use answer::answers;
pub use programs::{apt, modules, node, program, python, with_modules};
pub use run::{DISTRUST, Ended, MAYBE_DISTRUST, Run, assert_denied, end};
pub use site::{SECRET, Site, WELCOME};
