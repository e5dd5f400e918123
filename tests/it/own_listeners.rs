//! The proxy is no way to its own listeners, by whatever spelling, also where private addresses are
//! allowed: the console and the metrics trust whoever is on this machine.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, UdpSocket};

use courtesy::config::Settings;
use courtesy::egress::{ParentAddress, ParentResolve};

use crate::testkit::parties::{Client, Origin, Parent, Proxy, Script, Speaks, answer, connect};

/// Spellings that lead to a listener on 127.0.0.1, and to one on all addresses.
const SPELLINGS: &[&str] = &[
    "127.0.0.1",
    "0.0.0.0",
    "[::]",
    "[0:0::0]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[0:0:0:0:0:ffff:7f00:0001]",
    "[::ffff:0.0.0.0]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "localhost",
    "LOCALHOST",
    "localhost.",
    "a.localhost",
];

/// Those that no URL may have; the resolvers of many programs read an address in them.
const MALFORMED: &[&str] =
    &["2130706433", "0x7f.1", "0x7f000001", "127.1", "0177.0.0.1", "127.0.0.01", "[::1%25lo]"];

/// A listener of the proxy's that notes nothing but who comes, and the spellings that lead to it.
struct Own {
    listener: TcpListener,
    spellings: Vec<String>,
}

impl Own {
    /// One on each kind of address. A machine without IPv6 has two.
    fn all() -> Vec<Self> {
        let v6 = ["[::1]", "[0::1]", "[::]", "localhost", "a.localhost."];
        // The address by which this machine speaks to others. Nothing is sent to find it.
        let outside = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
            socket.connect("192.0.2.1:9")?;
            Ok(socket.local_addr()?.ip().to_string())
        });
        let outside = outside.as_deref().unwrap_or("127.9.9.9");
        let everywhere = [SPELLINGS, &["127.0.0.2", "127.255.255.254", outside]].concat();
        [
            ("127.0.0.1:0", SPELLINGS.to_vec()),
            ("0.0.0.0:0", everywhere.clone()),
            ("[::1]:0", v6.to_vec()),
            ("[::]:0", [&everywhere[..], &v6].concat()),
        ]
        .into_iter()
        .filter_map(|(address, spellings)| {
            let listener = TcpListener::bind(address).ok()?;
            listener.set_nonblocking(true).expect("an option");
            Some(Self { listener, spellings: spellings.into_iter().map(str::to_owned).collect() })
        })
        .collect()
    }

    fn address(&self) -> SocketAddr {
        self.listener.local_addr().expect("it is bound")
    }

    /// Its address, spelt in each way.
    fn authorities(&self) -> impl Iterator<Item = String> {
        let port = self.address().port();
        self.spellings.iter().map(move |host| format!("{host}:{port}"))
    }

    #[track_caller]
    fn assert_no_visit(&self) {
        let came = self.listener.accept().map(|(_, from)| from);
        assert_eq!(came.map_err(|error| error.kind()), Err(ErrorKind::WouldBlock));
    }
}

/// Every address may be reached, and every port by CONNECT.
fn open(settings: &mut Settings) {
    settings.egress.allow = ["0.0.0.0/0", "::/0"].map(|all| all.parse().expect("a block")).to_vec();
    settings.egress.connect_ports = (1..=u16::MAX).collect();
}

#[test]
fn c15_no_spelling_of_an_own_listener_is_a_destination() {
    for own in Own::all() {
        let proxy = Proxy::owning(&[own.address()], open);
        for authority in own.authorities() {
            let response = proxy.get(&format!("http://{authority}/metrics"));
            response.assert_error(502, "proxy_loop_detected");
            let mut tunnel = proxy.client();
            let refused = tunnel.send(connect(&authority, "")).read();
            refused.assert_error(502, "proxy_loop_detected");
            tunnel.assert_closed();
        }
        for host in MALFORMED {
            let authority = format!("{host}:{}", own.address().port());
            assert_eq!(proxy.get(&format!("http://{authority}/")).status(), 400, "{authority}");
            let refused = proxy.client().send(connect(&authority, "")).read();
            assert_eq!(refused.status(), 400, "{authority}");
        }
        assert!(proxy.records().is_empty(), "no site has denied anything");
        own.assert_no_visit();
    }
}

#[test]
fn c15_the_listeners_of_the_process_are_known_as_its_own() {
    let all = "0.0.0.0:0".parse().expect("an address");
    for proxy in [Proxy::with(open), Proxy::at(all, open)] {
        for port in [proxy.address().port(), proxy.admin_address().port()] {
            for host in SPELLINGS {
                let response = proxy.get(&format!("http://{host}:{port}/metrics"));
                response.assert_error(502, "proxy_loop_detected");
            }
        }
    }
}

#[test]
fn c15_an_intercepted_tunnel_leads_to_no_own_listener() {
    let origin = Origin::secure();
    for own in Own::all() {
        let proxy = Proxy::owning(&[own.address()], open);
        for authority in own.authorities() {
            for scheme in ["http", "https"] {
                let mut inside = proxy.https(&origin.authority());
                let refused = inside.get(&format!("{scheme}://{authority}/metrics"));
                assert_eq!(refused.status(), 400, "{scheme}://{authority}: {}", refused.text());
            }
        }
        own.assert_no_visit();
    }
}

#[test]
fn c15_a_redirect_of_robots_txt_leads_to_no_own_listener() {
    for own in Own::all() {
        let proxy = Proxy::owning(&[own.address()], open);
        for authority in own.authorities() {
            let location = format!("Location: http://{authority}/robots.txt\r\n");
            let script = Script::default().send(answer(301, &location, ""));
            let origin = Origin::start().on("/robots.txt", script);
            let denied = proxy.get(&origin.url("/page"));
            assert_eq!(denied.status(), 403, "{authority}");
            assert_eq!(denied.reason(), "robots_unreachable", "{authority}");
            assert_eq!(origin.request_lines(), ["GET /robots.txt"], "{authority}");
        }
        own.assert_no_visit();
    }
}

/// Led there by the network, to another address at the same port: the name decides.
#[test]
fn c15_a_redirected_connection_leads_to_no_own_listener() {
    let own = Own::all().remove(0);
    let led = SocketAddr::from(([127, 0, 77, 2], own.address().port()));
    let proxy = Proxy::owning(&[own.address()], |settings| {
        open(settings);
        settings.listen.transparent = vec![led];
    });
    for authority in own.authorities() {
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {authority}\r\n\r\n");
        Client::connect(led).send(request).read().assert_error(502, "proxy_loop_detected");
    }
    assert!(proxy.records().is_empty());
    own.assert_no_visit();
}

/// What is spelt as this machine's is refused before the parent is asked, whoever resolves names.
#[test]
fn c15_a_parent_is_asked_for_no_own_listener() {
    let parent = Parent::start(Speaks::Http);
    for own in Own::all() {
        for resolve in [ParentResolve::Check, ParentResolve::Parent] {
            let proxy = Proxy::owning(&[own.address()], |settings| {
                open(settings);
                settings.egress.parent = Some(parent.url().parse().expect("a parent"));
                settings.egress.parent_resolve = resolve;
            });
            for authority in own.authorities() {
                let response = proxy.get(&format!("http://{authority}/metrics"));
                response.assert_error(502, "proxy_loop_detected");
            }
        }
        own.assert_no_visit();
    }
    assert_eq!(parent.asked(), [""; 0]);
}

/// What a parent resolves is not known here: the admin listener itself knows who has forwarded the
/// request, and its pages are not shown.
#[test]
fn c15_the_admin_listener_answers_nothing_that_the_proxy_forwards() {
    let parent = Parent::start(Speaks::Http);
    let proxy = Proxy::with(|settings| {
        settings.egress.parent = Some(parent.url().parse().expect("a parent"));
        settings.egress.parent_resolve = ParentResolve::Parent;
    });
    let admin = proxy.admin_address();
    parent.leads(8080, admin.port());
    for path in ["/metrics", "/config", "/healthz"] {
        let response = proxy.get(&format!("http://only-there.invalid:8080{path}"));
        assert_eq!(response.status(), 508, "{}", response.text());
    }
    // Forwarded by another proxy, it is answered.
    let request = "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nVia: 1.1 courtesy (0)\r\n\r\n";
    assert_eq!(Client::connect(admin).send(request).read().status(), 200);
}

#[test]
fn c15_the_proxy_is_no_parent_of_itself() {
    let origin = Origin::start();
    for own in Own::all() {
        let proxy = Proxy::owning(&[own.address()], open);
        let of_process = [proxy.address(), proxy.admin_address()].map(|it| it.to_string());
        // Of names, the hosts file of each machine has localhost, by IPv4.
        let is_listed = |it: &String| it.starts_with("localhost:") && own.address().is_ipv4();
        let named = own.authorities().filter(|it| !it.contains("local") || is_listed(it));
        let parents = named.chain(of_process).map(|it| format!("http://{it}"));
        let parents = parents.map(|it| it.parse::<ParentAddress>().expect("a parent").to_string());
        for (number, parent) in parents.collect::<BTreeSet<_>>().into_iter().enumerate() {
            proxy.change(|settings| settings.egress.parent = Some(parent.parse().unwrap()));
            // Another name each time: what was fetched in vain is not fetched again at once.
            let port = origin.address().port();
            let response = proxy.get(&format!("http://a{number}.localhost:{port}/page"));
            assert_eq!(response.reason(), "robots_unreachable", "{parent}");
            let page = response.text();
            assert!(page.contains("this proxy itself"), "{parent}: {page}");
        }
        own.assert_no_visit();
    }
    assert_eq!(origin.log().connections, 0);
}
