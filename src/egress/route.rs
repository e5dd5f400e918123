//! The route to an origin: directly to one of its addresses, or by a parent proxy. Its name is
//! resolved, and each address judged.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use super::client_share::Requester;
use super::config::ConfigSnapshot;
use super::dns::Resolver;
use super::error::{Error, Failure};
use super::origin_socket::OriginSocket;
use super::parent::Parent;
use super::policy::{Prohibition, is_private};
use crate::runtime::clock;
use crate::types::origin::{Host, Origin};

/// How an origin is reached: its permitted addresses, its parent proxy if it has one, and the
/// configuration under which both were chosen.
pub struct Route<'a> {
    pub addresses: Vec<SocketAddr>,
    pub snapshot: Arc<ConfigSnapshot>,
    pub requester: Requester<'a>,
    /// The parent that makes the connection to the origin. `addresses` is then empty where the
    /// parent alone resolves names.
    pub parent: Option<Arc<Parent>>,
    /// When the DNS lookup began.
    pub began: Instant,
}

impl<'a> Route<'a> {
    /// Finds the route to `origin` under the configuration `snapshot`.
    pub async fn find(
        origin: &Origin,
        resolver: &Resolver,
        snapshot: Arc<ConfigSnapshot>,
        requester: Requester<'a>,
    ) -> Result<Self, Error> {
        let began = clock::monotonic();
        let addresses = permitted_addresses(origin, resolver, &snapshot, requester).await?;
        let parent = snapshot.parents.of(origin.host()).cloned();
        Ok(Self { addresses, snapshot, requester, parent, began })
    }

    /// The address at the other end of `socket`. Behind a parent, the first that was judged.
    pub fn peer(&self, socket: &OriginSocket) -> Option<IpAddr> {
        match socket {
            OriginSocket::Tcp(stream) if self.parent.is_none() => {
                stream.peer_addr().ok().map(|address| address.ip())
            }
            _ => self.addresses.first().map(SocketAddr::ip),
        }
    }
}

/// The permitted addresses of `origin`; [`Failure::AddressProhibited`] when there are none. When
/// its name has both permitted and refused ones, only the permitted are used; but a name with one
/// of the proxy's own listeners among its addresses means the proxy, and leads nowhere.
async fn permitted_addresses(
    origin: &Origin,
    resolver: &Resolver,
    snapshot: &ConfigSnapshot,
    requester: Requester<'_>,
) -> Result<Vec<SocketAddr>, Error> {
    snapshot.config.hosts.judge(origin.host())?;
    let ips = match origin.host() {
        Host::V4(address) => vec![IpAddr::V4(*address)],
        Host::V6(address) => vec![IpAddr::V6(*address)],
        // The name always means this machine (RFC 6761 §6.3): it is never looked up.
        Host::Name(name) if is_localhost(name) => {
            vec![IpAddr::from([127, 0, 0, 1]), IpAddr::from(LOOPBACK_V6)]
        }
        // Its parent proxy resolves it.
        Host::Name(_) if !snapshot.parents.resolve_here(origin.host()) => return Ok(Vec::new()),
        Host::Name(name) => resolver.resolve(name, requester).await?,
    };
    let mut refused = None;
    let mut permitted = Vec::new();
    for ip in ips {
        let address = SocketAddr::new(ip, origin.port());
        match snapshot.policy.judge(address) {
            Ok(()) => permitted.push(address),
            Err(why @ Prohibition::OwnListener) => {
                return Err(prohibited(origin, ip, why, snapshot.config.under_run));
            }
            Err(why) => refused = Some((ip, why)),
        }
    }
    match refused {
        Some((ip, why)) if permitted.is_empty() => {
            Err(prohibited(origin, ip, why, snapshot.config.under_run))
        }
        _ => Ok(permitted),
    }
}

const LOOPBACK_V6: [u16; 8] = [0, 0, 0, 0, 0, 0, 0, 1];

fn is_localhost(name: &str) -> bool {
    name == "localhost" || name.ends_with(".localhost")
}

fn prohibited(origin: &Origin, ip: IpAddr, why: Prohibition, under_run: bool) -> Error {
    let host = origin.host();
    match why {
        Prohibition::OwnListener => {
            Error::new(Failure::Loop, format!("{host} port {} is this proxy itself", origin.port()))
        }
        Prohibition::Denied => Error::new(
            Failure::AddressProhibited,
            format!("{host} is {ip}, which egress.deny lists"),
        ),
        Prohibition::Special(block) => Error::new(
            Failure::AddressProhibited,
            format!(
                "{host} is {ip}, an address that is not reached by default: {block}. {}",
                remedy(ip, under_run)
            ),
        ),
    }
}

/// What permits the address. Under `courtesy run` a client that asks for loopback ignores NO_PROXY,
/// or is set up to ignore it: a service of its own needs the one remedy, a site under test the
/// other.
fn remedy(ip: IpAddr, under_run: bool) -> &'static str {
    if under_run && ip.is_loopback() {
        "Under `courtesy run` loopback is outside the proxy: a service of the program's own is reached when \
         its client follows NO_PROXY. To send a site on this machine through the proxy, start with both \
         --proxy-loopback and --allow-private"
    } else if under_run && is_private(ip) {
        "From a sealed run a service there is reached by --reach HOST:PORT. To allow it as a site, list its \
         block in egress.allow, or start with --allow-private"
    } else if is_private(ip) {
        "To allow it, list its block in egress.allow, or start with --allow-private"
    } else {
        "To allow it, list its block in egress.allow"
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::net::Ipv4Addr;
    use std::pin::Pin;
    use std::time::Duration;

    use super::*;
    use crate::egress::config::Config;
    use crate::egress::parent::Parents;
    use crate::egress::policy::{AddressPolicy, HostRules};
    use crate::egress::tls::Roots;
    use crate::types::ClientKey;
    use crate::types::origin::split_url;

    pub(in crate::egress) fn snapshot(own: &[SocketAddr]) -> ConfigSnapshot {
        let second = Duration::from_secs(1);
        let config = Config {
            connect_timeout: second,
            response_timeout: second,
            body_idle_timeout: second,
            idle_timeout: second,
            max_lookups: 1,
            max_attempts_beside: 1,
            max_header_bytes: 1 << 14,
            hosts: HostRules::default(),
            under_run: false,
        };
        let tls = crate::egress::tls_connector(Roots::Bundled, &[]).unwrap();
        ConfigSnapshot {
            config,
            policy: AddressPolicy::new(vec![], vec![], own.to_vec()),
            tls,
            parents: Parents::default(),
        }
    }

    async fn permitted(answer: &[&str], url: &str) -> Result<Vec<String>, Failure> {
        let answer: Vec<IpAddr> = answer.iter().map(|ip| ip.parse().unwrap()).collect();
        let look_up = move |_: &str| {
            let answer = answer.clone();
            Box::pin(async move { Ok((answer, Duration::ZERO)) })
                as Pin<Box<dyn Future<Output = _> + Send>>
        };
        let resolver = Resolver::over(look_up, 1, Duration::from_secs(10));
        let origin = split_url(url.as_bytes()).unwrap().0;
        let own = ["8.8.4.4:8080".parse().unwrap()];
        let found = permitted_addresses(
            &origin,
            &resolver,
            &snapshot(&own),
            Requester::client(&ClientKey::Proxy),
        )
        .await;
        found
            .map(|found| found.iter().map(ToString::to_string).collect())
            .map_err(|error| error.failure)
    }

    #[tokio::test]
    async fn algorithm_2_only_the_permitted_addresses_of_a_name_are_used() {
        for (answer, expected) in [
            (&["8.8.8.8"][..], Ok(&["8.8.8.8:80"][..])),
            (
                &["10.0.0.1", "8.8.8.8", "::1", "2606:4700::1111"],
                Ok(&["8.8.8.8:80", "[2606:4700::1111]:80"]),
            ),
            (&["10.0.0.1", "fd00::1"], Err(Failure::AddressProhibited)),
            (&["::ffff:8.8.8.8"], Err(Failure::AddressProhibited)),
            (&["64:ff9b::a9fe:a9fe"], Err(Failure::AddressProhibited)),
        ] {
            let expected =
                expected.map(|list| list.iter().map(ToString::to_string).collect::<Vec<_>>());
            assert_eq!(permitted(answer, "http://example.com/").await, expected, "{answer:?}");
        }
    }

    /// Whatever a name led to before, and whatever else it leads to (DNS rebinding).
    #[tokio::test]
    async fn c15_a_name_that_leads_to_an_own_listener_leads_nowhere() {
        let url = "http://example.com:8080/";
        assert!(permitted(&["8.8.8.8"], url).await.is_ok());
        for answer in [
            &["8.8.4.4"][..],
            &["8.8.8.8", "8.8.4.4"],
            &["8.8.4.4", "8.8.8.8"],
            &["10.0.0.1", "::ffff:8.8.4.4"],
        ] {
            assert_eq!(permitted(answer, url).await, Err(Failure::Loop), "{answer:?}");
        }
        assert!(permitted(&["8.8.4.4"], "http://example.com:8081/").await.is_ok());
    }

    /// Whatever a resolver would return (RFC 6761 §6.3).
    #[tokio::test]
    async fn algorithm_1_localhost_is_never_looked_up() {
        for host in ["localhost", "LOCALHOST.", "a.b.localhost"] {
            let found = permitted(&["8.8.8.8"], &format!("http://{host}/")).await;
            assert_eq!(found, Err(Failure::AddressProhibited), "{host}");
        }
        assert!(permitted(&["8.8.8.8"], "http://notlocalhost/").await.is_ok());
    }

    #[test]
    fn the_remedy_for_loopback_differs_under_run() {
        let under_run = remedy(Ipv4Addr::LOCALHOST.into(), true);
        assert!(
            under_run.contains("NO_PROXY")
                && under_run.contains("--proxy-loopback and --allow-private")
        );
        assert!(remedy([10, 0, 0, 1].into(), true).contains("--reach HOST:PORT"));
        for (ip, under_run) in [([127, 0, 0, 1], false), ([10, 0, 0, 1], true)] {
            assert!(
                remedy(ip.into(), under_run).ends_with("or start with --allow-private"),
                "{ip:?}"
            );
        }
    }

    #[test]
    fn the_remedy_names_the_flag_only_where_it_permits_the_address() {
        for ip in ["192.0.2.1", "2001:db8::1", "169.254.169.254", "100.64.0.1", "fd00:ec2::254"] {
            for under_run in [false, true] {
                let remedy = remedy(ip.parse().unwrap(), under_run);
                assert_eq!(remedy, "To allow it, list its block in egress.allow", "{ip}");
            }
        }
    }
}
