//! The three parties of a test: a scripted [`Origin`], the [`Proxy`] under test, a raw [`Client`].

mod client;
mod h2;
pub mod h2_origin;
mod origin;
mod parent;
mod proxy;
pub mod tls;
mod tls_front;
mod wire;

use std::time::Duration;

pub use client::{Client, Response, connect, request};
pub use h2::H2;
pub use h2_origin::H2Origin;
pub use origin::{Log, Origin, Received, Script, answer, endless, ok, ok_with, refusing};
pub use parent::{Does, Parent, Speaks};
pub use proxy::{NOW, Proxy};
pub use tls_front::{End, TlsFront, params};

/// How long anything that must happen may take. Only a failing test takes so long.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// The crawler that asks, where a test names none.
pub const AGENT: &str = "ExampleBot/1.0 (+http://bot.example/)";

/// Waits until `seen` holds, for what tells of no change by itself.
#[track_caller]
pub fn until(what: &str, mut seen: impl FnMut() -> bool) {
    let end = courtesy::runtime::clock::monotonic() + DEADLINE;
    while !seen() {
        assert!(courtesy::runtime::clock::monotonic() < end, "it did not happen that {what}");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}
