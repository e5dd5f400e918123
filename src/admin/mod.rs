//! What the operator sees of a running proxy: health, readiness, metrics and settings, on a
//! listener of their own, and a socket for commands of the same user (`control`). Everything is
//! read when it is asked for, from what the parts count anyway: watching costs a request nothing.
//! It runs on a thread of its own, so that a busy proxy still answers here.

pub mod control;
mod listener;
mod metrics;
pub mod parts;
mod readiness;
mod response;
mod routes;
mod token;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, info};

pub use control::RunFile;
pub use listener::{BindError, Listener};
use parts::ADMIN_DEADLINE;
pub use parts::{MonitoredParts, Reloads};
pub use token::{Secret, Token, TokenError, read as read_token};

/// The running thread. Dropped, it lets the answers under way end, and ends.
#[derive(Debug)]
pub struct Admin {
    parts: Arc<MonitoredParts>,
    address: Option<SocketAddr>,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Admin {
    /// Starts to answer on `listener` and on `socket`, where there is one.
    pub fn start(
        mut listener: Option<Listener>,
        socket: Option<control::Socket>,
        parts: MonitoredParts,
    ) -> io::Result<Self> {
        listener.as_mut().map_or(Ok(()), Listener::listen)?;
        let (stop, parts) = (CancellationToken::new(), Arc::new(parts));
        let address = listener.as_ref().map(Listener::address);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stopped, asked) = (stop.clone(), Arc::clone(&parts));
        let thread = std::thread::Builder::new().name("admin".into()).spawn(move || {
            runtime.block_on(async {
                let tasks = TaskTracker::new();
                if let Some(listener) = listener {
                    tasks.spawn(listener::serve(
                        listener,
                        Arc::clone(&asked),
                        tasks.clone(),
                        stopped.clone(),
                    ));
                }
                if let Some(socket) = socket {
                    tasks.spawn(control::serve_control(
                        socket,
                        asked,
                        tasks.clone(),
                        stopped.clone(),
                    ));
                }
                stopped.cancelled().await;
                tasks.close();
                let _ = timeout(ADMIN_DEADLINE, tasks.wait()).await;
            });
            // A client that still reads from the socket does not keep the process running.
            runtime.shutdown_background();
        })?;
        if let Some(address) = address {
            info!(%address, "health and metrics");
        }
        Ok(Self { parts, address, stop, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// From now on the proxy should be sent no more requests, and is not ready for any.
    pub fn note_draining(&self) {
        self.parts.draining.store(true, Ordering::Relaxed);
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            error!("the admin thread has panicked");
        }
    }
}
