//! What the proxy or its machine lacks is nothing that a site has done: a request is refused as undecided
//! or, where the robots.txt is known, answered with 502 or 503. Nothing is kept of it: as soon as there is
//! enough again, the site is asked as if nothing had been.

use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::process::Command;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use socket2::{Domain, SockRef, Socket, Type};

use crate::faults::world::names::{Names, name};
use crate::faults::world::{Everywhere, Proxy, inside};
use crate::testkit::parties::{Client, Response};
use crate::testkit::processes::until;

const PUBLIC: &str = "8.8.8.8";

#[track_caller]
fn assert_undecided(response: &Response, why: &str) {
    assert_eq!(response.status(), 403, "{}", response.text());
    assert!(response.text().contains("problems/undecided"), "{}", response.text());
    assert!(response.text().contains(why), "{}", response.text());
}

/// Each denial was for want of a decision, and no other.
#[track_caller]
fn assert_records(proxy: Proxy, count: usize) {
    let reasons: Vec<_> = proxy.records().iter().map(|record| record["reason"].clone()).collect();
    assert_eq!(reasons, vec!["undecided"; count]);
}

#[track_caller]
fn ip(words: &str) {
    let status = Command::new("ip").args(words.split(' ')).status().expect("ip, of iproute2");
    assert!(status.success(), "ip {words}");
}

fn ask(client: &mut Client, url: &str) -> Response {
    client.send(format!("GET {url} HTTP/1.1\r\nHost: x\r\nUser-Agent: ExampleBot/1.0\r\n\r\n"));
    client.read()
}

fn descriptors(proxy: &Proxy) -> Vec<u64> {
    let used = fs::read_dir(format!("/proc/{}/fd", proxy.serve().id())).expect("its descriptors");
    used.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Has the running proxy no descriptors but those it uses, while this lives.
struct WithoutDescriptors(Pid);

impl WithoutDescriptors {
    /// Waits until the connections of former requests are closed: those descriptors are free then.
    fn begin(proxy: &Proxy, at_rest: usize) -> Self {
        until("no more than at rest are in use", || descriptors(proxy).len() <= at_rest);
        let pid =
            Pid::from_raw(proxy.serve().id().try_into().expect("a number")).expect("a process");
        let used = descriptors(proxy);
        // The limit is on the number of a descriptor.
        let first_free = (0..).find(|number| !used.contains(number));
        Self::set(pid, first_free);
        Self(pid)
    }

    fn set(pid: Pid, current: Option<u64>) {
        let maximum = getrlimit(Resource::Nofile).maximum;
        prlimit(Some(pid), Resource::Nofile, Rlimit { current, maximum }).expect("its limit");
    }
}

impl Drop for WithoutDescriptors {
    fn drop(&mut self) {
        Self::set(self.0, getrlimit(Resource::Nofile).maximum);
    }
}

#[test]
fn f24_a_missing_route_is_not_held_against_a_site() {
    inside(|| {
        let proxy = Proxy::start("", Everywhere::closing().ca());
        let kinds = ["", "unreachable", "prohibit", "blackhole", "throw"];
        for (number, kind) in kinds.iter().enumerate() {
            let host = format!("8.8.8.{number}");
            let close = || {
                ip("route del local 0.0.0.0/0 dev lo");
                if !kind.is_empty() {
                    ip(&format!("route add {kind} {host}/32"));
                }
            };
            let open = || {
                if !kind.is_empty() {
                    ip(&format!("route del {kind} {host}/32"));
                }
                ip("route add local 0.0.0.0/0 dev lo");
            };
            close();
            assert_undecided(&proxy.get(&format!("http://{host}/")), "cannot connect");
            open();
            assert_eq!(proxy.get(&format!("http://{host}/")).status(), 200, "{kind}");
            close();
            let page = proxy.get(&format!("http://{host}/page"));
            page.assert_error(502, "destination_ip_unroutable");
            open();
            assert_eq!(proxy.get(&format!("http://{host}/page")).status(), 200, "{kind}");
        }
        assert_records(proxy, kinds.len());
    });
}

#[test]
fn f24_without_a_port_of_its_own_it_says_nothing_of_a_site() {
    inside(|| {
        let proxy = Proxy::start("", Everywhere::closing().ca());
        fs::write("/proc/sys/net/ipv4/ip_local_port_range", "40000 40003")
            .expect("a setting of this world");
        let site: SocketAddr = (Ipv4Addr::new(8, 8, 8, 8), 80).into();
        let take_all = || {
            let taken: Vec<_> =
                std::iter::from_fn(|| TcpStream::connect(site).ok()).take(10).collect();
            assert!((1..10).contains(&taken.len()), "{}", taken.len());
            // They leave nothing behind that would keep the port.
            taken.iter().for_each(|stream| {
                SockRef::from(stream).set_linger(Some(Duration::ZERO)).expect("an option");
            });
            taken
        };
        let taken = take_all();
        assert_undecided(&proxy.get("http://8.8.8.8/"), "cannot connect");
        drop(taken);
        assert_eq!(proxy.get("http://8.8.8.8/").status(), 200);
        let taken = take_all();
        proxy.get("http://8.8.8.8/page").assert_error(503, "proxy_internal_error");
        drop(taken);
        assert_records(proxy, 1);
    });
}

#[test]
fn f24_without_descriptors_it_says_nothing_of_a_site_or_a_name() {
    inside(|| {
        Names::start();
        let proxy = Proxy::start("", Everywhere::closing().ca());
        let mut client = proxy.client();
        // Answered by the proxy itself: the client is let in by then.
        assert_eq!(ask(&mut client, "http://courtesy.internal/").status(), 200);
        let at_rest = descriptors(&proxy).len();
        let known = format!("http://{}/", name(&["known"], &[PUBLIC]));
        assert_eq!(ask(&mut client, &known).status(), 200);
        // Its robots.txt is kept as evidence after the response: behind `started` the log names it.
        until("its file is named", || proxy.serve().metric("courtesy_audit_head_seq") >= 2);
        let unknown = format!("http://{}/", name(&["unknown"], &[PUBLIC]));
        let shortage = WithoutDescriptors::begin(&proxy, at_rest);
        assert_undecided(&ask(&mut client, "http://8.8.4.4/"), "open files");
        assert_undecided(&ask(&mut client, &unknown), "cannot resolve");
        ask(&mut client, &known).assert_error(503, "proxy_internal_error");
        drop(shortage);
        for url in ["http://8.8.4.4/", &unknown, &known] {
            assert_eq!(ask(&mut client, url).status(), 200, "{url}");
        }
        assert_records(proxy, 2);
    });
}

#[test]
fn f23_f24_silent_names_do_not_delay_other_lookups() {
    inside(|| {
        let names = Names::start();
        let settings = "[robots]\nfetch_timeout = \"1s\"";
        let proxy = Proxy::start(settings, Everywhere::start().ca());
        let silent: Vec<_> =
            (0..40).map(|number| name(&["silent", &format!("n{number}")], &[])).collect();
        let from =
            |client: u8| Client::connect_from(Ipv4Addr::new(127, 0, 0, client), proxy.address());
        thread::scope(|scope| {
            let attack: Vec<_> = silent
                .iter()
                .map(|host| scope.spawn(move || ask(&mut from(2), &format!("http://{host}/"))))
                .collect();
            until("all are asked for", || silent.iter().all(|host| names.asked(host) > 0));
            for number in 0..5 {
                let host = name(&[&format!("n{number}")], &[PUBLIC]);
                assert_eq!(ask(&mut from(3), &format!("http://{host}/")).status(), 200);
            }
            attack.into_iter().for_each(|request| drop(request.join()));
        });
        drop(proxy);
    });
}

/// Sockets of this world that wait for the answer of `port` to their first segment.
fn connecting(port: u16) -> usize {
    const SYN_SENT: &str = "02";
    let tables =
        ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).expect("a table"));
    let lines = tables.iter().flat_map(|table| table.lines().skip(1));
    let to = format!(":{port:04X}");
    lines
        .filter(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            words[2].ends_with(&to) && words[3] == SYN_SENT
        })
        .count()
}

#[test]
fn f25_a_name_with_many_silent_addresses_costs_few_sockets() {
    inside(|| {
        const REQUESTS: usize = 5;
        Names::start();
        // Its queue is full, so that it answers no first segment.
        let silent = Socket::new(Domain::IPV6, Type::STREAM, None).expect("a socket");
        silent
            .bind(&SocketAddr::from((Ipv6Addr::UNSPECIFIED, 81)).into())
            .expect("a port of this world");
        silent.listen(0).expect("a listener");
        let _first = TcpStream::connect((Ipv4Addr::LOCALHOST, 81)).expect("there is room for one");
        let proxy = Proxy::start("[egress]\nconnect_timeout = \"4s\"", Everywhere::start().ca());
        let addresses: Vec<_> = (1..=16).map(|number| format!("8.8.8.{number}")).collect();
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        let mut most = 0;
        thread::scope(|scope| {
            let asking: Vec<_> = (0..REQUESTS)
                .map(|number| {
                    let url = format!("http://{}:81/", name(&[&format!("n{number}")], &addresses));
                    let proxy = &proxy;
                    scope.spawn(move || proxy.get(&url))
                })
                .collect();
            until("all have given up", || {
                // No one instant: in one look a socket that goes may stand beside its successor.
                most = most.max(connecting(81).min(connecting(81)).min(connecting(81)));
                asking.iter().all(|request| request.is_finished())
            });
            for request in asking {
                let response = request.join().expect("an answer");
                assert_eq!(response.reason(), "robots_unreachable", "that is what the site does");
            }
        });
        assert!(
            (2 * REQUESTS..=3 * REQUESTS).contains(&most),
            "{most} at once for {REQUESTS} requests"
        );
    });
}
