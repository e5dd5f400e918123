//! The stream between a client and what follows its CONNECT.

use std::io;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use crate::egress::{PlaintextStream, PollReadable};
use crate::proxy::CLIENT_UNSENT_BYTES_MAX;
use crate::runtime::delegate_io::delegate_io;
use crate::runtime::lazy_timer::LazyTimer;

/// A client's own connection to the proxy, by TLS. Boxed: it is large, and moved often.
pub type SecuredClient = PlaintextStream<Box<TlsStream<TcpStream>>>;

impl ClientStream for SecuredClient {
    fn unsent_bytes(&self) -> Option<u32> {
        self.get_ref().get_ref().0.unsent_bytes()
    }

    fn has_closing_message(&self) -> bool {
        true
    }
}

/// The client's side of a CONNECT.
#[derive(Debug)]
pub enum ClientSocket {
    /// The client's own connection.
    Tcp(TcpStream),
    /// The same, by TLS.
    Tls(SecuredClient),
    /// A stream of an HTTP/2 connection (RFC 9113 §8.5).
    Http2(TokioIo<Upgraded>),
}

delegate_io!(ClientSocket: Tcp Tls Http2);

impl ClientStream for ClientSocket {
    fn unsent_bytes(&self) -> Option<u32> {
        match self {
            Self::Tcp(stream) => stream.unsent_bytes(),
            Self::Tls(stream) => stream.unsent_bytes(),
            // Its window bounds what waits.
            Self::Http2(_) => None,
        }
    }

    fn has_closing_message(&self) -> bool {
        matches!(self, Self::Http2(_) | Self::Tls(_))
    }
}

impl PollReadable for ClientSocket {
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Tcp(stream) => stream.poll_readable(cx),
            Self::Tls(stream) => stream.get_ref().poll_readable(cx),
            // Only a read tells.
            Self::Http2(_) => Poll::Ready(()),
        }
    }
}

/// What a connection needs of its stream beside reading and writing.
pub trait ClientStream: AsyncRead + AsyncWrite + Unpin {
    /// Bytes that wait in the system to be sent, rounded down. `None` where the system does not
    /// tell.
    fn unsent_bytes(&self) -> Option<u32>;

    /// Whether closing the stream writes a message, as the `close_notify` of TLS (RFC 8446 §6.1).
    fn has_closing_message(&self) -> bool {
        false
    }
}

// Whether a client reads what it is sent. The system reports room for more only once half of the
// bytes that may wait have gone, and a client that reads slowly may take less than that within the
// write timeout. At the timeout, the system is therefore asked how many bytes still wait.

/// The precision of [`unsent_bytes`]. A client has to read as many within
/// `limits.body_idle_timeout`, or a segment, or a step of its window, where these are larger.
const UNSENT_BYTES_STEP: u32 = 4 << 10;

impl ClientStream for TcpStream {
    fn unsent_bytes(&self) -> Option<u32> {
        let unsent = unsent_bytes(self);
        // A task that waits for room may have been woken by the probes; it waits again.
        SockRef::from(self).set_tcp_notsent_lowat(CLIENT_UNSENT_BYTES_MAX).and(unsent).ok()
    }
}

/// The unsent bytes of `stream`, rounded down in steps from [`CLIENT_UNSENT_BYTES_MAX`]. The system
/// has the number (SIOCOUTQNSD), but no safe interface to it. It has room where fewer bytes wait
/// than half of a bound (TCP_NOTSENT_LOWAT), so lower and lower bounds are tried.
fn unsent_bytes(stream: &TcpStream) -> io::Result<u32> {
    let mut unsent = CLIENT_UNSENT_BYTES_MAX;
    while unsent > 0 {
        SockRef::from(stream).set_tcp_notsent_lowat(unsent.saturating_mul(2))?;
        if poll(&mut [PollFd::new(stream, PollFlags::OUT)], Some(&Timespec::default()))? == 0 {
            break;
        }
        unsent = unsent.saturating_sub(UNSENT_BYTES_STEP);
    }
    Ok(unsent)
}

/// Tells a client that reads slowly from one that does not read.
#[derive(Debug)]
pub struct WriteStall {
    timer: LazyTimer,
    /// The fewest bytes that waited since the system last took some.
    unsent: u32,
}

impl Default for WriteStall {
    fn default() -> Self {
        Self::new()
    }
}

impl WriteStall {
    /// A stream that takes what is written.
    pub const fn new() -> Self {
        Self { timer: LazyTimer::new(), unsent: CLIENT_UNSENT_BYTES_MAX }
    }

    /// The stream took what was written.
    pub const fn clear(&mut self) {
        self.timer.clear();
        self.unsent = CLIENT_UNSENT_BYTES_MAX;
    }

    /// Ready when the client of `stream`, which takes no more, has read nothing for `timeout`. The
    /// system is asked only at each timeout: a client that stops reading early is waited for up to
    /// twice as long.
    pub fn poll(
        &mut self,
        stream: &impl ClientStream,
        timeout: Duration,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        loop {
            ready!(self.timer.poll(timeout, cx));
            if !self.note_unsent(stream.unsent_bytes()) {
                return Poll::Ready(());
            }
            self.timer.begin(timeout);
        }
    }

    /// Notes how many bytes wait now; true if they are fewer than before.
    fn note_unsent(&mut self, unsent: Option<u32>) -> bool {
        let before = self.unsent;
        self.unsent = before.min(unsent.unwrap_or(before));
        self.unsent < before
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt, Empty, Join, Sink, empty, join, sink};
    use tokio::net::TcpListener;

    use super::*;

    const MOST: u32 = CLIENT_UNSENT_BYTES_MAX;

    /// A client that has read once.
    impl ClientStream for Join<Empty, Sink> {
        fn unsent_bytes(&self) -> Option<u32> {
            Some(MOST - 1)
        }
    }

    #[test]
    fn a_client_has_read_when_fewer_bytes_wait_than_ever_before() {
        let mut stall = WriteStall::new();
        let step = UNSENT_BYTES_STEP;
        for (unsent, expected) in [
            (None, false),
            (Some(MOST), false),
            (Some(MOST - step), true),
            (Some(MOST - step), false),
            (None, false),
            (Some(MOST - 2 * step), true),
            (Some(MOST), false),
            (Some(0), true),
            (Some(0), false),
        ] {
            assert_eq!(stall.note_unsent(unsent), expected, "{unsent:?}");
        }
        stall.clear();
        assert!(stall.note_unsent(Some(0)), "the bytes from before are of no account");
    }

    #[tokio::test]
    async fn a_client_that_reads_gets_another_timeout() {
        let mut stall = WriteStall::new();
        let stream = join(empty(), sink());
        let begun = crate::runtime::clock::monotonic();
        let timeout = Duration::from_millis(50);
        poll_fn(|cx| stall.poll(&stream, timeout, cx)).await;
        assert!(begun.elapsed() >= 2 * timeout, "it read before the first: {:?}", begun.elapsed());
    }

    #[tokio::test]
    async fn the_system_tells_how_many_bytes_wait() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connecting = TcpStream::connect(listener.local_addr().unwrap());
        let (client, accepted) = tokio::join!(connecting, listener.accept());
        let (mut client, stream) = (client.unwrap(), accepted.unwrap().0);
        let options = SockRef::from(&stream);
        options.set_tcp_notsent_lowat(MOST).unwrap();
        assert_eq!(stream.unsent_bytes(), Some(0), "nothing waits");
        let mut sent = 0;
        // The first bytes fill the client's buffer.
        while stream.unsent_bytes() < Some(MOST) {
            sent += options.send(&[0; 16 << 10]).unwrap_or(0);
        }
        client.read_exact(&mut vec![0; sent]).await.unwrap();
        assert_eq!(stream.unsent_bytes(), Some(0), "all {sent} were read");
        assert_eq!(options.tcp_notsent_lowat().unwrap(), MOST, "as it was");
    }
}
