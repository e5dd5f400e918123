//! What the proxy counts and logs of the requests that it handles.

pub mod access_log;
pub mod decision_log;
pub mod decision_metrics;
pub mod request_metrics;
pub mod run_observer;
pub mod run_tally;
pub mod tls_metrics;
