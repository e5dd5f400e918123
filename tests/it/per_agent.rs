//! What one client's agent is told about a robots.txt decides for no other agent: an attacker that asks first,
//! or asks again, and a victim that comes after it.

use std::thread;
use std::time::Duration;

use courtesy::config::{FetchAs, ProfileName};

use crate::testkit::parties::{Origin, Proxy, Script, answer, until};

const HOUR: Duration = Duration::from_secs(60 * 60);
const RULES: &str = "User-agent: *\nDisallow: /private/\n";
/// The product token of [`crate::testkit::parties::AGENT`].
const VICTIM: &str = "ExampleBot";

/// A site that tells the agents with `token` something else than the rest.
fn site(token: &str, told: Script) -> Origin {
    Origin::with_robots(RULES).on(&format!("{token} /robots.txt"), told)
}

fn status(code: u16) -> Script {
    Script::default().send(answer(code, "", RULES))
}

fn to(place: &str) -> Script {
    Script::default().send(answer(302, &format!("Location: {place}\r\n"), ""))
}

/// GET as the agent that `field` names; the status of the answer.
fn get_as(proxy: &Proxy, field: &str, url: &str) -> u16 {
    proxy.exchange("GET", url, &format!("User-Agent: {field}\r\n")).status()
}

/// The victim gets what the file says, whatever the attacker was told.
#[track_caller]
fn assert_by_the_file(proxy: &Proxy, origin: &Origin, case: &str) {
    assert_eq!(proxy.get(&origin.url("/open")).status(), 200, "{case}: shut");
    let denied = proxy.get(&origin.url("/private/"));
    assert_eq!(
        (denied.status(), denied.reason().as_str()),
        (403, "disallow_rule"),
        "{case}: opened"
    );
}

/// The User-Agent of the attacker, and a site that takes it amiss.
fn attacks() -> Vec<(&'static str, String, Origin)> {
    let bot = "BadBot/1.0".to_owned();
    let circle = || site("BadBot", to("/1")).on("BadBot /1", to("/2")).on("BadBot /2", to("/1"));
    let far = (1..=6).fold(site("BadBot", to("/0")), |site, hop| {
        site.on(&format!("BadBot /{}", hop - 1), to(&format!("/{hop}")))
    });
    vec![
        (
            "a field of 9,000 bytes, 431",
            format!("{VICTIM}/1.0 {}", "a".repeat(9000)),
            site("long", status(431)),
        ),
        (
            "a field of 9,000 bytes, 400",
            format!("{VICTIM}/1.0 {}", "a".repeat(9000)),
            site("long", status(400)),
        ),
        ("a token of 9,000 bytes", "a".repeat(9000), site("long", status(431))),
        (
            "a token of 9,000 bytes in a comment",
            format!("Mozilla/5.0 (compatible; {}/1)", "a".repeat(9000)),
            { site("long", status(400)) },
        ),
        ("an agent that is refused", bot.clone(), site("BadBot", status(403))),
        ("an agent that is asked for a password", bot.clone(), site("BadBot", status(401))),
        ("an agent that is blocked by law", bot.clone(), site("BadBot", status(451))),
        ("an agent that is throttled", bot.clone(), site("BadBot", status(429))),
        ("an agent for which the site fails", bot.clone(), site("BadBot", status(503))),
        ("an agent that is led too far", bot.clone(), far),
        ("an agent that is led in a circle", bot.clone(), circle()),
        (
            "an agent that is led where the proxy does not go",
            bot.clone(),
            site("BadBot", to("ftp://x.example/")),
        ),
        ("an agent that is told a part", bot, site("BadBot", status(206))),
        (
            "the victim's name in another case",
            "EXAMPLEBOT/1.0".to_owned(),
            site("EXAMPLEBOT", status(403)),
        ),
        ("no name at all", "(none)".to_owned(), site("courtesy", status(403))),
        ("the proxy's own name", "courtesy/9".to_owned(), site("courtesy", status(429))),
    ]
}

#[test]
fn f29_who_asks_first_decides_for_no_other_agent() {
    for (case, attacker, origin) in attacks() {
        let proxy = Proxy::start();
        get_as(&proxy, &attacker, &origin.url("/private/"));
        assert_by_the_file(&proxy, &origin, case);
        // And the file that the victim has brought is for all, the attacker included.
        assert_eq!(get_as(&proxy, &attacker, &origin.url("/private/")), 403, "{case}");
        let fetches = origin.count("/robots.txt");
        assert!(fetches <= 2, "{case}: {fetches} fetches");
    }
}

#[test]
fn f29_nor_does_it_over_a_restart() {
    for (case, attacker, origin) in attacks() {
        let proxy = Proxy::start();
        get_as(&proxy, &attacker, &origin.url("/private/"));
        let proxy = proxy.restart(|_| {});
        assert_by_the_file(&proxy, &origin, case);
    }
}

#[test]
fn f29_nor_when_it_asks_in_the_last_tenth_of_a_copys_time() {
    for (case, attacker, origin) in attacks() {
        let proxy = Proxy::start();
        assert_by_the_file(&proxy, &origin, case);
        proxy.clock.advance(23 * HOUR);
        assert_eq!(
            get_as(&proxy, &attacker, &origin.url("/private/")),
            403,
            "{case}: the copy still serves"
        );
        until("it has been asked for again", || {
            proxy.stats().flights == 0 && origin.count("/robots.txt") > 1
        });
        assert_by_the_file(&proxy, &origin, case);
    }
}

#[test]
fn f29_nor_when_it_asks_for_what_has_run_out() {
    for (case, attacker, origin) in attacks() {
        let proxy = Proxy::start();
        assert_by_the_file(&proxy, &origin, case);
        proxy.clock.advance(25 * HOUR);
        get_as(&proxy, &attacker, &origin.url("/private/"));
        assert_by_the_file(&proxy, &origin, case);
    }
}

#[test]
fn f29_what_an_agent_is_told_holds_for_that_agent() {
    for (code, profile, expected) in [
        (403, ProfileName::Rfc9309, 200),
        (403, ProfileName::Conservative, 403),
        (418, ProfileName::Conservative, 403),
        (451, ProfileName::Conservative, 403),
        (404, ProfileName::Conservative, 200),
        (410, ProfileName::Conservative, 200),
        (429, ProfileName::Rfc9309, 403),
        (503, ProfileName::Rfc9309, 403),
    ] {
        let origin = site("BadBot", status(code));
        let proxy = Proxy::with(|settings| settings.robots.profile = profile);
        for _ in 0..3 {
            assert_eq!(get_as(&proxy, "BadBot/1.0", &origin.url("/open")), expected, "{code}");
            // Another version of it is the same agent.
            assert_eq!(
                get_as(&proxy, "BadBot/2.0 (+http://b.example)", &origin.url("/open")),
                expected,
                "{code}"
            );
        }
        assert_eq!(origin.count("/robots.txt"), 1, "{code}: it is remembered");
    }
}

#[test]
fn f29_a_record_says_whose_answer_it_rests_on() {
    let origin = site("BadBot", status(503));
    let proxy = Proxy::start();
    get_as(&proxy, "BadBot/1.0 <secret>", &origin.url("/private/"));
    proxy.get(&origin.url("/private/"));
    let records = proxy.records();
    assert_eq!(records[0]["robots"]["asked_as"], "BadBot courtesy");
    assert_eq!(records[1]["robots"].get("asked_as"), None, "the file is for all");
    let sent = format!("BadBot courtesy/{}", env!("CARGO_PKG_VERSION"));
    let fields: Vec<_> = {
        let log = origin.log();
        let fetches = log.requests.iter().filter(|request| request.path() == "/robots.txt");
        fetches.map(|request| request.field("user-agent").unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(fields, [sent.clone(), sent.replace("BadBot", VICTIM)]);
    let capture = records[0]["robots"]["failed_capture"].as_str().expect("there is one");
    let blob_store = courtesy::audit::evidence::BlobStore::of(&proxy.audit_dir());
    let kept =
        blob_store.get(courtesy::audit::evidence::Kind::Capture, capture).expect("it can be read");
    let courtesy::audit::evidence::Found::Content(kept) = kept else {
        panic!("{capture} is missing")
    };
    let kept: serde_json::Value = serde_json::from_slice(&kept).expect("a capture");
    assert_eq!(kept["user_agent"], sent);
}

#[test]
fn f29_a_text_that_is_set_is_sent_for_all_and_so_counts_for_all() {
    let origin = Origin::with_robots(RULES).on("Fetcher /robots.txt", status(429));
    let proxy =
        Proxy::with(|settings| settings.robots.fetch_as = FetchAs::Text("Fetcher/2".into()));
    assert_eq!(get_as(&proxy, "BadBot/1.0", &origin.url("/open")), 403);
    assert_eq!(proxy.get(&origin.url("/open")).status(), 403);
    assert_eq!(origin.count("/robots.txt"), 1);
}

#[test]
fn f29_a_flood_of_tokens_keeps_a_victim_neither_out_nor_waiting() {
    for code in [403, 429, 503] {
        let origin = Origin::start()
            .on("/robots.txt", status(code))
            .on(&format!("{VICTIM} /robots.txt"), Script::default().send(answer(200, "", RULES)));
        let proxy = Proxy::start();
        for number in 0..100 {
            get_as(&proxy, &format!("made-up-{number}/1"), &origin.url("/private/"));
        }
        let before = origin.count("/robots.txt");
        assert_by_the_file(&proxy, &origin, &format!("{code}"));
        assert_eq!(origin.count("/robots.txt"), before + 1, "{code}: the victim's own");
        // All of them are bound by the file now, and no more is asked.
        for number in 0..100 {
            assert_eq!(
                get_as(&proxy, &format!("made-up-{number}/1"), &origin.url("/private/")),
                403
            );
        }
        assert_eq!(origin.count("/robots.txt"), before + 1, "{code}");
    }
}

#[test]
fn f29_a_victim_waits_for_one_stranger_at_the_most() {
    let origin = Origin::start()
        .on("/robots.txt", Script::default().hold().send(answer(403, "", "")))
        .on("first /robots.txt", status(403))
        .on(&format!("{VICTIM} /robots.txt"), Script::default().send(answer(200, "", RULES)));
    let proxy = Proxy::start();
    // The site is known to tell agents apart, and twenty fetches for strangers hang.
    get_as(&proxy, "first/1", &origin.url("/"));
    let strangers: Vec<_> = (0..20)
        .map(|number| {
            let mut client = proxy.client();
            client.ask("GET", &origin.url("/"), &format!("User-Agent: made-up-{number}/1\r\n"));
            client
        })
        .collect();
    // Not more than there are slots at one origin for one client.
    until("fetches for strangers are under way", || proxy.stats().flights == 20);
    let victim = courtesy_client(&proxy);
    let mut victim = victim;
    assert_eq!(victim.get(&origin.url("/open")).status(), 200);
    assert_eq!(victim.get(&origin.url("/private/")).status(), 403);
    drop(strangers);
    origin.release();
    until("nothing is under way", || proxy.stats().flights == 0);
    assert_eq!(proxy.get(&origin.url("/private/")).status(), 403);
}

/// The victim is another client than the attacker.
fn courtesy_client(proxy: &Proxy) -> crate::testkit::parties::Client {
    crate::testkit::parties::Client::connect_from(
        std::net::Ipv4Addr::new(127, 0, 0, 77),
        proxy.address(),
    )
}

#[test]
fn f8_a_hundred_first_requests_of_ten_agents_cause_one_fetch() {
    let held = Script::default().hold().send(answer(200, "", RULES));
    let origin = Origin::start().on("/robots.txt", held);
    let proxy = Proxy::start();
    thread::scope(|scope| {
        let asking: Vec<_> = (0..100)
            .map(|number| {
                let (origin, proxy) = (&origin, &proxy);
                scope.spawn(move || {
                    get_as(proxy, &format!("agent-{}/1", number % 10), &origin.url("/private/"))
                })
            })
            .collect();
        until("all wait", || proxy.stats().waiters == 100);
        origin.release();
        for client in asking {
            assert_eq!(client.join().expect("an answer"), 403);
        }
    });
    assert_eq!(origin.count("/robots.txt"), 1);
}
