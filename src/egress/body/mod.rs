//! Request and response bodies on their way through egress.

mod backpressure;
mod client_content;
mod io_state;
mod request_body;
mod request_progress;
mod response_body;
mod timeout_body;
mod trailers;
mod whole_body;

pub use client_content::{ReadAllowance, ResponseGuard};
pub use io_state::IoState;
pub use request_body::{InformationalListener, RequestBody};
pub use request_progress::{ClientStall, RequestProgress};
pub use response_body::{ResponseBody, Via};
pub use timeout_body::TimeoutBody;
