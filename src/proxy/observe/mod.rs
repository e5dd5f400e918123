//! What the proxy counts and logs of the requests that it handles.

pub mod access_log;
pub mod connection_metrics;
pub mod decision_log;
pub mod decision_metrics;
pub mod distrust;
pub mod distrusting;
pub mod foreign_protocol_log;
pub mod frequent_origins;
pub mod request_metrics;
pub mod silent_client_log;
pub mod tls_metrics;
pub mod trace_id;
