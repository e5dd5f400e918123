//! Connects to the addresses of one name, a few at a time ("Happy Eyeballs", RFC 8305 §5).

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::client_share::Requester;
use super::error::{self, Error, Failure};
use crate::clients::{FairSemaphore, SemaphorePermit};
use crate::runtime::clock;

/// Head start of one attempt before the next address is tried besides it (RFC 8305 §5).
const HEAD_START: Duration = Duration::from_millis(250);

/// Attempts under way at once for one request: the oldest is given up for one more.
const AT_ONCE_MAX: usize = 3;

/// The attempts of one request that are under way, the oldest first.
struct Attempts<'a> {
    under_way: VecDeque<Attempt>,
    /// Permits for attempts besides the first, over all requests.
    permits: &'a Arc<FairSemaphore>,
    requester: Requester<'a>,
    failed: Option<Error>,
}

/// An attempt; dropped, it is given up.
struct Attempt {
    connecting: Pin<Box<dyn Future<Output = Result<TcpStream, Error>> + Send>>,
    permit: Option<SemaphorePermit>,
}

/// Connects to the first of `addresses` that answers within `limit`. An attempt besides another
/// takes one of `permits`; when there is none, addresses are tried one after the other.
pub async fn connect(
    addresses: &[SocketAddr],
    limit: Duration,
    permits: &Arc<FairSemaphore>,
    requester: Requester<'_>,
) -> Result<TcpStream, Error> {
    let mut attempts = Attempts { under_way: VecDeque::new(), permits, requester, failed: None };
    match timeout(limit, attempts.race(addresses, limit)).await {
        Ok(connected) => connected,
        // A shortage on this machine may have prevented the attempt that would have connected.
        Err(_) => Err(attempts
            .failed
            .filter(|error| error.failure == Failure::Exhausted)
            .unwrap_or_else(|| {
                let hosts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
                let detail =
                    format!("connecting to {} took longer than {limit:?}", hosts.join(", "));
                Error::new(Failure::ConnectionTimeout, detail)
            })),
    }
}

impl Attempts<'_> {
    async fn race(
        &mut self,
        addresses: &[SocketAddr],
        limit: Duration,
    ) -> Result<TcpStream, Error> {
        let end = clock::monotonic() + limit;
        for (number, address) in addresses.iter().enumerate() {
            self.begin(*address);
            let head_start = if self.is_full() {
                // The next attempt ends the oldest: share the time left among those to come.
                let left = end.saturating_duration_since(clock::monotonic());
                let to_come = u32::try_from(addresses.len() - number).unwrap_or(u32::MAX);
                (left / to_come).max(HEAD_START)
            } else {
                HEAD_START
            };
            if let Ok(Some(stream)) = timeout(head_start, self.next_ended()).await {
                return Ok(stream);
            }
        }
        while !self.under_way.is_empty() {
            if let Some(stream) = self.next_ended().await {
                return Ok(stream);
            }
        }
        let none = || Error::new(Failure::NoRoute, "no address to connect to");
        Err(self.failed.take().unwrap_or_else(none))
    }

    /// Whether one more attempt would end the oldest.
    fn is_full(&self) -> bool {
        self.under_way.len() >= AT_ONCE_MAX
    }

    /// Begins an attempt. One attempt of each request needs no permit: the request has reserved a
    /// descriptor for it.
    fn begin(&mut self, address: SocketAddr) {
        let mut permit = if self.is_full() { self.give_up_oldest() } else { None };
        let is_beside = self.under_way.iter().any(|attempt| attempt.permit.is_none());
        if !is_beside {
            permit = None;
        } else if permit.is_none() {
            let free = self.permits.try_acquire(self.requester.client_key());
            permit = free.or_else(|| self.give_up_oldest());
        }
        self.under_way.push_back(Attempt { connecting: Box::pin(attempt(address)), permit });
    }

    /// Gives up the oldest attempt, and returns its permit.
    fn give_up_oldest(&mut self) -> Option<SemaphorePermit> {
        self.under_way.pop_front()?.permit
    }

    /// Waits until an attempt has ended: its stream, or `None` if it failed.
    async fn next_ended(&mut self) -> Option<TcpStream> {
        let ended = poll_fn(|cx| {
            let mut attempts = self.under_way.iter_mut().enumerate();
            let ended =
                attempts.find_map(|(at, attempt)| match attempt.connecting.as_mut().poll(cx) {
                    Poll::Ready(ended) => Some((at, ended)),
                    Poll::Pending => None,
                });
            ended.map_or(Poll::Pending, Poll::Ready)
        });
        let (at, ended) = ended.await;
        self.under_way.remove(at);
        match ended {
            Ok(stream) => Some(stream),
            Err(error) => {
                self.fail(error);
                None
            }
        }
    }

    /// Keeps the error to report when all attempts fail: a shortage on this machine before a
    /// failure of the site, and that before a missing route, as many machines have none for IPv6.
    fn fail(&mut self, error: Error) {
        let rank = |error: &Error| match error.failure {
            Failure::Exhausted => 2,
            Failure::NoRoute => 0,
            _ => 1,
        };
        if self.failed.as_ref().is_none_or(|failed| rank(&error) >= rank(failed)) {
            self.failed = Some(error);
        }
    }
}

async fn attempt(address: SocketAddr) -> Result<TcpStream, Error> {
    let stream = TcpStream::connect(address).await.map_err(|error| {
        let failure = error::connect_failure(address, &error);
        Error::new(failure, format!("cannot connect to {address}: {error}"))
    })?;
    // A safeguard: the peer must be the address that was judged.
    match stream.peer_addr() {
        Ok(peer) if (peer.ip(), peer.port()) == (address.ip(), address.port()) => Ok(stream),
        _ => {
            let detail = format!("connected to another address than {address}");
            Err(Error::new(Failure::Unroutable, detail))
        }
    }
}
