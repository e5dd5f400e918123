//! Connection attempts to the addresses of one name, some at a time (RFC 8305 §5).

use std::collections::VecDeque;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::asker::Asker;
use super::error::{Error, Failure};
use super::shortage;
use crate::clients::{FairSemaphore, Permit};
use crate::runtime::clock;

/// Head start of one attempt before the next address is tried beside it (RFC 8305 §5).
const HEAD_START: Duration = Duration::from_millis(250);

/// Attempts under way at once for one request: the oldest is given up for one more.
const AT_ONCE_MAX: usize = 3;

/// The attempts of one request that are under way, the oldest first.
struct Attempts<'a> {
    under_way: VecDeque<Attempt>,
    /// For those beside the first one, over all requests.
    beside: &'a Arc<FairSemaphore>,
    asker: Asker<'a>,
    failed: Option<Error>,
}

/// Dropped, it is given up.
struct Attempt {
    connecting: Pin<Box<dyn Future<Output = Result<TcpStream, Error>> + Send>>,
    place: Option<Permit>,
}

/// Connects to the first of `addresses` that answers within `deadline`. An attempt beside another takes a
/// permit of `beside`; where there is none, addresses are tried one after the other.
pub(super) async fn connect(
    addresses: &[SocketAddr],
    deadline: Duration,
    beside: &Arc<FairSemaphore>,
    asker: Asker<'_>,
) -> Result<TcpStream, Error> {
    let mut attempts = Attempts { under_way: VecDeque::new(), beside, asker, failed: None };
    match timeout(deadline, attempts.race(addresses, deadline)).await {
        Ok(connected) => connected,
        // What was lacking may have been what would have led there.
        Err(_) => Err(attempts
            .failed
            .filter(|error| error.failure == Failure::Exhausted)
            .unwrap_or_else(|| {
                let hosts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
                let detail =
                    format!("connecting to {} took longer than {deadline:?}", hosts.join(", "));
                Error::new(Failure::ConnectionTimeout, detail)
            })),
    }
}

impl Attempts<'_> {
    async fn race(
        &mut self,
        addresses: &[SocketAddr],
        deadline: Duration,
    ) -> Result<TcpStream, Error> {
        let end = clock::monotonic() + deadline;
        for (number, address) in addresses.iter().enumerate() {
            self.begin(*address);
            let left = end.saturating_duration_since(clock::monotonic());
            let to_come = u32::try_from(addresses.len() - number).unwrap_or(u32::MAX);
            let head_start =
                if self.is_full() { (left / to_come).max(HEAD_START) } else { HEAD_START };
            if let Ok(Some(stream)) = timeout(head_start, self.next_ended()).await {
                return Ok(stream);
            }
        }
        while !self.under_way.is_empty() {
            if let Some(stream) = self.next_ended().await {
                return Ok(stream);
            }
        }
        let nothing = || Error::new(Failure::NoRoute, "no address to connect to");
        Err(self.failed.take().unwrap_or_else(nothing))
    }

    /// Whether one more would end the oldest.
    fn is_full(&self) -> bool {
        self.under_way.len() >= AT_ONCE_MAX
    }

    /// One of them needs no permit: the request has a descriptor of its own.
    fn begin(&mut self, address: SocketAddr) {
        let mut place = if self.is_full() { self.give_up_oldest() } else { None };
        let is_beside = self.under_way.iter().any(|attempt| attempt.place.is_none());
        if !is_beside {
            place = None;
        } else if place.is_none() {
            place = self.beside.try_acquire(self.asker.client()).or_else(|| self.give_up_oldest());
        }
        self.under_way.push_back(Attempt { connecting: Box::pin(attempt(address)), place });
    }

    /// What it leaves to the next one.
    fn give_up_oldest(&mut self) -> Option<Permit> {
        self.under_way.pop_front()?.place
    }

    /// Waits until one of those under way has ended: its stream, or nothing where it failed.
    async fn next_ended(&mut self) -> Option<TcpStream> {
        let ended = poll_fn(|cx| {
            let mut attempts = self.under_way.iter_mut().enumerate();
            let ended =
                attempts.find_map(|(place, attempt)| match attempt.connecting.as_mut().poll(cx) {
                    Poll::Ready(ended) => Some((place, ended)),
                    Poll::Pending => None,
                });
            ended.map_or(Poll::Pending, Poll::Ready)
        });
        let (place, ended) = ended.await;
        self.under_way.remove(place);
        match ended {
            Ok(stream) => Some(stream),
            Err(error) => {
                self.fail(error);
                None
            }
        }
    }

    /// What is told where all fail: what was lacking here, before what a site did, before what has no
    /// route here, as IPv6 has none on many machines.
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
        let failure = shortage::connect_failure(address, &error);
        Error::new(failure, format!("cannot connect to {address}: {error}"))
    })?;
    // A belt: what we are connected to is what was judged.
    match stream.peer_addr() {
        Ok(peer) if (peer.ip(), peer.port()) == (address.ip(), address.port()) => Ok(stream),
        _ => Err(Error::new(
            Failure::Unroutable,
            format!("connected to another address than {address}"),
        )),
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
        let (beside, key) = (FairSemaphore::new(0), ClientKey::Proxy);
        let asker = Asker::Client(&key);
        let mut attempts =
            Attempts { under_way: VecDeque::new(), beside: &beside, asker, failed: None };
        failures.iter().for_each(|failure| attempts.fail(Error::new(*failure, "as scripted")));
        attempts.failed.unwrap().failure
    }

    #[tokio::test]
    async fn f25_few_attempts_to_silent_addresses_are_under_way_for_one_request() {
        let silent = Silent::start(16);
        let key = ClientKey::Proxy;
        for (places, most) in [(100, AT_ONCE_MAX), (1, 2), (0, 1)] {
            let beside = FairSemaphore::new(places);
            let asker = Asker::Client(&key);
            let mut attempts =
                Attempts { under_way: VecDeque::new(), beside: &beside, asker, failed: None };
            for address in silent.addresses() {
                attempts.begin(address);
                assert!(
                    timeout(Duration::ZERO, attempts.next_ended()).await.is_err(),
                    "it is silent"
                );
                assert!(attempts.under_way.len() <= most, "{places} places");
                assert_eq!(beside.in_use(), attempts.under_way.len() - 1);
            }
            drop(attempts);
            assert_eq!(beside.in_use(), 0);
        }
    }

    #[tokio::test]
    async fn f25_a_name_whose_last_address_answers_is_reached_whatever_the_others_do() {
        let (silent, key) = (Silent::start(4), ClientKey::Proxy);
        let good = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let refusing = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let addresses = [silent.addresses(), vec![refusing, good.local_addr().unwrap()]].concat();
        for places in [0, 8] {
            let beside = FairSemaphore::new(places);
            let connected =
                connect(&addresses, Duration::from_secs(4), &beside, Asker::Client(&key))
                    .await
                    .unwrap();
            assert_eq!(connected.peer_addr().unwrap(), good.local_addr().unwrap());
        }
    }

    #[test]
    fn f24_what_was_lacking_is_told_before_what_a_site_did() {
        use Failure::{ConnectionRefused, ConnectionTimeout, Exhausted, NoRoute};
        assert_eq!(failed(&[Exhausted, ConnectionRefused]), Exhausted);
        assert_eq!(failed(&[ConnectionRefused, Exhausted, NoRoute]), Exhausted);
        assert_eq!(failed(&[ConnectionRefused, NoRoute]), ConnectionRefused);
        assert_eq!(failed(&[NoRoute, ConnectionTimeout]), ConnectionTimeout);
        assert_eq!(failed(&[NoRoute, NoRoute]), NoRoute);
    }
}
