//! First contact with a site while another client, or a broad crawl, keeps the proxy waiting for hosts
//! that do not answer.

use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::time::Duration;

use courtesy::config::Settings;
use courtesy::runtime::clock::monotonic;

use crate::testkit::parties::{Client, Origin, Proxy, Script, answer, ok, until};

/// Few places, so that some hundred requests are what thousands are to a proxy as it comes.
const PLACES: usize = 8;

/// Of them one client may have this many.
const SHARE: usize = 7;

/// More than may be queued (128), or wait (512).
const REQUESTS: usize = 600;

/// So many of them wait all the time.
const WAITING: usize = 96;

fn few_places(settings: &mut Settings) {
    settings.robots.max_fetches = PLACES;
}

/// A listener for all of 127.0.0.0/8, each address an origin, which accepts and says nothing.
struct Silent(TcpListener);

impl Silent {
    fn start() -> Self {
        Self(TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a free port"))
    }

    fn url(&self, number: usize) -> String {
        let [.., high, low] = (number + 1).to_be_bytes();
        let host = Ipv4Addr::new(127, 9, high, low);
        format!("http://{host}:{}/", self.0.local_addr().expect("an address").port())
    }
}

/// What an attacker makes of its requests: the URL of each, and the address it comes from.
type Attack<'a> = &'a dyn Fn(usize) -> (String, Ipv4Addr);

fn attack(proxy: &Proxy, attack: Attack<'_>) -> Vec<Client> {
    let requests = (0..REQUESTS).map(|number| {
        let (url, from) = attack(number);
        let mut client = Client::connect_from(from, proxy.address());
        client.ask("GET", &url, "");
        client
    });
    requests.collect()
}

/// The times of a victim's first contacts, in order.
fn first_contacts(proxy: &Proxy, origins: &[Origin]) -> Vec<Duration> {
    let mut times: Vec<_> = origins
        .iter()
        .map(|origin| {
            let begun = monotonic();
            let mut client = Client::connect_from(Ipv4Addr::new(127, 0, 0, 99), proxy.address());
            let answer = client.get(&origin.url("/"));
            assert_eq!(answer.status(), 200, "{}", answer.text());
            begun.elapsed()
        })
        .collect();
    times.sort();
    times
}

fn sites(count: usize) -> Vec<Origin> {
    (0..count).map(|_| Origin::with_robots("User-agent: *\nDisallow: /no\n")).collect()
}

#[test]
fn f23_one_client_cannot_deny_others_the_first_contact_with_a_site() {
    let one = Ipv4Addr::new(127, 0, 0, 2);
    let silent = Silent::start();
    // Answers that never end, and one that sends on to where none comes.
    let drip =
        || Script::default().drip(answer(200, "", "#".repeat(1 << 16)), Duration::from_millis(50));
    let dripping = Origin::start().on("/robots.txt", drip());
    let location = format!("Location: {}robots.txt\r\n", silent.url(REQUESTS + 1));
    let redirecting =
        Origin::start().on("/robots.txt", Script::default().send(answer(302, &location, "")));
    let held = Origin::start().on("/robots.txt", Script::default().hold());
    let named = |origin: &Origin, number: usize| origin.named(&format!("n{number}"), "/");
    let forms: [(&str, usize, Attack<'_>); 6] = [
        ("hosts that accept and say nothing", SHARE, &|n| (silent.url(n), one)),
        ("names of a site that takes the request and says nothing", SHARE, &|n| {
            (named(&held, n), one)
        }),
        ("files that drip", SHARE, &|n| (named(&dripping, n), one)),
        ("redirects to a silent host", SHARE, &|n| (named(&redirecting, n), one)),
        ("one silent host that all requests wait for", 1, &|_| (silent.url(REQUESTS), one)),
        ("two addresses", SHARE + 1, &|n| {
            (silent.url(n), Ipv4Addr::new(127, 0, 0, 2 + u8::try_from(n % 2).unwrap_or(0)))
        }),
    ];
    for (form, fetches, requests) in forms {
        let proxy = Proxy::with(few_places);
        // Each may wait for two seconds; the attackers wait for ten and a half.
        let (quiet, loud) = (sites(3), sites(3));
        let before = first_contacts(&proxy, &quiet);
        let begun = proxy.stats().fetches;
        let attackers = attack(&proxy, requests);
        until(form, || {
            proxy.stats().fetches - begun >= fetches as u64 && proxy.stats().waiters > WAITING
        });
        let during = first_contacts(&proxy, &loud);
        println!("{form}: {:?} before, {:?} during", before[1], during[1]);
        assert!(proxy.stats().waiters > WAITING, "{form}: they waited no longer");
        assert!(loud.iter().all(|site| site.count("/robots.txt") == 1), "{form}");
        drop(attackers);
    }
}

/// Many addresses together hold all places: each gives up as many as make those of the others equal.
#[test]
fn f23_many_clients_cannot_block_first_contacts_of_others() {
    let silent = Silent::start();
    let proxy = Proxy::with(few_places);
    let from =
        |number: usize| Ipv4Addr::new(127, 0, 1, u8::try_from(number % 4).expect("it is small"));
    let attackers = attack(&proxy, &|n| (silent.url(n), from(n)));
    until("all places are taken", || proxy.stats().fetches >= PLACES as u64);
    first_contacts(&proxy, &sites(5));
    drop(attackers);
}

/// One client without malice: what is dead makes room for what is not, and nothing is held against it.
#[test]
fn f23_f24_a_crawl_with_dead_hosts_contacts_those_that_live() {
    let silent = Silent::start();
    let back = Origin::start()
        .on("/robots.txt", Script::default().hold())
        .then("/robots.txt", ok("User-agent: *\nDisallow: /no\n"));
    let proxy = Proxy::with(few_places);
    let mut first = proxy.client();
    first.ask("GET", &back.url("/"), "");
    until("it is asked first", || back.count("/robots.txt") == 1);
    let dead: Vec<_> = (0..SHARE * 3)
        .map(|number| {
            let mut client = proxy.client();
            client.ask("GET", &silent.url(number), "");
            client
        })
        .collect();
    for site in sites(10) {
        assert_eq!(proxy.get(&site.url("/")).status(), 200);
    }
    let refused = first.read();
    assert_eq!(refused.status(), 403);
    assert!(refused.text().contains("undecided"), "{}", refused.text());
    assert_eq!(proxy.get(&back.url("/")).status(), 200, "nothing was kept of it");
    let reasons: Vec<_> = proxy.records().iter().map(|record| record["reason"].clone()).collect();
    assert!(
        !reasons.is_empty() && reasons.iter().all(|reason| reason == "undecided"),
        "{reasons:?}"
    );
    drop(dead);
}

/// Those who have left need no place: a client that asks and resets is no different from one that waits.
#[test]
fn f23_fetches_that_no_client_waits_for_are_the_first_to_go() {
    let silent = Silent::start();
    let proxy = Proxy::with(few_places);
    let address = |n: usize| {
        IpAddr::from(Ipv4Addr::new(127, 0, 2, u8::try_from(n % 8).expect("it is small")))
    };
    let attackers = attack(&proxy, &|n| match address(n) {
        IpAddr::V4(from) => (silent.url(n), from),
        IpAddr::V6(_) => unreachable!("they are of IPv4"),
    });
    until("all places are taken", || proxy.stats().fetches >= PLACES as u64);
    drop(attackers);
    until("they have left", || proxy.stats().waiters == 0);
    first_contacts(&proxy, &sites(PLACES));
}

/// What waits in a queue of the proxy's own until its time is over: for a slot of another origin, on the way
/// there or for all of its time, and for a place among the fetches.
#[test]
fn f24_a_queue_of_the_proxy_is_not_held_against_a_site() {
    let millis = Duration::from_millis;
    for (connect, fetch) in
        [(millis(200), Duration::from_secs(10)), (Duration::from_secs(10), millis(300))]
    {
        let busy =
            Origin::with_robots("").on("/held", Script::default().hold().send(answer(200, "", "")));
        let location = format!("Location: {}\r\n", busy.url("/robots.txt"));
        let site =
            Origin::start().on("/robots.txt", Script::default().send(answer(302, &location, "")));
        let proxy = Proxy::with(|settings| {
            settings.egress.max_per_origin = 1;
            settings.egress.connect_timeout = connect;
            settings.robots.fetch_timeout = fetch;
        });
        let mut holder = proxy.client();
        holder.ask("GET", &busy.url("/held"), "");
        until("its slot is taken", || busy.count("/held") == 1);
        assert_eq!(proxy.get(&site.url("/")).reason(), "undecided");
        busy.release();
        until("its slot is free", || proxy.get(&site.url("/")).status() == 200);
        let reasons: Vec<_> =
            proxy.records().iter().map(|record| record["reason"].clone()).collect();
        assert!(reasons.iter().all(|reason| reason == "undecided"), "{reasons:?}");
    }
    let silent = Silent::start();
    let proxy = Proxy::with(|settings| settings.robots.max_fetches = 1);
    let mut holder = Client::connect_from(Ipv4Addr::new(127, 0, 0, 2), proxy.address());
    holder.ask("GET", &silent.url(0), "");
    until("the place is taken", || proxy.stats().fetches == 1);
    // For who comes from now on; the fetch that is under way has longer.
    proxy.change(|settings| settings.robots.fetch_timeout = millis(100));
    let site = Origin::with_robots("");
    assert_eq!(proxy.get(&site.url("/")).reason(), "undecided");
    drop(holder);
    until("it is its turn", || proxy.get(&site.url("/")).status() == 200);
    assert_eq!(site.count("/robots.txt"), 1);
}
