//! Intercepts a CONNECT. By its first bytes, TLS is terminated with a certificate of the proxy's
//! CA, plain HTTP is served as such, and anything else is closed and recorded; it is never
//! tunnelled.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rustls::AlertDescription;
use rustls::server::Acceptor;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{LazyConfigAcceptor, StartHandshake};
use tracing::{info, warn};

use super::preread::{Rewind, first_bytes};
use super::sni::{UNRECOGNIZED_NAME, check_intercepted};
use super::sniff::TunnelProtocol;
use crate::audit::Reason;
use crate::clients::MemoryPermit;
use crate::egress::PlaintextStream;
use crate::proxy::connection::client_socket::{ClientSocket, ClientStream};
use crate::proxy::connection::connection_state::ConnectionContext;
use crate::proxy::connection::{body, http2, serve};
use crate::proxy::decision::decision_context::OwnedRequestInfo;
use crate::proxy::destination::Scope;
use crate::proxy::handle::CurrentProxy;
use crate::proxy::observe::tls_metrics::{alert, remedy};
use crate::proxy::upgrade::PendingSocket;
use crate::runtime::{box_future, clock};
use crate::types::origin::{Origin, Scheme};

/// A CONNECT that is to be intercepted. Each step takes the settings of its moment.
#[derive(Debug)]
pub struct Interception {
    /// The target of the CONNECT.
    pub origin: Origin,
    /// The CONNECT request, for records.
    pub info: OwnedRequestInfo,
    pub current: CurrentProxy,
}

/// An intercepted connection by its protocol.
enum Inside {
    Plain(Stream, Arc<ConnectionContext>),
    Http1(Secured, Arc<ConnectionContext>),
    Http2(Secured, Arc<ConnectionContext>),
}

impl Interception {
    /// Serves the connection of `context` after its 200. Boxed, because the proxy handles requests
    /// inside as it did the CONNECT, and a future cannot contain itself.
    pub fn run(
        self,
        socket: PendingSocket,
        context: ConnectionContext,
        permit: MemoryPermit,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        box_future(|| run(self, socket, context, permit))
    }

    async fn begin(self, socket: PendingSocket, context: ConnectionContext) -> Option<Inside> {
        let (mut first, mut stream) = socket.socket().await?;
        let handshake_timeout = self.current.load().handshake_timeout;
        if first.is_empty() {
            first = first_bytes(&mut stream, handshake_timeout, &context.shutdown).await.ok()?;
        }
        let protocol = TunnelProtocol::of(&first);
        self.current.load().metrics.tls.count_protocol(protocol);
        let stream = Rewind::new(first, stream);
        match protocol {
            TunnelProtocol::Tls => self.accept_tls(stream, &context, handshake_timeout).await,
            TunnelProtocol::Http => {
                let (host, port) = (self.origin.host().clone(), self.origin.port());
                let plain = Origin::new(Scheme::Http, host, port);
                Some(Inside::Plain(stream, Arc::new(context.within(plain))))
            }
            TunnelProtocol::Other => {
                self.record(Reason::TunnelNotHttp, None).await;
                None
            }
        }
    }

    /// Terminates the client's TLS with a leaf for the host of the CONNECT.
    async fn accept_tls(
        self,
        stream: Stream,
        context: &ConnectionContext,
        handshake_timeout: Duration,
    ) -> Option<Inside> {
        let start = self.read_hello(stream, context, handshake_timeout).await?;
        let leaves = Arc::clone(&self.current.load().leaves);
        let config = match leaves.server_config(self.origin.host()).await {
            Ok(config) => config,
            Err(error) => {
                warn!(origin = %self.origin, "no certificate could be made: {error}");
                return None;
            }
        };
        let stream = match timeout(handshake_timeout, start.into_stream(config)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                self.note_failure(&error, context);
                return None;
            }
            Err(_) => {
                self.current.load().metrics.tls.count_failure(None);
                return None;
            }
        };
        let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let stream = PlaintextStream::new(Box::new(stream));
        let within = Arc::new(context.within(self.origin));
        Some(if is_h2 { Inside::Http2(stream, within) } else { Inside::Http1(stream, within) })
    }

    /// Reads the ClientHello, which must name the host of the CONNECT.
    async fn read_hello(
        &self,
        stream: Stream,
        context: &ConnectionContext,
        handshake_timeout: Duration,
    ) -> Option<StartHandshake<Stream>> {
        let acceptor = LazyConfigAcceptor::new(Acceptor::default(), stream);
        let start = match timeout(handshake_timeout, acceptor).await {
            Ok(Ok(start)) => start,
            Ok(Err(error)) => {
                let (client, origin) = (context.client.address, &self.origin);
                self.current.load().metrics.tls.count_failure(Some(&error));
                info!(%client, %origin, "no TLS handshake inside CONNECT: {error}");
                return None;
            }
            Err(_) => {
                self.current.load().metrics.tls.count_failure(None);
                return None;
            }
        };
        let host = self.origin.host();
        if let Err(mismatch) = check_intercepted(host, start.client_hello().server_name()) {
            self.record(Reason::SniMismatch, mismatch.name()).await;
            let mut stream = start.io;
            let _ = stream.write_all(&UNRECOGNIZED_NAME).await;
            return None;
        }
        Some(start)
    }

    async fn record(&self, reason: Reason, sni: Option<&str>) {
        let gate = Arc::clone(&self.current.load().gate);
        gate.record_inside(&self.origin, &self.info, reason, sni).await;
    }

    /// Counts a failed handshake. The most common trouble of a first run is a client that does not
    /// trust the proxy's CA. It sends an alert (RFC 8446 §6.2), or closes without one, as Node and
    /// asyncio do; the log names the client, with the remedy.
    fn note_failure(&self, error: &io::Error, context: &ConnectionContext) {
        let proxy = self.current.load();
        let (tls, origin, client) = (&proxy.metrics.tls, &self.origin, &context.client);
        let address = client.address;
        tls.count_failure(Some(error));
        let distrusts = matches!(
            alert(error),
            Some(
                AlertDescription::UnknownCA
                    | AlertDescription::CertificateUnknown
                    | AlertDescription::BadCertificate
            )
        );
        let has_closed = alert(error) == Some(AlertDescription::CloseNotify)
            || matches!(
                error.kind(),
                io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset
            );
        if distrusts {
            if tls.distrust.note_alert(client, origin) {
                let remedy = remedy(proxy.https.under_run);
                warn!(client = %address, %origin, "the client does not trust the proxy's CA ({error}): {remedy}");
            }
        } else if has_closed {
            tls.distrust.note_closed(client, origin, clock::monotonic());
        } else {
            info!(client = %address, %origin, "the TLS handshake with a client failed: {error}");
        }
    }
}

async fn run(
    interception: Interception,
    socket: PendingSocket,
    context: ConnectionContext,
    mut permit: MemoryPermit,
) {
    let current = Arc::clone(&interception.current);
    // Boxed, so that the memory of the handshake is free while the connection is served.
    let inside = box_future(|| interception.begin(socket, context)).await;
    if !matches!(inside, Some(Inside::Http2(..))) {
        permit.shrink_to(body::INTERCEPTED_BYTES);
    }
    match inside {
        Some(Inside::Plain(stream, within)) => serve(stream, within, current, None).await,
        Some(Inside::Http1(stream, within)) => {
            serve(stream, Arc::clone(&within), Arc::clone(&current), None).await;
            note_end(&within, &current);
        }
        Some(Inside::Http2(stream, within)) => {
            box_future(|| http2::serve(stream, Arc::clone(&within), Arc::clone(&current))).await;
            note_end(&within, &current);
        }
        None => {}
    }
}

/// A client that closes after the handshake, without a request, may not trust the certificate:
/// GnuTLS checks it when the handshake is over.
fn note_end(within: &ConnectionContext, current: &CurrentProxy) {
    let ConnectionContext { client, scope, state, .. } = within;
    let is_unused = state.requests() == 0 && !state.has_refused_input();
    if let Scope::Origin(origin) = scope
        && is_unused
        && state.has_ended_input()
    {
        let tls = &current.load().metrics.tls;
        tls.count_unused();
        tls.distrust.note_closed(client, origin, clock::monotonic());
    }
}

/// The client's own stream, whose first bytes have been read to recognize the protocol.
pub type Stream = Rewind<ClientSocket>;

/// TLS that ends here. Boxed: it is large, and moved often.
pub type Secured = PlaintextStream<Box<TlsStream<Stream>>>;

impl<S: ClientStream> ClientStream for Rewind<S> {
    fn unsent_bytes(&self) -> Option<u32> {
        self.get_ref().unsent_bytes()
    }
}

impl ClientStream for Secured {
    fn unsent_bytes(&self) -> Option<u32> {
        self.get_ref().get_ref().0.unsent_bytes()
    }

    fn has_closing_message(&self) -> bool {
        true
    }
}
