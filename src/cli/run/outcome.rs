//! A run that has ended.

use super::super::ephemeral_proxy::ProxyReport;
use super::super::exit::Failure;
use super::direct_connections::DirectConnections;
use super::sealed::refused_connections::Report;

/// A run that has ended.
pub struct RunOutcome {
    /// The exit code of the command, and its connections that bypassed the proxy; or why it did not
    /// run.
    pub ended: Result<(u8, DirectConnections), Failure>,
    pub report: ProxyReport,
    /// What a sealed run adds.
    pub sealed: Option<Report>,
}
