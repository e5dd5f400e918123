//! What a request comes to when it is not forwarded, as data: problems, refusals, denials.

pub mod denial;
pub mod recorded;
pub mod refusal;
pub mod rejection;
pub mod robots_summary;
