//! From an origin to the addresses that may be connected to: resolve, and judge each of them.

use std::net::{IpAddr, SocketAddr};

use super::address::Prohibited;
use super::asker::Asker;
use super::error::{Error, Failure};
use super::resolve::Resolver;
use super::terms::Terms;
use crate::types::origin::{Host, Origin};

/// The permitted addresses of `origin`; [`Failure::AddressProhibited`] when there are none. Where its
/// name answers with good and bad ones, only the good are used.
pub async fn permitted_addresses(
    origin: &Origin,
    resolver: &Resolver,
    terms: &Terms,
    asker: Asker<'_>,
) -> Result<Vec<SocketAddr>, Error> {
    terms.config.hosts.judge(origin.host())?;
    let ips = match origin.host() {
        Host::V4(address) => vec![IpAddr::V4(*address)],
        Host::V6(address) => vec![IpAddr::V6(*address)],
        // The name itself means this machine (RFC 6761 §6.3): it is never looked up elsewhere.
        Host::Name(name) if is_localhost(name) => {
            vec![IpAddr::from([127, 0, 0, 1]), IpAddr::from(LOOPBACK_V6)]
        }
        Host::Name(name) => resolver.resolve(name, asker).await?,
    };
    let mut refused = None;
    let mut permitted = Vec::new();
    for ip in ips {
        let address = SocketAddr::new(ip, origin.port());
        match terms.policy.judge(address) {
            Ok(()) => permitted.push(address),
            Err(why) => refused = Some((ip, why)),
        }
    }
    match refused {
        Some((ip, why)) if permitted.is_empty() => {
            Err(prohibited(origin, ip, why, terms.config.under_run))
        }
        _ => Ok(permitted),
    }
}

const LOOPBACK_V6: [u16; 8] = [0, 0, 0, 0, 0, 0, 0, 1];

fn is_localhost(name: &str) -> bool {
    name == "localhost" || name.ends_with(".localhost")
}

fn prohibited(origin: &Origin, ip: IpAddr, why: Prohibited, under_run: bool) -> Error {
    let host = origin.host();
    match why {
        Prohibited::OwnListener => {
            Error::new(Failure::Loop, format!("{host} port {} is this proxy itself", origin.port()))
        }
        Prohibited::Denied => Error::new(
            Failure::AddressProhibited,
            format!("{host} is {ip}, which egress.deny lists"),
        ),
        Prohibited::Special(block) => Error::new(
            Failure::AddressProhibited,
            format!(
                "{host} is {ip}, an address that is not reached by default: {block}. {}",
                remedy(ip, under_run)
            ),
        ),
    }
}

/// What opens the address. Under `courtesy run` a client that names loopback has left NO_PROXY out of
/// account, or was asked to: its own service needs the one remedy, a site to be tested the other.
const fn remedy(ip: IpAddr, under_run: bool) -> &'static str {
    if under_run && ip.is_loopback() {
        "Under `courtesy run` loopback is outside the proxy: a service of the program's own is reached when \
         its client follows NO_PROXY. To send a site on this machine through the proxy, start with both \
         --proxy-loopback and --allow-private"
    } else {
        "To allow it, list its block in egress.allow, or start with --allow-private"
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use super::*;
    use crate::egress::address::AddressPolicy;
    use crate::egress::hosts::HostRules;
    use crate::egress::terms::Config;
    use crate::egress::trust::Roots;
    use crate::types::client_key::ClientKey;
    use crate::types::origin::split_url;

    fn terms(own: &[SocketAddr]) -> Terms {
        let second = Duration::from_secs(1);
        let config = Config {
            connect_timeout: second,
            response_timeout: second,
            body_idle_timeout: second,
            idle_timeout: second,
            max_per_origin: 1,
            max_idle: 1,
            max_lookups: 1,
            max_attempts_beside: 1,
            max_header_bytes: 1 << 14,
            max_headers: 10,
            hosts: HostRules::default(),
            under_run: false,
        };
        let tls = crate::egress::tls_connector(Roots::Bundled, &[]).unwrap();
        Terms { config, policy: AddressPolicy::new(vec![], vec![], own.to_vec()), tls }
    }

    async fn permitted(answer: &[&str], url: &str) -> Result<Vec<String>, Failure> {
        let answer: Vec<IpAddr> = answer.iter().map(|ip| ip.parse().unwrap()).collect();
        let resolver = Resolver::over(move |_| Ok(answer.clone()), 1, Duration::from_secs(10));
        let origin = split_url(url.as_bytes()).unwrap().0;
        let own = ["8.8.4.4:8080".parse().unwrap()];
        let found =
            permitted_addresses(&origin, &resolver, &terms(&own), Asker::Client(&ClientKey::Proxy))
                .await;
        found
            .map(|found| found.iter().map(ToString::to_string).collect())
            .map_err(|error| error.failure)
    }

    #[tokio::test]
    async fn algorithm_2_of_all_answers_only_the_good_ones_are_used() {
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
        assert_eq!(permitted(&["8.8.4.4"], "http://example.com:8080/").await, Err(Failure::Loop));
    }

    /// Whatever a resolver would say (RFC 6761 §6.3).
    #[tokio::test]
    async fn algorithm_1_localhost_is_never_looked_up() {
        for host in ["localhost", "LOCALHOST.", "a.b.localhost"] {
            let found = permitted(&["8.8.8.8"], &format!("http://{host}/")).await;
            assert_eq!(found, Err(Failure::AddressProhibited), "{host}");
        }
        assert!(permitted(&["8.8.8.8"], "http://notlocalhost/").await.is_ok());
    }

    #[test]
    fn under_run_the_remedy_of_loopback_is_another() {
        let under_run = remedy(Ipv4Addr::LOCALHOST.into(), true);
        assert!(
            under_run.contains("NO_PROXY")
                && under_run.contains("--proxy-loopback and --allow-private")
        );
        for (ip, under_run) in [([127, 0, 0, 1], false), ([10, 0, 0, 1], true)] {
            assert!(
                remedy(ip.into(), under_run).ends_with("or start with --allow-private"),
                "{ip:?}"
            );
        }
    }
}
