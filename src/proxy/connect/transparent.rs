//! Serves a connection that the client has made to an origin, and that a rule of the network has
//! led to the proxy. The origin is the host that the request or TLS names, at the port that the
//! client connected to. What follows is as for a request to the proxy: TLS is treated as inside a
//! CONNECT to that host, plain HTTP by its requests.

use std::net::SocketAddr;
use std::sync::Arc;

use http::{HeaderMap, Method, Version, request};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::debug;

use super::preread::{NoBytes, Rewind, first_bytes, note_no_hello, read_hello};
use super::redirect_kind::RedirectKind;
use super::sni::{ACCESS_DENIED, Named};
use super::sniff::TunnelProtocol;
use crate::audit::Reason;
use crate::proxy::LINGER;
use crate::proxy::connection::body::{self, ActiveRequest};
use crate::proxy::connection::connection_state::ConnectionContext;
use crate::proxy::connection::serve as serve_http;
use crate::proxy::decision::decision_context::{OwnedRequestInfo, RequestInfo};
use crate::proxy::destination::{Scope, host_of};
use crate::proxy::handle::{CurrentProxy, Proxy};
use crate::proxy::observe::access_log::AccessEntry;
use crate::proxy::observe::request_metrics::ClientProtocol;
use crate::proxy::rejection::{Refusal, Rejection};
use crate::proxy::upgrade::{FirstBytes, PendingSocket};
use crate::runtime::box_future;
use crate::types::origin::{Host, Origin, Scheme};

/// A client's connection to `destination`.
struct Arrival {
    stream: TcpStream,
    destination: SocketAddr,
    /// The name that the destination stands for: Host and TLS must not name another.
    host: Option<Host>,
    context: ConnectionContext,
    current: CurrentProxy,
}

/// Serves `stream`, which the network has redirected by `redirect`, until either side ends
/// it. With `rejection`, that is the response to every request; TLS is closed.
pub async fn serve(
    stream: TcpStream,
    redirect: RedirectKind,
    context: ConnectionContext,
    current: CurrentProxy,
    rejection: Option<Rejection>,
) {
    let metrics = Arc::clone(&current.load().metrics);
    metrics.connections.count_accepted(redirect.listener_kind());
    let destination = match redirect.original_destination(&stream) {
        Ok(destination) => destination,
        Err(error) => {
            debug!(client = %context.client.address, "a transparent connection is closed: {error}");
            return;
        }
    };
    let host = redirect.name_of(destination.ip());
    let mut arrival = Arrival { stream, destination, host, context, current };
    let handshake_timeout = arrival.current.load().handshake_timeout;
    let shutdown = &arrival.context.shutdown;
    let first = first_bytes(&mut arrival.stream, handshake_timeout, shutdown).await;
    metrics.connections.count_protocol(counted(first.as_deref().ok()));
    if first == Err(NoBytes::TimedOut) && rejection.is_none() {
        metrics.silent_clients.log(&arrival.context.client, &arrival.authority());
    }
    drop(metrics);
    let Ok(first) = first else { return };
    match TunnelProtocol::of(&first) {
        TunnelProtocol::Http => arrival.serve_plain(first, rejection).await,
        TunnelProtocol::Tls if rejection.is_none() => {
            box_future(|| arrival.serve_tls(first)).await;
        }
        TunnelProtocol::Tls => alert(&mut arrival.stream).await,
        TunnelProtocol::Other if rejection.is_none() => {
            box_future(|| arrival.record_other()).await;
        }
        // A client that is not served writes no records either.
        TunnelProtocol::Other => {}
    }
}

impl Arrival {
    /// The destination, by its name if it stands for one.
    fn authority(&self) -> String {
        authority_of(&origin(self.host.clone(), None, self.destination))
    }

    async fn serve_plain(self, first: Vec<u8>, rejection: Option<Rejection>) {
        let scope = match self.host {
            Some(host) => Scope::Origin(Origin::new(Scheme::Http, host, self.destination.port())),
            None => Scope::Address(self.destination),
        };
        let within = self.context.scoped(scope).into();
        serve_http(Rewind::new(first, self.stream), within, self.current, rejection).await;
    }

    /// Treats TLS as inside a CONNECT to the host that it names.
    async fn serve_tls(self, mut first: Vec<u8>) {
        let Self { mut stream, destination, host, context, current } = self;
        let limit = current.load().handshake_timeout;
        let name = match timeout(limit, read_hello(&stream, &mut first)).await {
            Ok(Ok(Named(name))) => name,
            ended => {
                let authority = authority_of(&origin(host, None, destination));
                return note_no_hello(ended.ok(), &authority, &context, &current);
            }
        };
        if is_loop(&stream, destination, &current) {
            return alert(&mut stream).await;
        }
        let origin = origin(host, name.as_deref(), destination);
        let (sender, socket) = oneshot::channel();
        let proxy = current.load_full();
        let (authority, headers) = (authority_of(&origin), HeaderMap::new());
        let connected =
            proxy.connect_synthetic(&authority, headers, socket, &context, &current).await;
        drop(proxy);
        match (connected, context.state.take_after_upgrade()) {
            (Ok(()), Some(after)) => {
                // The other end is in `after`.
                let _ = sender.send((first, stream));
                after.await;
            }
            _ => alert(&mut stream).await,
        }
    }

    /// Records what is neither HTTP nor TLS. It names no host, so it goes nowhere.
    async fn record_other(self) {
        let Self { destination, host, context, current, .. } = self;
        let origin = origin(host, None, destination);
        let head = connect_head(&authority_of(&origin), HeaderMap::new());
        let head = head.expect("an origin's host and port are an authority");
        let entry = AccessEntry::of(&head, &context);
        let info = RequestInfo {
            client: &context.client,
            method: &head.method,
            user_agent: None,
            entry: &entry,
        };
        let info = OwnedRequestInfo::from(info);
        let proxy = current.load_full();
        proxy.metrics.tls.count_protocol(TunnelProtocol::Other);
        proxy.gate.record_inside(&origin, &info, Reason::TunnelNotHttp, None).await;
    }
}

/// The protocol of the first bytes, as it is counted.
fn counted(first: Option<&[u8]>) -> ClientProtocol {
    match first.map(TunnelProtocol::of) {
        None => ClientProtocol::None,
        Some(TunnelProtocol::Http) => ClientProtocol::Http1,
        Some(TunnelProtocol::Tls) => ClientProtocol::Tls,
        Some(TunnelProtocol::Other) if first.is_some_and(|first| first.starts_with(b"PRI ")) => {
            ClientProtocol::Http2
        }
        Some(TunnelProtocol::Other) => ClientProtocol::Other,
    }
}

/// Whether the client of `stream` is a tunnel of the proxy itself, which has been noted before its
/// first byte came.
fn is_loop(stream: &TcpStream, destination: SocketAddr, current: &CurrentProxy) -> bool {
    let proxy = current.load();
    let ends = &proxy.forwarding.tunnel_ends;
    let is_loop = ends.is_loop(stream, destination);
    if is_loop {
        ends.log_loop();
    }
    is_loop
}

/// The origin of a TLS connection: the host that the destination stands for, else its name, else
/// the address.
fn origin(host: Option<Host>, name: Option<&str>, destination: SocketAddr) -> Origin {
    let named = || Origin::from_authority(Scheme::Https, name?).ok();
    let host = host.or_else(|| named().map(|origin| origin.host().clone()));
    let host = host.unwrap_or_else(|| host_of(destination.ip()));
    Origin::new(Scheme::Https, host, destination.port())
}

/// The target of the CONNECT that a client of the proxy would have sent (RFC 9112 §3.2.3).
fn authority_of(origin: &Origin) -> String {
    format!("{}:{}", origin.host(), origin.port())
}

/// Ends TLS that has not begun, with the reason that it is not permitted.
async fn alert(stream: &mut TcpStream) {
    let _ = timeout(LINGER, stream.write_all(&ACCESS_DENIED)).await;
    let _ = timeout(LINGER, stream.shutdown()).await;
}

impl Proxy {
    /// Decides on a CONNECT to `authority` as [`Proxy::handle`] does, and writes its line of the
    /// access log. What follows is in the state of `context`, and takes the stream from `socket`.
    /// `headers` are those that the CONNECT of HTTP would have.
    ///
    /// # Errors
    ///
    /// Why the client is not connected.
    pub(in crate::proxy) async fn connect_synthetic(
        &self,
        authority: &str,
        headers: HeaderMap,
        socket: oneshot::Receiver<FirstBytes>,
        context: &ConnectionContext,
        current: &CurrentProxy,
    ) -> Result<(), Refusal> {
        let mut active = ActiveRequest::begin(&context.state);
        let head = connect_head(authority, headers)?;
        let mut entry = AccessEntry::of(&head, context);
        let opened = async {
            let client = self.identify(&head, context).await?;
            entry.note_user(&client);
            let bytes = body::footprint_of(&head, false, None);
            active.attach_permit(self.admission.admit_request(&client, bytes)?);
            let socket = PendingSocket::Channel(socket);
            self.connect(&head, socket, &client, context, current, &entry).await
        };
        match opened.await {
            Ok(response) => {
                entry.emit(context, response.status(), None);
                Ok(())
            }
            Err(refusal) => {
                let detail = match &refusal {
                    Refusal::Rejection(rejection) => rejection.detail.clone(),
                    Refusal::Denial(denial) => denial.sentence(),
                };
                let status = refusal.status();
                debug!(client = %context.client.address, status = status.as_u16(), "{detail}");
                entry.emit(context, status, Some(&refusal));
                Err(refusal)
            }
        }
    }
}

/// The head of a CONNECT of HTTP/1.1 to `authority` (RFC 9112 §3.2.3).
///
/// # Errors
///
/// `authority` is none.
pub fn connect_head(authority: &str, headers: HeaderMap) -> Result<request::Parts, Rejection> {
    let built = http::Request::builder()
        .method(Method::CONNECT)
        .uri(authority)
        .version(Version::HTTP_11)
        .body(());
    let (mut head, ()) =
        built.map_err(|_| Rejection::bad_request("the host is not valid"))?.into_parts();
    head.headers = headers;
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origin_of_tls_is_its_name_at_the_port_that_was_connected_to() {
        let at = |address: &str| address.parse().unwrap();
        for (name, destination, expected) in [
            (Some("Example.com"), "192.0.2.1:443", "https://example.com"),
            (Some("example.com"), "192.0.2.1:8443", "https://example.com:8443"),
            (None, "192.0.2.1:443", "https://192.0.2.1"),
            (None, "[2001:db8::1]:443", "https://[2001:db8::1]"),
            (Some("not a name"), "192.0.2.1:443", "https://192.0.2.1"),
        ] {
            let origin = origin(None, name, at(destination));
            assert_eq!(origin.to_string(), expected, "{name:?} {destination}");
            let head = connect_head(&authority_of(&origin), HeaderMap::new()).unwrap();
            assert_eq!(head.uri.port_u16(), Some(origin.port()), "{head:?}");
        }
    }
}
