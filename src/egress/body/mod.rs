//! Request and response bodies on their way through egress.

mod client_content;
mod io_state;
mod request_body;
mod response_body;
mod timeout_body;

pub use client_content::{ClientStall, ReadAllowance, RequestProgress, ResponseGuard};
pub use io_state::IoState;
pub use request_body::{InformationalListener, RequestBody};
pub use response_body::{ResponseBody, Via};
pub use timeout_body::TimeoutBody;
