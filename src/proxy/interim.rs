//! Interim (1xx) responses on their way from an origin to the client (RFC 9110 §15.2).

use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;

use http::header::HeaderMap;
use http::{Request, StatusCode, Version};
use tokio::sync::oneshot;

use super::control::Control;
use super::fields;
use crate::egress::Outgoing;
use crate::limits::{INTERIM_RESPONSES_MAX, INTERIM_RESPONSES_READ_MAX};

/// Where a client's interim responses go.
#[derive(Debug)]
pub struct Interim {
    received: Version,
    control: Arc<Control>,
    waker: Waker,
}

impl Interim {
    pub fn new(received: Version, control: &Arc<Control>, waker: Waker) -> Self {
        Self { received, control: Arc::clone(control), waker }
    }

    /// Has the interim responses to `request` passed on. A 100 lets the held body `go`: the engine
    /// says 100 to the client itself when its body is asked for. A client of HTTP/1.0 gets
    /// none, and one of HTTP/2 neither: the engine cannot send them there.
    pub fn pass_on(self, request: &mut Request<Outgoing>, go: Option<oneshot::Sender<()>>) -> Flood {
        let (too_many, flood) = oneshot::channel();
        let (go, too_many) = (Mutex::new(go), Mutex::new(Some(too_many)));
        let (read, passed) = (AtomicUsize::new(0), AtomicUsize::new(0));
        hyper::ext::on_informational(request, move |response| {
            if read.fetch_add(1, Ordering::Relaxed) >= INTERIM_RESPONSES_READ_MAX {
                tell(&too_many);
            } else if response.status() == StatusCode::CONTINUE {
                tell(&go);
            } else if self.received == Version::HTTP_11
                && passed.fetch_add(1, Ordering::Relaxed) < INTERIM_RESPONSES_MAX
            {
                self.control.send_interim(head(response.status(), response.headers()).as_bytes());
                self.waker.wake_by_ref();
            }
        });
        Flood(flood)
    }
}

/// Whether the interim responses to one request become a flood.
#[derive(Debug)]
pub struct Flood(oneshot::Receiver<()>);

impl Flood {
    /// Returns when there were too many of them: none is read behind it.
    pub async fn come(self) {
        if self.0.await.is_err() {
            // Nobody sends any more.
            std::future::pending().await
        }
    }
}

/// Once.
fn tell(whom: &Mutex<Option<oneshot::Sender<()>>>) {
    if let Some(whom) = whom.lock().expect("no panic while locked").take() {
        let _ = whom.send(());
    }
}

/// The head of an interim response as it goes out. Values that are no text are left out: an interim
/// response is a hint, and the wire is written by hand here.
fn head(status: StatusCode, received: &HeaderMap) -> String {
    let mut fields = received.clone();
    fields::remove_hop_by_hop(&mut fields);
    fields::remove_forgeries(&mut fields);
    let mut head =
        format!("HTTP/1.1 {} {}\r\n", status.as_u16(), status.canonical_reason().unwrap_or_default());
    for (name, value) in &fields {
        if let Ok(value) = value.to_str() {
            let _ = write!(head, "{name}: {value}\r\n");
        }
    }
    head.push_str("\r\n");
    head
}
