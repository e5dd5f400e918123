//! The header by which a proxy recognises a request of its own that a parent proxy sends back to it.

use std::fmt;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};

/// The token of the proxy that sends the request. `Via` shows it as well, but parents may remove
/// that, and neither a CONNECT to a parent nor a fetch of robots.txt has one.
pub const LOOP_TOKEN: HeaderName = HeaderName::from_static("courtesy-loop");

/// The token of this process: 128 bits in hexadecimal digits, which cannot be guessed. Origins do
/// not see it, unless a parent that forwards in absolute-form passes it on. A client that has it can
/// only have its own requests refused.
#[derive(Clone)]
pub struct LoopToken(Arc<str>);

impl LoopToken {
    /// Of 16 random bytes.
    pub fn new(random: [u8; 16]) -> Self {
        Self(crate::types::sanitize::hex(&random).into())
    }

    /// The value of the header.
    pub fn header(&self) -> Option<HeaderValue> {
        HeaderValue::from_str(&self.0).ok()
    }

    /// Whether a request with `headers` has been through this process before.
    pub fn is_in(&self, headers: &HeaderMap) -> bool {
        headers.get_all(LOOP_TOKEN).iter().any(|value| value.as_bytes() == self.0.as_bytes())
    }
}

impl fmt::Display for LoopToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for LoopToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopToken").finish_non_exhaustive()
    }
}
