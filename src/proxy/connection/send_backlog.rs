//! Whether a client reads what it is sent. The system tells of room for more only when half of what may wait has gone:
//! a client that reads slowly takes less of it than that in the time that it has. When that is over, the system
//! is asked how much waits.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::net::TcpStream;

use crate::proxy::limits::CLIENT_UNSENT_BYTES_MAX;
use crate::runtime::lazy_timer::LazyTimer;

/// Bytes fewer of them by which it is seen that a client reads: so many it must within
/// `limits.body_idle_timeout`, and those of a segment or of a step of its window more, where these are larger.
const UNSENT_BYTES_SEEN: u32 = 4 << 10;

/// A stream that knows what of it waits in the system.
pub trait Unsent {
    /// Whether fewer bytes than so many wait to be sent. It is not so where nobody can tell.
    fn has_fewer(&self, bytes: u32) -> bool;

    /// Whether it says something of its own before it is closed, as TLS does (RFC 8446 §6.1).
    fn has_last_words(&self) -> bool {
        false
    }
}

impl Unsent for TcpStream {
    #[cfg(target_os = "linux")]
    fn has_fewer(&self, bytes: u32) -> bool {
        linux::has_fewer(self, bytes).unwrap_or(false)
    }

    #[cfg(not(target_os = "linux"))]
    fn has_fewer(&self, _: u32) -> bool {
        false
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use socket2::SockRef;
    use tokio::net::TcpStream;

    use crate::proxy::limits::CLIENT_UNSENT_BYTES_MAX;

    /// The system says how many wait (SIOCOUTQNSD), but none of our crates asks it. It has room where they are fewer
    /// than half of the bound: so another bound is tried. Whoever waits for room may be woken by that, and
    /// waits again; it loses no waking, for to wait is to look first.
    pub(super) fn has_fewer(stream: &TcpStream, bytes: u32) -> io::Result<bool> {
        let options = SockRef::from(stream);
        options.set_tcp_notsent_lowat(bytes.saturating_mul(2))?;
        let with_room =
            poll(&mut [PollFd::new(stream, PollFlags::OUT)], Some(&Timespec::default()));
        options.set_tcp_notsent_lowat(CLIENT_UNSENT_BYTES_MAX)?;
        Ok(with_room? > 0)
    }
}

/// Whether a client takes what it is sent, and for how long it has not.
#[derive(Debug)]
pub struct Taking {
    deadline: LazyTimer,
    /// No fewer bytes than these waited when it was last looked, or when the system took no more.
    waited: u32,
}

impl Taking {
    pub const fn new() -> Self {
        Self { deadline: LazyTimer::new(), waited: CLIENT_UNSENT_BYTES_MAX }
    }

    /// The system has taken what there was.
    pub const fn clear(&mut self) {
        self.deadline.clear();
        self.waited = CLIENT_UNSENT_BYTES_MAX;
    }

    /// Ready when the client of `stream`, which takes no more, has read nothing for `limit`: it is looked each time
    /// that this is over, so that one that has read only in the beginning is waited for twice as long.
    pub fn poll(
        &mut self,
        stream: &impl Unsent,
        limit: Duration,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        loop {
            ready!(self.deadline.poll(limit, cx));
            if !self.has_read(stream) {
                return Poll::Ready(());
            }
            self.deadline.begin(limit);
        }
    }

    fn has_read(&mut self, stream: &impl Unsent) -> bool {
        let before = self.waited;
        while self.waited > 0 && stream.has_fewer(self.waited) {
            self.waited = self.waited.saturating_sub(UNSENT_BYTES_SEEN);
        }
        self.waited < before
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::poll_fn;

    use super::*;

    const MOST: u32 = CLIENT_UNSENT_BYTES_MAX;
    const SEEN: u32 = UNSENT_BYTES_SEEN;

    /// Of which so many bytes wait.
    struct Scripted(Cell<u32>);

    impl Unsent for Scripted {
        fn has_fewer(&self, bytes: u32) -> bool {
            self.0.get() < bytes
        }
    }

    #[test]
    fn a_client_has_read_when_clearly_fewer_bytes_wait_than_at_the_last_look() {
        let (mut taking, stream) = (Taking::new(), Scripted(Cell::new(0)));
        for (waiting, expected) in [
            (MOST + 30_000, false),
            (MOST, false),
            (MOST - 1, true),
            (MOST - 1, false),
            (MOST - SEEN, false),
            (MOST - SEEN - 1, true),
            // It has got more.
            (MOST, false),
            (0, true),
            (0, false),
        ] {
            stream.0.set(waiting);
            assert_eq!(taking.has_read(&stream), expected, "{waiting}");
        }
        taking.clear();
        assert!(
            taking.has_read(&stream),
            "what was seen before the system took more tells nothing"
        );
    }

    #[tokio::test]
    async fn who_reads_has_another_deadline_and_who_reads_nothing_has_not() {
        let mut taking = Taking::new();
        let stream = Scripted(Cell::new(MOST - 1));
        let begun = crate::runtime::clock::monotonic();
        let limit = Duration::from_millis(50);
        poll_fn(|cx| taking.poll(&stream, limit, cx)).await;
        assert!(
            begun.elapsed() >= 2 * limit,
            "it had read something at the first look: {:?}",
            begun.elapsed()
        );
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_system_tells_whether_a_client_has_read() {
        use tokio::io::AsyncReadExt;
        use tokio::net::TcpListener;

        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connecting = TcpStream::connect(listener.local_addr().unwrap());
        let (client, accepted) = tokio::join!(connecting, listener.accept());
        let (mut client, stream) = (client.unwrap(), accepted.unwrap().0);
        let options = socket2::SockRef::from(&stream);
        options.set_tcp_notsent_lowat(MOST).unwrap();
        assert!(stream.has_fewer(1), "nothing waits");
        let mut sent = 0;
        // The first go to the client's own room.
        while stream.has_fewer(MOST) {
            sent += options.send(&[0; 16 << 10]).unwrap_or(0);
        }
        client.read_exact(&mut vec![0; sent]).await.unwrap();
        assert!(stream.has_fewer(1), "all {sent} were read");
        assert_eq!(options.tcp_notsent_lowat().unwrap(), MOST, "as it was");
    }
}
