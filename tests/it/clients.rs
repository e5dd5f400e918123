//! Who may use the proxy, by name and by number, as clients see it.

use std::io::Write;
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use courtesy::clients::{Change, Hash, Password, User};
use courtesy::config::{AgentRule, HttpsMode, Settings};
use courtesy::types::origin::host::Glob;
use http::StatusCode;

use crate::testkit::parties::{
    Client, Origin, Proxy, Script, answer, connect, request, tls, until,
};

const RULES: &str = "User-agent: *\nDisallow: /private/\n\nUser-agent: AdaBot\nDisallow: /\n";
pub const PASSWORD: &str = "open: sesame";

/// A user with that password, and no settings of its own.
pub fn user(name: &str) -> User {
    User {
        name: name.into(),
        password: Hash::of(&Password::new(PASSWORD).unwrap()),
        agent: None,
        mode: None,
        deny_status: None,
        max_connections: None,
        max_requests: None,
        max_wait: None,
        pace_status: None,
    }
}

fn encoded(name: &str) -> String {
    STANDARD.encode(format!("{name}:{PASSWORD}"))
}

fn credentials(name: &str) -> String {
    format!("Proxy-Authorization: Basic {}\r\n", encoded(name))
}

/// Settings under which these may use the proxy.
fn with_users(settings: &mut Settings, users: impl IntoIterator<Item = User>) {
    let file = settings.state_dir.join("users.toml");
    save(&file, users);
    settings.clients.users_file = Some(file);
}

fn save(file: &Path, users: impl IntoIterator<Item = User>) {
    let mut change = Change::begin(file).unwrap();
    users.into_iter().for_each(|user| change.users.put(user));
    change.save().unwrap();
}

/// An answer that comes when the origin is told so.
fn held() -> Script {
    Script::default().hold().send(answer(200, "", ""))
}

/// A number of the proxy's metrics.
fn metric(proxy: &Proxy, line: &str) -> u64 {
    let text = proxy.admin("/metrics").text();
    let found = text.lines().find_map(|it| it.strip_prefix(line)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("no {line} in {text}")).parse().unwrap()
}

#[test]
fn c7_credentials_are_asked_for_and_never_leave() {
    let (plain, secure) = (Origin::with_robots(RULES), Origin::secure().robots(RULES));
    let proxy = Proxy::before(&[&plain, &secure], |settings| with_users(settings, [user("ada")]));
    let ada = credentials("ada");

    let refused = proxy.get(&plain.url("/"));
    refused.assert_error(407, "http_request_denied");
    assert_eq!(
        refused.head.all("proxy-authenticate"),
        ["Basic realm=\"courtesy\", charset=\"UTF-8\""]
    );
    let mut client = proxy.client();
    assert_eq!(client.send(connect(&secure.authority(), "")).read_head().status(), 407);
    let wrong = format!("Proxy-Authorization: Basic {}\r\n", STANDARD.encode("ada:sesame"));
    assert_eq!(proxy.exchange("GET", &plain.url("/"), &wrong).status(), 407);
    assert_eq!(plain.log().connections + secure.log().connections, 0, "nothing has left");

    let mut client = proxy.client();
    assert_eq!(client.exchange("GET", &plain.url("/"), &ada).status(), 200);
    assert_eq!(client.exchange("POST", &plain.url("/private/a"), &ada).status(), 403);
    assert_eq!(
        client.exchange("GET", &plain.url("/"), "").status(),
        407,
        "each request says who asks"
    );
    for named in ["Connection: Proxy-Authorization\r\n", "Connection: close\r\n"] {
        assert_eq!(proxy.exchange("GET", &plain.url("/"), &format!("{named}{ada}")).status(), 200);
    }

    let mut tunnel = proxy.client();
    assert_eq!(tunnel.send(connect(&secure.authority(), &ada)).read_head().status(), 200);
    let name = secure.authority();
    let mut inside = tunnel.secured(proxy.trusted(&["http/1.1"]), tls::host(&name)).unwrap();
    let within = |path, fields| request("GET", path, &format!("Host: {name}\r\n{fields}"));
    assert_eq!(inside.send(within("/", "")).read().status(), 200, "the CONNECT has said who asks");
    assert_eq!(inside.send(within("/", &ada)).read().status(), 200);
    assert_eq!(inside.send(within("/private/b", "")).read().status(), 403);

    for origin in [&plain, &secure] {
        for received in &origin.log().requests {
            let head = received.head.to_ascii_lowercase();
            assert!(
                !head.contains("proxy-auth") && !received.head.contains(&encoded("ada")),
                "{head}"
            );
        }
        assert!(origin.count("/robots.txt") == 1 && origin.count("/") >= 2);
    }
    let records = proxy.records();
    assert_eq!(records.len(), 2);
    assert!(records.iter().all(|record| record["client"]["name"] == "ada"), "{records:#?}");
    let all = format!("{:?}", proxy.lines());
    assert!(!all.contains(&encoded("ada")) && !all.contains(PASSWORD), "{all}");
    let asked = "courtesy_clients_turned_away_total{reason=\"no_credentials\"}";
    assert_eq!(metric(&proxy, asked), 3);
}

#[test]
fn without_a_user_agent_the_users_own_agent_counts() {
    let origin = Origin::secure().robots(RULES);
    let proxy = Proxy::before(&[&origin], |settings| {
        settings.https.mode = HttpsMode::Classify;
        let status = http::StatusCode::NOT_FOUND;
        with_users(
            settings,
            [
                User {
                    agent: Some("AdaBot".parse().unwrap()),
                    deny_status: Some(status),
                    ..user("ada")
                },
                User {
                    agent: Some("AdaBot".parse().unwrap()),
                    mode: Some(courtesy::proxy::Mode::Observe),
                    ..user("bob")
                },
            ],
        );
    });
    let asks = |name: &str, agent: &str| {
        let fields = format!("User-Agent:{agent}\r\n{}", credentials(name));
        proxy.exchange("GET", &origin.url("/"), &fields).status()
    };
    assert_eq!((asks("ada", ""), asks("ada", " OtherBot/1"), asks("bob", "")), (404, 200, 200));
    let status = |fields: &str| {
        proxy.client().send(connect(&origin.authority(), fields)).read_head().status()
    };
    assert_eq!(status(&credentials("ada")), 404, "of the host as a whole");
    assert!(
        proxy.records().iter().all(|it| it["reason"] == "disallow_rule"),
        "{:#?}",
        proxy.records()
    );
    let told: Vec<_> = proxy
        .records()
        .iter()
        .map(|it| {
            ["event", "agent", "agent_source"].map(|field| it[field].as_str().unwrap().to_owned())
        })
        .collect();
    assert_eq!(
        told,
        [
            ["denied", "AdaBot", "credentials"],
            ["would_deny", "AdaBot", "credentials"],
            ["denied", "AdaBot", "credentials"]
        ]
    );
    let settings: Vec<_> = proxy.records().iter().map(|it| it.get("setting").cloned()).collect();
    assert_eq!(settings, [None, Some("clients.users_file".into()), None]);
}

#[test]
fn a_person_who_opens_the_proxys_address_is_asked_for_nothing() {
    let proxy = Proxy::with(|settings| with_users(settings, [user("ada")]));
    let address = proxy.address();
    let page = proxy.client().send(format!("GET / HTTP/1.1\r\nHost: {address}\r\n\r\n")).read();
    assert_eq!(page.status(), 200);
    assert_eq!(proxy.get("http://courtesy.internal/").status(), 407);
}

#[test]
fn a_greedy_client_is_bounded_and_others_are_served() {
    let origin = Origin::with_robots(RULES).on("/held", held());
    let proxy = Proxy::with(|settings| {
        settings.clients.max_connections = 30;
        settings.clients.max_per_client = 20;
        settings.clients.max_requests_per_client = 12;
        settings.egress.max_per_origin = 8;
    });
    assert_eq!(proxy.get(&origin.url("/")).status(), 200);
    until("the place is left", || metric(&proxy, "courtesy_connections") == 0);

    let mut greedy: Vec<_> = (0..20).map(|_| proxy.client()).collect();
    for client in &mut greedy {
        client.ask("GET", &origin.url("/held"), "");
    }
    // Seven have a slot of the origin, five wait for one, and the others are told at once.
    until("each request has found its place", || {
        origin.count("/held") == 7 && metric(&proxy, TOO_MANY_REQUESTS) == 8
    });
    let refused = proxy.get(&origin.url("/"));
    refused.assert_error(429, "connection_limit_reached");
    assert_eq!(refused.field("retry-after"), Some("1"));
    assert!(refused.text().contains("clients.max_per_client"), "{}", refused.text());

    let mut other = Client::connect_from(Ipv4Addr::new(127, 0, 0, 2), proxy.address());
    for _ in 0..50 {
        assert_eq!(other.get(&origin.url("/")).status(), 200);
    }
    assert_eq!(origin.count("/held"), 7);
    origin.release();
    drop(greedy);
    until("all places are left", || metric(&proxy, "courtesy_connections") == 1);
    assert_eq!(proxy.get(&origin.url("/")).status(), 200);
}

const TOO_MANY_REQUESTS: &str = "courtesy_clients_turned_away_total{reason=\"client_requests\"}";

#[test]
fn what_runs_inside_a_connect_counts_for_its_client() {
    let origin = Origin::secure().on("/held", held());
    let proxy = Proxy::before(&[&origin], |settings| settings.clients.max_requests_per_client = 1);
    let mut held = proxy.https(&origin.authority());
    held.ask("GET", "/held", "");
    origin.wait_until("the first is under way", |log| {
        log.requests.iter().any(|it| it.path() == "/held")
    });
    let mut second = proxy.client();
    second
        .send(connect(&origin.authority(), ""))
        .read()
        .assert_error(429, "connection_limit_reached");
    origin.release();
    assert_eq!(held.read().status(), 200);
    until("the place is left", || {
        proxy.client().send(connect(&origin.authority(), "")).read_head().status() == 200
    });
}

#[test]
fn users_behind_one_address_have_places_of_their_own() {
    let origin = Origin::start().on("/held", held());
    let proxy = Proxy::with(|settings| {
        with_users(
            settings,
            [
                User { max_requests: Some(1), ..user("ada") },
                User { max_connections: Some(1), ..user("bob") },
            ],
        );
    });
    let mut held = proxy.client();
    held.ask("GET", &origin.url("/held"), &credentials("ada"));
    origin.wait_until("the first is under way", |log| {
        log.requests.iter().any(|it| it.path() == "/held")
    });
    let status = |name: &str| proxy.exchange("GET", &origin.url("/"), &credentials(name)).status();
    assert_eq!((status("ada"), status("bob")), (429, 200));

    let mut seat = proxy.client();
    until("bob's other connection is gone", || {
        seat = proxy.client();
        seat.exchange("GET", &origin.url("/"), &credentials("bob")).status() == 200
    });
    assert_eq!(status("bob"), 429, "one connection is open");
    assert_eq!(seat.exchange("GET", &origin.url("/"), &credentials("bob")).status(), 200);
}

/// What it has not read when it closes makes the system send a reset behind the CONNECT, which is
/// permitted then, and cannot be answered.
#[test]
fn a_client_that_leaves_at_its_connect_leaves_its_place() {
    let (plain, secure) = (Origin::start(), Origin::secure());
    let proxy = Proxy::before(&[&plain, &secure], |settings| {
        with_users(settings, [User { max_connections: Some(1), ..user("bob") }]);
    });
    let bob = credentials("bob");
    for _ in 0..20 {
        until("bob's former connection is gone", || {
            let mut client = proxy.client();
            client.ask("GET", &plain.url("/"), &bob);
            let (mut stream, mut begun) = (client.into_tcp(), [0; 12]);
            while stream.peek(&mut begun).unwrap() < begun.len() {}
            begun == *b"HTTP/1.1 200"
                && stream.write_all(connect(&secure.authority(), &bob).as_bytes()).is_ok()
        });
    }
    until("all places are left", || proxy.exchange("GET", &plain.url("/"), &bob).status() == 200);
}

/// Addresses that guess, and how often each does at a time: so often that none has to wait for having failed.
const GUESSERS: u8 = 60;
const GUESSES: u32 = 5;

#[test]
fn l11_a_new_user_is_verified_while_strangers_guess_passwords() {
    let origin = Origin::with_robots(RULES);
    let proxy = Proxy::with(|settings| {
        with_users(settings, [user("ada"), user("bob"), user("eve"), user("kim")])
    });
    let guess = |address: u8, number: u32| {
        let wrong = STANDARD.encode(format!("ada:{address} {number}"));
        let fields = format!("Proxy-Authorization: Basic {wrong}\r\n");
        let mut client = Client::connect_from(Ipv4Addr::new(127, 0, 9, address), proxy.address());
        client.send(request("GET", &origin.url("/"), &fields));
        client
    };
    // Each has been wrong once.
    for address in 0..GUESSERS {
        assert_eq!(guess(address, 0).read().status(), 407);
    }
    let guessing: Vec<_> = (1..GUESSES)
        .flat_map(|number| (0..GUESSERS).map(move |address| (address, number)))
        .map(|(address, number)| guess(address, number).into_tcp())
        .collect();
    // By another address each: as a GET, a POST, a CONNECT and within another's network.
    let from = |last: u8| Client::connect_from(Ipv4Addr::new(127, 0, 8, last), proxy.address());
    assert_eq!(from(1).exchange("GET", &origin.url("/"), &credentials("ada")).status(), 200);
    assert_eq!(from(2).exchange("POST", &origin.url("/"), &credentials("bob")).status(), 200);
    let connect = connect(&origin.authority(), &credentials("kim"));
    assert_ne!(from(3).send(connect).read_head().status(), 503);
    let near = Client::connect_from(Ipv4Addr::new(127, 0, 9, GUESSERS), proxy.address());
    let mut near = near;
    assert_eq!(near.exchange("GET", &origin.url("/"), &credentials("eve")).status(), 200);
    // Most of the guesses still wait: the new users came before them.
    let waits = |guess: &&TcpStream| {
        guess.set_nonblocking(true).expect("an option");
        guess.peek(&mut [0]).is_err()
    };
    let waiting = guessing.iter().filter(waits).count();
    assert!(waiting > guessing.len() / 2, "{waiting}");
}

#[test]
fn a_user_and_an_agent_wait_as_long_as_they_are_allowed_to() {
    let origin = Origin::with_robots("User-agent: *\nCrawl-delay: 30\n");
    let hasty = |name: &str| User { max_wait: Some(Duration::from_secs(5)), ..user(name) };
    let proxy = Proxy::with(|settings| {
        let unavailable = StatusCode::SERVICE_UNAVAILABLE;
        let bob = User { pace_status: Some(unavailable), ..hasty("bob") };
        with_users(settings, [hasty("ada"), bob, user("eve")]);
        settings.agents.rules.push(AgentRule {
            max_wait: Some(Duration::from_secs(1)),
            pace_status: Some(StatusCode::FORBIDDEN),
            matches: Glob::new("*Hasty*"),
            token: None,
            mode: None,
            profile: None,
            deny_status: None,
            pace: None,
        });
    });
    let ask = |name: &str, agent: &str| {
        let fields = format!("{}User-Agent: {agent}\r\n", credentials(name));
        proxy.exchange("GET", &origin.url("/"), &fields).status()
    };
    assert_eq!(ask("eve", "Bot"), 200);
    for (name, agent, status) in [
        ("ada", "Bot", 429),
        ("bob", "Bot", 503),
        ("eve", "Hasty/1", 403),
        // What is set for a user comes first.
        ("bob", "Hasty/1", 503),
    ] {
        assert_eq!(ask(name, agent), status, "{name} {agent}");
    }
}
