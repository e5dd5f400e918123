//! `Max-Forwards` of TRACE and OPTIONS (RFC 9110 §7.6.2).

use http::header::{HeaderValue, MAX_FORWARDS};
use http::{Method, request};

/// The proxy is the last recipient of a request, and answers it itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastForward {
    Options,
    Trace,
}

/// Counts the header down. At zero the request ends here; in other methods the header has no
/// meaning, and stays as it is.
pub fn count_down(head: &mut request::Parts) -> Option<LastForward> {
    let last = match head.method {
        Method::OPTIONS => LastForward::Options,
        Method::TRACE => LastForward::Trace,
        _ => return None,
    };
    let count: u64 = head.headers.get(MAX_FORWARDS)?.to_str().ok()?.trim().parse().ok()?;
    let Some(left) = count.checked_sub(1) else { return Some(last) };
    head.headers.insert(MAX_FORWARDS, HeaderValue::from(left));
    None
}
