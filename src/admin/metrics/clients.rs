//! The metrics of clients: their connections, the memory they hold, their TLS.

use super::exposition::Exposition;
use crate::admin::parts::MonitoredParts;

/// Adds these metrics to `page`.
pub(super) fn add(page: &mut Exposition, parts: &MonitoredParts) {
    page.gauge(
        "courtesy_connections",
        "Open client connections",
        parts.admission.open_connections() as u64,
    );
    let connections = &parts.request_metrics.connections;
    let help = "Client connections accepted, by the kind of the listener";
    page.counters("courtesy_connections_accepted", help, "listener", connections.accepted());
    let help = "Client connections by the protocol of their first bytes";
    page.counters("courtesy_client_protocol", help, "protocol", connections.protocols());
    let help = "Connections and requests rejected for their client or for a limit";
    let rejected = parts.admission.counts().by_reason();
    page.counters("courtesy_clients_turned_away", help, "reason", rejected);
    let memory = parts.admission.memory();
    let (held, limit) = memory.counts();
    page.bytes("courtesy_body_memory", "Memory held by requests in progress", held as u64);
    let help = "Limit of the memory held by requests in progress (limits.body_memory)";
    page.bytes("courtesy_body_memory_limit", help, limit as u64);
    let help = "Requests rejected, or continued with small reads, for lack of body memory";
    page.counter("courtesy_body_memory_waits", help, memory.refusals());
    let inside = &parts.request_metrics.tls;
    let help = "Failed TLS handshakes inside CONNECT, by the client's alert";
    page.counters("courtesy_tls_client_failures", help, "alert", inside.failures());
    let help = "TLS connections inside CONNECT that the client closed after the handshake, without a request";
    page.counter("courtesy_tls_client_unused", help, inside.unused());
    let help = "Pairs of client and host logged because the client does not seem to trust the CA";
    page.counter("courtesy_tls_clients_distrusting", help, inside.distrusting());
    let help = "Protocols that clients used inside an intercepted CONNECT";
    page.counters("courtesy_tunnel_protocol", help, "kind", inside.protocols());
}
