use std::net::Ipv4Addr;

use super::*;
use crate::types::ClientKey;

/// Listeners whose queue is full: a connection to them is neither made nor refused.
struct Silent(Vec<(socket2::Socket, std::net::TcpStream)>);

impl Silent {
    fn start(count: usize) -> Self {
        Self(
            (0..count)
                .map(|_| {
                    let socket =
                        socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)
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
        self.0.iter().map(|(socket, _)| socket.local_addr().unwrap().as_socket().unwrap()).collect()
    }
}

fn failed(failures: &[Failure]) -> Failure {
    let (permits, key) = (FairSemaphore::new(0), ClientKey::Proxy);
    let requester = Requester::client(&key);
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
        let requester = Requester::client(&key);
        let mut attempts =
            Attempts { under_way: VecDeque::new(), permits: &permits, requester, failed: None };
        for address in silent.addresses() {
            attempts.begin(address);
            assert!(timeout(Duration::ZERO, attempts.next_ended()).await.is_err(), "it is silent");
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
            connect(&addresses, Duration::from_secs(4), &permits, Requester::client(&key))
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
