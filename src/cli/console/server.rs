//! Serves the pages to browsers on this machine: bounded in connections, heads and time.

use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::runtime::listener::ACCEPT_RETRY_INTERVAL;

/// Connections at one time; more wait to be accepted.
const CONNECTIONS_MAX: usize = 64;

/// Bytes of the head of a request.
const HEAD_BYTES_MAX: usize = 8 << 10;

/// How long the head of a request may take, and a connection may be idle.
const HEAD_TIME_MAX: Duration = Duration::from_secs(30);

/// How long a connection lives: a browser opens another.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(10 * 60);

/// Serves until the process is asked to end.
pub async fn serve(listener: TcpListener, pages: Router) {
    let places = std::sync::Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let accept = async {
        loop {
            let place = places.clone().acquire_owned().await;
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(_) => {
                    tokio::time::sleep(ACCEPT_RETRY_INTERVAL).await;
                    continue;
                }
            };
            let service = TowerToHyperService::new(pages.clone());
            tokio::spawn(async move {
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEAD_TIME_MAX)
                    .max_buf_size(HEAD_BYTES_MAX)
                    .serve_connection(TokioIo::new(stream), service);
                // An error is the browser's, which has left or gets its response.
                let _ = timeout(CONNECTION_TIME_MAX, connection).await;
                drop(place);
            });
        }
    };
    tokio::select! {
        () = accept => {}
        _ = tokio::signal::ctrl_c() => {}
        () = terminated() => {}
    }
}

/// SIGTERM.
async fn terminated() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => {
            terminate.recv().await;
        }
        Err(_) => std::future::pending().await,
    }
}
