//! What the operator sees of a running proxy: health, readiness, metrics and settings, on a
//! listener of their own, and a socket for commands of the same user (`control`). Everything is
//! read when it is asked for, from what the parts count anyway: watching costs a request nothing.
//! It runs on a thread of its own, so that a busy proxy still answers here.

pub mod control;
pub mod guard;
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

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, info};

pub use control::RunFile;
use guard::Guard;
pub use listener::{BindError, Listener};
use parts::ADMIN_DEADLINE;
pub use parts::{MonitoredParts, Reloads};
pub use readiness::{Check, Status};
pub use token::{OPERATOR_TOKEN, Secret, Token, TokenError, VIEWER_TOKEN, read as read_token};

/// The running thread. Dropped, it lets the answers under way end, and ends.
#[derive(Debug)]
pub struct Admin {
    parts: Arc<MonitoredParts>,
    address: Option<SocketAddr>,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

/// The pages of the console, made by who knows what they show.
#[derive(Debug)]
pub struct ConsolePages {
    pub router: Router,
    /// Who may see them.
    pub guard: Arc<Guard>,
}

impl Admin {
    /// Starts to answer on `listener`, with the pages of `console` where there is one, and on `socket`.
    pub fn start(
        mut listener: Option<Listener>,
        socket: Option<control::Socket>,
        parts: Arc<MonitoredParts>,
        console: Option<ConsolePages>,
    ) -> io::Result<Self> {
        listener.as_mut().map_or(Ok(()), Listener::listen)?;
        let stop = CancellationToken::new();
        let address = listener.as_ref().map(Listener::address);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stopped, asked) = (stop.clone(), Arc::clone(&parts));
        let (pages, guard) =
            console.map_or_else(Default::default, |console| (console.router, Some(console.guard)));
        let thread = std::thread::Builder::new().name("admin".into()).spawn(move || {
            runtime.block_on(async {
                let tasks = TaskTracker::new();
                if let Some(listener) = listener {
                    let guard = guard.clone();
                    let guard = guard.unwrap_or_else(|| Guard::new(listener.address()).into());
                    let pages = with_routes(pages, Arc::clone(&asked), guard);
                    tasks.spawn(listener.serve(pages, tasks.clone(), stopped.clone()));
                }
                if let Some(socket) = socket {
                    tasks.spawn(control::serve_control(
                        socket,
                        asked,
                        guard,
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

/// The pages, and what else the listener answers.
fn with_routes(pages: Router, parts: Arc<MonitoredParts>, guard: Arc<Guard>) -> Router {
    let own = Arc::clone(&parts);
    let pages = pages.fallback(move |request: Request| {
        let answer = routes::answer(&request, &parts, &guard).map(Body::new);
        async move { answer }
    });
    pages.layer(from_fn(move |request: Request, next: Next| {
        let is_looping = own.via.is_looping(request.headers());
        async move {
            if is_looping { routes::looping().map(Body::new) } else { next.run(request).await }
        }
    }))
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
