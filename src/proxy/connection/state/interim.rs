//! Interim (1xx) responses on their way from an origin to the client (RFC 9110 §15.2).

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::header::HeaderMap;
use http::{StatusCode, Version};
use tokio::sync::oneshot;

use crate::egress::InformationalListener;
use crate::proxy::connection::state::connection_state::ConnectionState;
use crate::proxy::request::hop_by_hop;
use crate::runtime::lock::Lock;

/// Interim responses passed on to one request.
const INTERIM_RESPONSES_MAX: usize = 16;

/// Interim responses read before the final response to one request. An origin that sends more
/// floods the proxy, and its final response is not waited for.
const INTERIM_RESPONSES_READ_MAX: usize = 1024;

/// Handles the interim responses to one request.
#[derive(Debug)]
pub struct Interim {
    version: Version,
    state: Arc<ConnectionState>,
    /// Reports a 100 (Continue), for which the body of the request waits.
    continue_sender: Lock<Option<oneshot::Sender<()>>>,
    read: AtomicUsize,
    passed: AtomicUsize,
}

impl Interim {
    /// A handler that passes interim responses on to the client of `state`, if `version`, that of
    /// the request, is HTTP/1.1: HTTP/1.0 has none, and hyper's HTTP/2 cannot send any. A 100
    /// (Continue) is not passed on; it is reported by `continue_sender`, and hyper sends its own
    /// 100 when the body is first read.
    pub fn new(
        version: Version,
        state: &Arc<ConnectionState>,
        continue_sender: Option<oneshot::Sender<()>>,
    ) -> Arc<Self> {
        let (read, passed) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Self {
            version,
            state: Arc::clone(state),
            continue_sender: Lock::new(continue_sender),
            read,
            passed,
        })
    }

    /// Whether the origin has sent more than are read.
    pub fn is_flood(&self) -> bool {
        self.read.load(Ordering::Relaxed) > INTERIM_RESPONSES_READ_MAX
    }
}

impl InformationalListener for Interim {
    fn on_informational(&self, status: StatusCode, fields: &HeaderMap) {
        self.read.fetch_add(1, Ordering::Relaxed);
        if self.is_flood() {
            return;
        }
        if status == StatusCode::CONTINUE {
            if let Some(sender) = self.continue_sender.lock().take() {
                let _ = sender.send(());
            }
        } else if self.version == Version::HTTP_11
            && self.passed.fetch_add(1, Ordering::Relaxed) < INTERIM_RESPONSES_MAX
        {
            self.state.interim().push(head(status, fields).as_bytes());
        }
    }
}

/// The head of an interim response as bytes. Values that are not text are left out: an interim
/// response is only a hint, and no library checks what is written here.
fn head(status: StatusCode, headers: &HeaderMap) -> String {
    let mut fields = headers.clone();
    hop_by_hop::clean_response(&mut fields);
    let mut head = format!(
        "HTTP/1.1 {} {}\r\n",
        status.as_u16(),
        status.canonical_reason().unwrap_or_default()
    );
    for (name, value) in &fields {
        if let Ok(value) = value.to_str() {
            let _ = write!(head, "{name}: {value}\r\n");
        }
    }
    head.push_str("\r\n");
    head
}
