//! What runs inside a CONNECT. The first bytes tell: TLS is terminated with a certificate of our
//! own, plain HTTP is served as such, anything else is closed and recorded, and never a tunnel.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::upgrade::OnUpgrade;
use rustls::AlertDescription;
use rustls::server::Acceptor;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::{info, warn};

use crate::audit::Reason;
use crate::clients::Held;
use crate::egress::PlaintextStream;
use crate::proxy::connect::rewind::Rewind;
use crate::proxy::connect::sni::{UNRECOGNIZED_NAME, check_intercepted};
use crate::proxy::connect::sniff::Protocol;
use crate::proxy::connect::upgrade::own_stream;
use crate::proxy::connection::client_stream::ClientStream;
use crate::proxy::connection::{http2, serve};
use crate::proxy::decision::request_info::OwnedRequestInfo;
use crate::proxy::exchange::connection_context::Channel;
use crate::proxy::exchange::footprint;
use crate::proxy::limits::FIRST_REQUEST_GRACE;
use crate::proxy::observe::distrust::remedy;
use crate::proxy::observe::tls_metrics::alert;
use crate::proxy::request::target::Scope;
use crate::runtime::box_future::box_future;
use crate::runtime::clock;
use crate::types::origin::{Origin, Scheme};

type Stream = Rewind<TcpStream>;
/// Its TLS on the heap: it would be moved with each change of hands.
type Secured = PlaintextStream<Box<TlsStream<Stream>>>;

impl ClientStream for Stream {
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

/// Bytes that are read before it is decided what they are. The first alone would tell, but the
/// HTTP engine, once it has part of a head, does not look at it again before the empty line: it
/// would wait for an end that other protocols never send.
const FIRST_BYTES_MAX: usize = 4096;

/// What follows a CONNECT to `origin`, once the client has its 200. Boxed, because a request inside
/// is handled by what handled the CONNECT, and a future cannot contain itself.
pub fn sequel(
    upgrade: OnUpgrade,
    origin: Origin,
    channel: Channel,
    info: OwnedRequestInfo,
    held: Held,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    box_future(|| run(upgrade, origin, channel, info, held))
}

/// What is known of a client once it is clear what it speaks.
enum Inside {
    Plain(Stream, Arc<Channel>),
    Http1(Secured, Arc<Channel>),
    Http2(Secured, Arc<Channel>),
}

/// What it takes to get there is given back before the rest.
async fn run(
    upgrade: OnUpgrade,
    origin: Origin,
    channel: Channel,
    info: OwnedRequestInfo,
    mut held: Held,
) {
    let inside = box_future(|| begin(upgrade, origin, channel, info)).await;
    if !matches!(inside, Some(Inside::Http2(..))) {
        held.shrink_to(footprint::INTERCEPTED_BYTES);
    }
    match inside {
        Some(Inside::Plain(stream, within)) => serve(stream, within, None).await,
        Some(Inside::Http1(stream, within)) => {
            serve(stream, Arc::clone(&within), None).await;
            note_end(&within);
        }
        Some(Inside::Http2(stream, within)) => {
            box_future(|| http2::serve(stream, Arc::clone(&within))).await;
            note_end(&within);
        }
        None => {}
    }
}

/// A client that ends its connection after the handshake without a request may not trust the certificate: GnuTLS
/// looks at it when the handshake is over.
fn note_end(within: &Channel) {
    let Channel { client, scope, state, proxy, .. } = within;
    let is_unused = state.exchanges() == 0 && !state.has_refused_input();
    if let Scope::Within(origin) = scope
        && is_unused
        && state.has_ended_input()
    {
        let inside = &proxy.load().metrics.tls;
        inside.count_unused();
        inside.distrust.note_closed(client, origin, clock::monotonic());
    }
}

async fn begin(
    upgrade: OnUpgrade,
    origin: Origin,
    channel: Channel,
    info: OwnedRequestInfo,
) -> Option<Inside> {
    let (mut first, mut stream) = own_stream(upgrade.await.ok()?).ok()?;
    let patience = channel.proxy.load().handshake_timeout;
    if first.is_empty() {
        first = vec![0; FIRST_BYTES_MAX];
        let read = tokio::select! {
            read = timeout(patience, stream.read(&mut first)) => read,
            // Nothing is under way yet that should be let end, but it may be about to begin.
            () = async { channel.stop.wait().await; sleep(FIRST_REQUEST_GRACE).await } => return None,
        };
        let Ok(Ok(count @ 1..)) = read else { return None };
        first.truncate(count);
    }
    let protocol = Protocol::of(&first);
    channel.proxy.load().metrics.tls.count_protocol(protocol);
    let stream = Rewind::new(first, stream);
    match protocol {
        Protocol::Tls => tls(stream, origin, &channel, &info, patience).await,
        Protocol::Http => {
            let plain = Origin::new(Scheme::Http, origin.host().clone(), origin.port());
            Some(Inside::Plain(stream, Arc::new(channel.within(plain))))
        }
        Protocol::Other => {
            let proxy = channel.proxy.load_full();
            proxy.gate.record_inside(&origin, &info, Reason::TunnelNotHttp, None).await;
            None
        }
    }
}

async fn tls(
    stream: Stream,
    origin: Origin,
    channel: &Channel,
    info: &OwnedRequestInfo,
    patience: Duration,
) -> Option<Inside> {
    let acceptor = LazyConfigAcceptor::new(Acceptor::default(), stream);
    let start = match timeout(patience, acceptor).await {
        Ok(Ok(start)) => start,
        Ok(Err(error)) => {
            channel.proxy.load().metrics.tls.count_failure(Some(&error));
            info!(client = %channel.client.address, %origin, "no TLS handshake inside CONNECT: {error}");
            return None;
        }
        Err(_) => {
            channel.proxy.load().metrics.tls.count_failure(None);
            return None;
        }
    };
    if let Err(mismatch) = check_intercepted(origin.host(), start.client_hello().server_name()) {
        let gate = Arc::clone(&channel.proxy.load().gate);
        gate.record_inside(&origin, info, Reason::SniMismatch, mismatch.name()).await;
        let mut stream = start.io;
        let _ = stream.write_all(&UNRECOGNIZED_NAME).await;
        return None;
    }
    let leaves = Arc::clone(&channel.proxy.load().leaves);
    let config = match leaves.server_config(origin.host()).await {
        Ok(config) => config,
        Err(error) => {
            warn!(%origin, "no certificate could be made: {error}");
            return None;
        }
    };
    let stream = match timeout(patience, start.into_stream(config)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            say_why_not(&error, &origin, channel);
            return None;
        }
        Err(_) => {
            channel.proxy.load().metrics.tls.count_failure(None);
            return None;
        }
    };
    let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let stream = PlaintextStream::new(Box::new(stream));
    let within = Arc::new(channel.within(origin));
    Some(if is_h2 { Inside::Http2(stream, within) } else { Inside::Http1(stream, within) })
}

/// The commonest trouble of a first run is a client that does not trust our CA. It says so in an
/// alert (RFC 8446 §6.2), or leaves without a word, as Node and asyncio do; the log names it, with the
/// remedy.
fn say_why_not(error: &io::Error, origin: &Origin, channel: &Channel) {
    let proxy = channel.proxy.load();
    let inside = &proxy.metrics.tls;
    inside.count_failure(Some(error));
    let distrusts = matches!(
        alert(error),
        Some(
            AlertDescription::UnknownCA
                | AlertDescription::CertificateUnknown
                | AlertDescription::BadCertificate
        )
    );
    let has_left = alert(error) == Some(AlertDescription::CloseNotify)
        || matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset);
    if distrusts {
        if inside.distrust.note_alert(&channel.client, origin) {
            let (client, remedy) = (channel.client.address, remedy(proxy.https.under_run));
            warn!(%client, %origin, "the client does not trust the proxy's CA ({error}): {remedy}");
        }
    } else if has_left {
        inside.distrust.note_closed(&channel.client, origin, clock::monotonic());
    } else {
        info!(client = %channel.client.address, %origin, "the TLS handshake with a client failed: {error}");
    }
}
