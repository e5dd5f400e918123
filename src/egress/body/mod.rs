//! Request and response bodies on their way through egress.

mod backpressure;
mod io_state;
mod request_body;
mod request_progress;
mod response_body;
mod timeout_body;
mod trailers;

pub use io_state::IoState;
pub use request_body::{InformationalListener, ReadAllowance, RequestBody, ResponseGuard};
pub use request_progress::RequestProgress;
pub use response_body::{ResponseBody, Via};
pub use timeout_body::TimeoutBody;
