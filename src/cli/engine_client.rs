//! The shared engine of the settings, for commands, which read it and are no members.

use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::exit::{Exit, Failure, OrExit};
use crate::config::Settings;
use crate::engine::{Engine, Error, Pending, RedisEngine};
use crate::runtime::clock::SystemClock;
use crate::server::{SetupErrors, observer};

/// Added to the time in which the engine itself gives a connection up: its fault
/// is to be known by then.
const FAULT_WAIT: Duration = Duration::from_millis(500);

/// A connection to the engine, and the runtime that waits for its responses.
#[derive(Debug)]
pub struct EngineClient {
    pub engine: Arc<RedisEngine>,
    runtime: Runtime,
    connect_timeout: Duration,
}

impl EngineClient {
    /// The engine that the settings name; see [`observer`] for `scratch`. `None`: they name none.
    pub fn start(settings: &Settings, scratch: Option<&str>) -> Result<Option<Self>, Failure> {
        let engine = observer(settings, scratch, &(Arc::new(SystemClock) as _));
        let Some(engine) = engine.map_err(SetupErrors::from)? else { return Ok(None) };
        let runtime = Builder::new_current_thread().enable_time().build()?;
        let connect_timeout = engine.settings().connect_timeout();
        Ok(Some(Self { engine, runtime, connect_timeout }))
    }

    /// The same, connected; without an engine or a connection the command cannot go on.
    pub fn connect(settings: &Settings) -> Result<Self, Failure> {
        let none = || anyhow!("no shared engine is set: engine.url, or engine.url_file");
        let observer =
            Self::start(settings, None)?.ok_or_else(none).or_exit(Exit::Configuration)?;
        observer.wait_until_reachable().map_err(|why| Failure {
            exit: Exit::Unavailable,
            error: anyhow!("the shared engine cannot be reached: {why}"),
        })?;
        Ok(observer)
    }

    /// Waits until all its nodes can be reached.
    ///
    /// # Errors
    ///
    /// Why they cannot.
    pub fn wait_until_reachable(&self) -> Result<(), String> {
        let (reached, wait) =
            (self.engine.wait_until_reachable(), self.connect_timeout + FAULT_WAIT);
        let reached = self.runtime.block_on(async { timeout(wait, reached).await });
        let fault = || self.engine.status().last_error.map(|fault| fault.to_string());
        reached.map_err(|_| fault().unwrap_or_else(|| "no response in time".to_owned()))
    }

    /// The result of an operation.
    pub fn wait<T>(&self, pending: Pending<T>) -> Result<T, Error> {
        self.runtime.block_on(pending)
    }

    /// Runs `future` to its end.
    pub fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }
}
