//! Nothing that the address policy refuses is contacted, by any spelling and by any way: this is seen at
//! the addresses themselves, in a network where all of them answer.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{AlertDescription, ClientConfig, RootCertStore};

use crate::faults::addresses::{
    DISGUISED, LOCAL_NAMES, PERMITTED, REFUSED, is_beyond_reach, plain, spellings,
};
use crate::faults::world::names::{Names, ZONE, name};
use crate::faults::world::{Everywhere, Proxy, inside};
use crate::testkit::parties::{Client, Response, tls};

/// An address that may be reached.
const PUBLIC: &str = "8.8.8.8";
const PUBLIC_V6: &str = "2606:4700::1111";

fn refused() -> impl Iterator<Item = IpAddr> {
    REFUSED.iter().map(|text| text.parse().expect("an address"))
}

fn permitted() -> impl Iterator<Item = IpAddr> {
    PERMITTED.iter().map(|text| text.parse().expect("an address"))
}

/// The network and a proxy in it.
struct Stage {
    everywhere: Everywhere,
    proxy: Proxy,
    /// How its clients speak TLS: who terminates it depends on the mode.
    tls: Arc<ClientConfig>,
    /// Refusals that must have their records.
    recorded: usize,
}

impl Stage {
    fn set(settings: &str) -> Self {
        Names::start();
        Self::beside(&Everywhere::start(), settings)
    }

    /// Another proxy in the same network.
    fn beside(everywhere: &Everywhere, settings: &str) -> Self {
        let proxy = Proxy::start(settings, everywhere.ca());
        let tls = trusting(&(proxy.trusted() + everywhere.ca()));
        Self { everywhere: everywhere.clone(), proxy, tls, recorded: 0 }
    }

    /// A client that speaks TLS in a tunnel to `host`, and asks there for `name`.
    fn tunnelled(&self, host: &str, name: &str) -> io::Result<Client> {
        let tunnel = self.proxy.client().tunnel(&format!("{host}:443"));
        tunnel.secured(Arc::clone(&self.tls), name)
    }

    /// That nothing but these addresses was contacted, and each of them was.
    #[track_caller]
    fn assert_contacted(&self, expected: &[&str]) {
        let expected: HashSet<IpAddr> =
            expected.iter().map(|text| text.parse().expect("an address")).collect();
        let found: HashSet<IpAddr> =
            self.everywhere.take_contacts().iter().map(|contact| contact.to).collect();
        assert_eq!(found, expected);
    }

    /// That this is refused for where it leads.
    #[track_caller]
    fn refuses(&mut self, line: &str) {
        let response = self.proxy.ask(line);
        let (status, told) = (response.status(), told(&response));
        assert_eq!((status, told), (403, "courtesy; error=destination_ip_prohibited"), "{line}");
        assert!(response.field("courtesy-record").is_some(), "{line}");
        self.recorded += 1;
    }

    /// That this is refused for how it is written.
    #[track_caller]
    fn refuses_unread(&self, line: &str) {
        let response = self.proxy.ask(line);
        assert_eq!(
            (response.status(), told(&response)),
            (400, "courtesy; error=http_request_error"),
            "{line}"
        );
    }

    /// That each refusal has its record, and there is no other.
    #[track_caller]
    fn assert_recorded(self) {
        let records = self.proxy.records();
        let denied: Vec<_> = records.iter().filter(|record| record["event"] == "denied").collect();
        let other = denied.iter().find(|record| record["reason"] != "origin_refused");
        assert_eq!((denied.len(), other), (self.recorded, None));
    }
}

/// A client that trusts these certificates, PEM.
fn trusting(pem: &str) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        roots.add(certificate.expect("PEM")).expect("a certificate");
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    Arc::new(config.expect("versions of TLS").with_root_certificates(roots).with_no_client_auth())
}

/// The name and error of a `Proxy-Status` (RFC 9209 §2), without what is said beside them.
fn told(response: &Response) -> &str {
    let status = response.field("proxy-status").unwrap_or_default();
    status.split("; details").next().unwrap_or_default()
}

/// Without this the others would prove nothing: what they find not contacted could not be.
#[test]
fn every_address_of_the_world_answers() {
    inside(|| {
        let everywhere = Everywhere::start();
        let all = || refused().chain(permitted());
        for address in all().filter(|address| !is_beyond_reach(*address)) {
            let reached = TcpStream::connect_timeout(&(address, 80).into(), Duration::from_secs(5));
            assert!(reached.is_ok(), "{address}: {reached:?}");
        }
        let contacts = everywhere.take_contacts();
        // The unspecified ones lead to loopback, and a mapped one is the IPv4 one.
        let reached = |address: IpAddr| match address {
            IpAddr::V4(v4) if v4.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(v6) if v6.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            _ => address.to_canonical(),
        };
        let expected: Vec<_> = all().filter(|it| !is_beyond_reach(*it)).map(reached).collect();
        assert_eq!(
            contacts.iter().map(|contact| contact.to).collect::<HashSet<_>>(),
            expected.into_iter().collect()
        );
    });
}

#[test]
fn no_spelling_of_a_url_reaches_a_refused_address() {
    inside(|| {
        let mut stage = Stage::set("");
        for address in refused() {
            let (read, unread) = spellings(address);
            for host in [plain(address)].iter().chain(&read) {
                for url in [
                    format!("http://{host}/"),
                    format!("http://{host}:8080/"),
                    format!("https://{host}/"),
                ] {
                    stage.refuses(&format!("GET {url}"));
                }
            }
            for host in unread {
                stage.refuses_unread(&format!("GET http://{host}/"));
                stage.refuses_unread(&format!("GET https://{host}:8080/"));
            }
        }
        stage.assert_contacted(&[]);
        for address in permitted() {
            let response = stage.proxy.get(&format!("http://{}:8080/", plain(address)));
            assert_eq!(response.status(), 200, "{address}: {}", response.text());
        }
        stage.assert_contacted(&PERMITTED);
        assert_eq!(stage.proxy.get(&format!("https://{PUBLIC}/")).status(), 200);
        stage.assert_contacted(&[PUBLIC]);
        stage.assert_recorded();
    });
}

#[test]
fn no_name_of_this_machine_reaches_it() {
    inside(|| {
        let mut stage = Stage::set("");
        for name in LOCAL_NAMES {
            for url in [
                format!("http://{name}/"),
                format!("http://{name}:8080/"),
                format!("https://{name}/"),
            ] {
                stage.refuses(&format!("GET {url}"));
            }
            stage.refuses(&format!("CONNECT {name}:443"));
        }
        for line in [format!("GET http://{DISGUISED}/"), format!("CONNECT {DISGUISED}:443")] {
            stage.refuses_unread(&line);
        }
        stage.assert_contacted(&[]);
        stage.assert_recorded();
    });
}

/// In every mode: what cannot be an origin at all is refused before there is a tunnel.
#[test]
fn no_connect_reaches_a_refused_address() {
    inside(|| {
        let listed: Vec<String> =
            refused().map(|address| format!("\"{}\"", plain(address))).collect();
        let tunnel =
            format!("[https]\ntunnel = [\"{PUBLIC}\", \"*.{ZONE}\", {}]", listed.join(", "));
        Names::start();
        let everywhere = Everywhere::start();
        for settings in ["", "[https]\nmode = \"classify\"\nmixed = \"tunnel\"", &tunnel] {
            let mut stage = Stage::beside(&everywhere, settings);
            for address in refused() {
                // What a spelling means does not depend on the mode.
                let (read, unread) =
                    if settings.is_empty() { spellings(address) } else { Default::default() };
                for host in [plain(address)].iter().chain(&read) {
                    stage.refuses(&format!("CONNECT {host}:443"));
                    stage.refuses(&format!("CONNECT {host}:80"));
                }
                for host in unread {
                    stage.refuses_unread(&format!("CONNECT {host}:443"));
                }
                stage.refuses(&format!("CONNECT {}:443", name(&[], &[&address.to_string()])));
            }
            stage.assert_contacted(&[]);
            let mut client = stage.tunnelled(PUBLIC, PUBLIC).expect("a handshake");
            assert!(client.get("/page").text().starts_with(&format!("/page of {PUBLIC}")));
            stage.assert_contacted(&[PUBLIC]);
            stage.assert_recorded();
        }
    });
}

#[test]
fn no_answer_of_a_name_server_reaches_a_refused_address() {
    inside(|| {
        let mut stage = Stage::set("");
        for address in refused().map(|address| address.to_string()) {
            for labels in [&[][..], &["alias1"], &["alias20"], &["truncated"]] {
                let host = name(labels, &[&address]);
                stage.refuses(&format!("GET http://{host}/"));
                stage.refuses(&format!("CONNECT {host}:443"));
            }
            stage.refuses(&format!(
                "GET https://{}.:8080/",
                name(&[], &[&address, "10.0.0.1", "fd00::1"])
            ));
        }
        stage.assert_contacted(&[]);
        // Among permitted ones, in either place and of either family, they are passed over.
        for address in refused().map(|address| address.to_string()) {
            for addresses in [
                [PUBLIC, &address],
                [&address, PUBLIC],
                [PUBLIC_V6, &address],
                [&address, PUBLIC_V6],
            ] {
                let response =
                    stage.proxy.get(&format!("http://{}:8080/", name(&["alias3"], &addresses)));
                assert_eq!(response.status(), 200, "{addresses:?}: {}", response.text());
            }
        }
        stage.assert_contacted(&[PUBLIC, PUBLIC_V6]);
        stage.assert_recorded();
    });
}

/// What was found permitted is what is connected to: the name is not asked for again in between, and what
/// it says later is judged again.
#[test]
fn no_name_that_changes_its_mind_reaches_a_refused_address() {
    inside(|| {
        let mut stage = Stage::set("");
        let hosts: Vec<String> = refused()
            .map(|address| match address {
                IpAddr::V4(_) => name(&["rebinding"], &[PUBLIC, &address.to_string()]),
                IpAddr::V6(_) => name(&["rebinding"], &[PUBLIC_V6, &address.to_string()]),
            })
            .collect();
        for host in &hosts {
            let response = stage.proxy.get(&format!("http://{host}:8080/"));
            assert_eq!(response.status(), 200, "{host}: {}", response.text());
        }
        stage.assert_contacted(&[PUBLIC, PUBLIC_V6]);
        // Its rules are known, and its name is asked for anew.
        stage.proxy.restart();
        for host in &hosts {
            stage.refuses(&format!("GET http://{host}:8080/"));
            stage.refuses(&format!("CONNECT {host}:443"));
        }
        stage.assert_contacted(&[]);
        stage.assert_recorded();
    });
}

#[test]
fn no_redirect_reaches_a_refused_address() {
    inside(|| {
        // The evidence of each is written, which need not last.
        let stage = Stage::set("[audit]\nsync = \"none\"");
        let plain =
            refused().flat_map(|address| [plain(address), name(&[], &[&address.to_string()])]);
        let spelt =
            refused().step_by(4).flat_map(|address| <[_; 2]>::from(spellings(address)).concat());
        let local = LOCAL_NAMES.into_iter().chain([DISGUISED]).map(str::to_owned);
        for (number, host) in plain.chain(spelt).chain(local).enumerate() {
            let location = format!("http://{host}:8080/latest/meta-data/");
            // Of a robots.txt it is followed here, of a page by the client.
            let from = name(&[&format!("n{number}")], &[PUBLIC]);
            stage.everywhere.redirect(&format!("{from}/robots.txt"), &location);
            let response = stage.proxy.get(&format!("http://{from}/"));
            assert_eq!(response.status(), 403, "{location}");
            assert_eq!(response.reason(), "robots_unreachable", "{location}");
            stage.everywhere.redirect(&format!("{PUBLIC}/{number}"), &location);
            let response = stage.proxy.get(&format!("http://{PUBLIC}/{number}"));
            assert_eq!(response.field("location"), Some(location.as_str()));
            let followed = stage.proxy.get(&location);
            assert!([400, 403].contains(&followed.status()), "{location}: {}", followed.text());
        }
        stage.assert_contacted(&[PUBLIC]);
        // One that leads where one may go is followed.
        let from = name(&["well"], &[PUBLIC]);
        let location = format!("http://[{PUBLIC_V6}]:8080/robots.txt");
        stage.everywhere.redirect(&format!("{from}/robots.txt"), &location);
        assert_eq!(stage.proxy.get(&format!("http://{from}/")).status(), 200);
        stage.assert_contacted(&[PUBLIC, PUBLIC_V6]);
    });
}

/// Inside a permitted CONNECT nothing names another host: not TLS, not the request.
#[test]
fn no_name_inside_a_tunnel_reaches_a_refused_address() {
    inside(|| {
        Names::start();
        let everywhere = Everywhere::start();
        let public = name(&[], &[PUBLIC]);
        let intercepting = Stage::beside(&everywhere, "");
        let tunnelling = Stage::beside(&everywhere, &format!("[https]\ntunnel = [\"*.{ZONE}\"]"));
        let internal = refused().map(|address| name(&[], &[&address.to_string()]));
        for internal in internal.chain(LOCAL_NAMES[..1].iter().map(|name| (*name).to_owned())) {
            for stage in [&intercepting, &tunnelling] {
                let error = stage.tunnelled(&public, &internal).expect_err("another host");
                assert_eq!(
                    tls::alert(&error),
                    Some(AlertDescription::UnrecognisedName),
                    "{internal}: {error}"
                );
            }
        }
        let mut client = intercepting.tunnelled(&public, &public).expect("a handshake");
        for internal in refused() {
            let plain = plain(internal);
            client.send(format!("GET / HTTP/1.1\r\nHost: {plain}\r\n\r\n"));
            assert_eq!(client.read().status(), 400, "{plain}");
            client = intercepting.tunnelled(&public, &public).expect("a handshake");
            client.send(format!("GET https://{plain}/ HTTP/1.1\r\nHost: {plain}\r\n\r\n"));
            assert_eq!(client.read().status(), 400, "{plain}");
            client = intercepting.tunnelled(&public, &public).expect("a handshake");
        }
        assert_eq!(client.get("/").status(), 200);
        intercepting.assert_contacted(&[PUBLIC]);
        drop(tunnelling);
    });
}
