//! A state [`Place`], the process that [`Serve`]s from it, a [`Site`] on every loopback address, the
//! [`Crawler`]s that go there, and a [`RedisServer`] with a [`Relay`] before it.

mod crawler;
mod hang;
mod log;
mod place;
mod redis_server;
mod relay;
mod serve;
mod site;

use std::time::Duration;

pub use crawler::{Answer, Crawler};
pub use hang::Hang;
pub use log::Log;
pub use place::Place;
pub use redis_server::{RedisServer, Reply};
pub use relay::{Command, HeldBack, Relay};
pub use serve::Serve;
pub use site::{Page, Robots, Site};

/// How long anything that must happen may take. Only a failing test takes so long.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// A file that closes one path.
pub const RULES: &str = "User-agent: *\nDisallow: /private/\n";

/// Waits until `seen` holds, for what tells of no change by itself.
#[track_caller]
pub fn until(what: &str, mut seen: impl FnMut() -> bool) {
    let end = courtesy::runtime::clock::monotonic() + DEADLINE;
    while !seen() {
        assert!(courtesy::runtime::clock::monotonic() < end, "it did not happen that {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// A figure that the environment may make larger.
#[expect(clippy::disallowed_methods, reason = "a test is a program of its own")]
pub fn scale(variable: &str, ordinary: usize) -> usize {
    match std::env::var(variable) {
        Ok(text) => {
            text.parse().unwrap_or_else(|_| panic!("{variable} is {text:?}, which is no number"))
        }
        Err(_) => ordinary,
    }
}
