//! HTTP/1.1 to origins: one exchange at a time on each connection, without a task of its own.
//!
//! hyper's connection future does work only while it is polled. The exchange polls it in its own
//! task ([`Http1Connection::poll_driven`]), so no other task has to be woken for a request:
//!
//! ```text
//! exchange's task ─ poll_driven ─┬─ response future
//!        ▲                       └─ hyper connection ─ ReadLimited ─ TLS or TCP stream
//!        └── wake ── WakeRelay ──────────┘
//! ```
//!
//! [`WakeRelay`](wake_relay) is the waker that the connection is polled with. It passes wake-ups on
//! to the task that uses the connection, and drops those that the task causes itself.
//! [`ReadLimited`](read_limit) limits the size of reads. A head that hyper does not take is read once
//! more by [`HeadReader`](response_head), which makes one of it that hyper takes, or says what is
//! wrong with it.

mod connection;
mod driver;
mod large_read;
mod read_limit;
mod response_head;
mod wake_relay;

pub use connection::Http1Connection;
pub use driver::HyperResponse;
pub use large_read::{BUFFER_PERMITS_MAX, LargeRead};
pub use response_head::HeadFault;
