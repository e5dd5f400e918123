//! The shared engine on a real server: the scripts compute what the engine in memory does, survive
//! what may stand at their keys, and each fault of a server has a name.

mod cluster;
mod damage;
mod doctor;
mod eight;
mod failures;
mod faults;
mod holds;
mod hostile;
mod known;
mod lease;
mod members;
mod roster;
mod rotated;
mod round_trips;
mod same;
mod sentinel;
mod store;
mod tls;
mod witness;

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use courtesy::engine::redis::{Address, RedisConfig, RedisEngine};
use courtesy::engine::{Config, Engine, Error, ErrorKind, Pending};
use courtesy::runtime::clock::SystemClock;
use courtesy::types::origin::{Origin, Scheme};

use crate::testkit::processes::{DEADLINE, Place, RedisServer, Serve, until};

/// Of a test machine under load.
const TIMEOUT: Duration = Duration::from_secs(10);

fn wait<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(DEADLINE, future).await.expect("in time") })
}

/// What the engine responds.
#[track_caller]
fn get<T>(pending: Pending<T>) -> T {
    wait(pending).expect("the engine is there")
}

/// Why it does not.
#[track_caller]
fn refused<T: std::fmt::Debug>(pending: Pending<T>) -> Error {
    wait(pending).expect_err("the engine is away")
}

fn on(server: &RedisServer) -> RedisConfig {
    let timeouts = RedisConfig::at(Address::Unix(server.socket()));
    RedisConfig { timeout: TIMEOUT, ..timeouts }
}

/// The settings of a program with the engine at this socket.
fn settings(socket: &Path) -> String {
    let url = format!("redis+unix://{}", socket.display());
    // A machine of tests may be slow.
    format!("[engine]\nurl = \"{url}\"\ntimeout = \"5s\"\n")
}

fn start(name: &str, config: RedisConfig) -> RedisEngine {
    RedisEngine::start(Config::named(name), config, Arc::new(SystemClock)).expect("a thread")
}

/// An engine that has reached its server.
#[track_caller]
fn reached(name: &str, config: RedisConfig) -> RedisEngine {
    let engine = start(name, config);
    is_reached(&engine);
    engine
}

/// A proxy that has reached the engine of its settings: before, it decides without it.
#[track_caller]
fn serve(place: &Place) -> Serve {
    let serve = place.serve();
    until("the engine is reached", || serve.metric("courtesy_engine_up") == 1);
    serve
}

/// Waits until all servers can be reached.
#[track_caller]
fn is_reached(engine: &RedisEngine) {
    until("the servers are reached", || engine.status().is_up);
}

fn site(name: &str) -> Origin {
    Origin::from_authority(Scheme::Https, name).unwrap()
}

/// Waits until the engine is away for a reason of this kind, and returns that.
#[track_caller]
fn fault(engine: &RedisEngine, kind: ErrorKind) -> Error {
    let mut error = None;
    until(&format!("{kind}"), || {
        let status = engine.status();
        error = status.last_error.filter(|error| error.kind == kind && !status.is_up);
        error.is_some()
    });
    error.expect("an error")
}
