//! Connects to the addresses of one name, a few at a time ("Happy Eyeballs", RFC 8305 §5).

use std::collections::VecDeque;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::error::{Error, Failure};
use super::os_error;
use super::requester::Requester;
use crate::clients::{FairSemaphore, Permit};
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
    permit: Option<Permit>,
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
            let free = self.permits.try_acquire(self.requester.client());
            permit = free.or_else(|| self.give_up_oldest());
        }
        self.under_way.push_back(Attempt { connecting: Box::pin(attempt(address)), permit });
    }

    /// Gives up the oldest attempt, and returns its permit.
    fn give_up_oldest(&mut self) -> Option<Permit> {
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

    /// Keeps the error to report when all attempts fail: a shortage on this machine before a failure
    /// of the site, and that before a missing route, as many machines have none for IPv6.
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
        let failure = os_error::connect_failure(address, &error);
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

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::types::client_key::ClientKey;

    /// Listeners whose queue is full: a connection to them is neither made nor refused.
    struct Silent(Vec<(socket2::Socket, std::net::TcpStream)>);

    impl Silent {
        fn start(count: usize) -> Self {
            Self(
                (0..count)
                    .map(|_| {
                        let socket = socket2::Socket::new(
                            socket2::Domain::IPV4,
                            socket2::Type::STREAM,
                            None,
                        )
                        .unwrap();
                        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
                        socket.listen(0).unwrap();
                        let address = socket.local_addr().unwrap().as_socket().unwrap();
                        let first = std::net::TcpStream::connect(address).unwrap();
                        (socket, first)
                    })
                    .collect(),
            )
        }

        fn addresses(&self) -> Vec<SocketAddr> {
            self.0
                .iter()
                .map(|(socket, _)| socket.local_addr().unwrap().as_socket().unwrap())
                .collect()
        }
    }

    fn failed(failures: &[Failure]) -> Failure {
        let (permits, key) = (FairSemaphore::new(0), ClientKey::Proxy);
        let requester = Requester::Client(&key);
        let mut attempts =
            Attempts { under_way: VecDeque::new(), permits: &permits, requester, failed: None };
        failures.iter().for_each(|failure| attempts.fail(Error::new(*failure, "as scripted")));
        attempts.failed.unwrap().failure
    }

    #[tokio::test]
    async fn f25_few_attempts_to_silent_addresses_are_under_way_for_one_request() {
        let silent = Silent::start(16);
        let key = ClientKey::Proxy;
        for (places, most) in [(100, AT_ONCE_MAX), (1, 2), (0, 1)] {
            let permits = FairSemaphore::new(places);
            let requester = Requester::Client(&key);
            let mut attempts =
                Attempts { under_way: VecDeque::new(), permits: &permits, requester, failed: None };
            for address in silent.addresses() {
                attempts.begin(address);
                assert!(
                    timeout(Duration::ZERO, attempts.next_ended()).await.is_err(),
                    "it is silent"
                );
                assert!(attempts.under_way.len() <= most, "{places} places");
                assert_eq!(permits.in_use(), attempts.under_way.len() - 1);
            }
            drop(attempts);
            assert_eq!(permits.in_use(), 0);
        }
    }

    #[tokio::test]
    async fn f25_a_name_is_reached_when_only_its_last_address_answers() {
        let (silent, key) = (Silent::start(4), ClientKey::Proxy);
        let good = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let refusing = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let addresses = [silent.addresses(), vec![refusing, good.local_addr().unwrap()]].concat();
        for places in [0, 8] {
            let permits = FairSemaphore::new(places);
            let connected =
                connect(&addresses, Duration::from_secs(4), &permits, Requester::Client(&key))
                    .await
                    .unwrap();
            assert_eq!(connected.peer_addr().unwrap(), good.local_addr().unwrap());
        }
    }

    #[test]
    fn f24_a_shortage_is_reported_before_a_failure_of_the_site() {
        use Failure::{ConnectionRefused, ConnectionTimeout, Exhausted, NoRoute};
        assert_eq!(failed(&[Exhausted, ConnectionRefused]), Exhausted);
        assert_eq!(failed(&[ConnectionRefused, Exhausted, NoRoute]), Exhausted);
        assert_eq!(failed(&[ConnectionRefused, NoRoute]), ConnectionRefused);
        assert_eq!(failed(&[NoRoute, ConnectionTimeout]), ConnectionTimeout);
        assert_eq!(failed(&[NoRoute, NoRoute]), NoRoute);
    }
}
