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
        // The attacker's own, the common copy, and the victim's.
        let fetches = origin.count("/robots.txt");
        assert!(fetches <= 3, "{case}: {fetches} fetches");
    }
}

#[test]
fn f29_one_agents_answer_decides_for_no_other_after_a_restart() {
    for (case, attacker, origin) in attacks() {
        let proxy = Proxy::start();
        get_as(&proxy, &attacker, &origin.url("/private/"));
        let proxy = proxy.restart(|_| {});
        assert_by_the_file(&proxy, &origin, case);
    }
}

#[test]
fn f29_an_agents_refresh_of_a_copy_near_its_end_decides_for_no_other() {
    for (case, attacker, origin) in attacks() {
        let proxy = Proxy::start();
        assert_by_the_file(&proxy, &origin, case);
        proxy.clock.advance(23 * HOUR);
        get_as(&proxy, &attacker, &origin.url("/private/"));
        until("it has been asked for again", || {
            proxy.stats().flights == 0 && origin.count("/robots.txt") > 1
        });
        assert_by_the_file(&proxy, &origin, case);
    }
}

#[test]
fn f29_an_agents_refresh_of_an_expired_copy_decides_for_no_other() {
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
    assert_eq!(records[1]["robots"].get("asked_as"), None, "the common copy");
    let sent = format!("BadBot courtesy/{}", env!("CARGO_PKG_VERSION"));
    let fields: Vec<_> = {
        let log = origin.log();
        let fetches = log.requests.iter().filter(|request| request.path() == "/robots.txt");
        fetches.map(|request| request.field("user-agent").unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(fields, [sent.clone(), sent.replace("BadBot ", "")]);
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
    for (code, most) in [(403, 101), (429, 2), (503, 2)] {
        let origin = Origin::start()
            .on("/robots.txt", status(code))
            .on(&format!("{VICTIM} /robots.txt"), Script::default().send(answer(200, "", RULES)));
        let proxy = Proxy::start();
        for number in 0..100 {
            get_as(&proxy, &format!("made-up-{number}/1"), &origin.url("/private/"));
        }
        let before = origin.count("/robots.txt");
        assert!(before <= most, "{code}: {before} fetches: they share one back-off");
        let mut victim = courtesy_client(&proxy);
        assert_eq!(victim.get(&origin.url("/open")).status(), 200, "{code}: shut");
        assert_eq!(victim.get(&origin.url("/private/")).status(), 403, "{code}: opened");
        assert_eq!(origin.count("/robots.txt"), before + 1, "{code}: the victim's own");
    }
}

#[test]
fn f29_a_victim_waits_for_no_stranger() {
    let origin = Origin::start()
        .on("/robots.txt", Script::default().hold().send(answer(403, "", "")))
        .on("first /robots.txt", status(403))
        .on(&format!("{VICTIM} /robots.txt"), Script::default().send(answer(200, "", RULES)));
    let proxy = Proxy::start();
    // The site is known to tell agents apart, and holds up the common copy as it does strangers.
    get_as(&proxy, "first/1", &origin.url("/"));
    let strangers: Vec<_> = (0..20)
        .map(|number| {
            let mut client = proxy.client();
            client.ask("GET", &origin.url("/"), &format!("User-Agent: made-up-{number}/1\r\n"));
            client
        })
        .collect();
    until("strangers wait", || proxy.stats().waiters == 20);
    let mut victim = courtesy_client(&proxy);
    assert_eq!(victim.get(&origin.url("/open")).status(), 200);
    assert_eq!(victim.get(&origin.url("/private/")).status(), 403);
    drop(strangers);
    origin.release();
    until("nothing is under way", || proxy.stats().flights == 0);
    assert_eq!(proxy.get(&origin.url("/private/")).status(), 403);
}

/// A WAF that shows one agent a page, with 200.
#[test]
fn f29_a_page_for_one_agent_is_the_file_of_no_other() {
    const PAGE: &str = "<!doctype html>\n<title>Are you human?</title>\n";
    for media_type in ["text/html; charset=utf-8", "text/plain"] {
        let field = format!("Content-Type: {media_type}\r\n");
        let page = Script::default().send(answer(200, &field, PAGE));
        let origin = site("BadBot", page);
        let proxy = Proxy::start();
        // Nothing else is known: what came is read, and has no rules.
        assert_eq!(get_as(&proxy, "BadBot/1.0", &origin.url("/private/1")), 200);
        let mut victim = courtesy_client(&proxy);
        for path in ["/private/1", "/private/2", "/private/3"] {
            assert_eq!(victim.get(&origin.url(path)).status(), 403, "{media_type}");
        }
        // There is a file now: the page takes the place of no good copy.
        assert_eq!(get_as(&proxy, "BadBot/1.0", &origin.url("/private/1")), 403);
        let proxy = proxy.restart(|_| {});
        for _ in 0..3 {
            assert_by_the_file(&proxy, &origin, media_type);
            assert_eq!(get_as(&proxy, "BadBot/1.0", &origin.url("/private/1")), 403);
            proxy.clock.advance(23 * HOUR);
        }
        // A page that is read as the file is marked.
        let everybody = Origin::start().on(
            "/robots.txt",
            Script::default().send(answer(
                200,
                &field,
                [PAGE, "User-agent: *\nDisallow: /\n"].concat(),
            )),
        );
        assert_eq!(proxy.get(&everybody.url("/")).status(), 403);
        let record = proxy.records().pop().expect("a record");
        assert_eq!(record["robots"]["result"], "not_robots_txt", "{record:#}");
    }
}

/// RFC 9111 §4.1.
#[test]
fn f29_vary_on_the_user_agent_makes_a_file_for_each_agent() {
    for (vary, fetches) in [
        ("User-Agent", 3),
        ("Accept-Encoding, user-agent", 3),
        ("*", 3),
        ("Accept-Encoding", 2),
        ("", 2),
    ] {
        let field = if vary.is_empty() { String::new() } else { format!("Vary: {vary}\r\n") };
        let file = Script::default().send(answer(200, &field, RULES));
        let origin = Origin::start().on("/robots.txt", file);
        let proxy = Proxy::start();
        for _ in 0..2 {
            for agent in ["OneBot", "OtherBot"] {
                assert_eq!(get_as(&proxy, agent, &origin.url("/private/")), 403);
            }
        }
        assert_eq!(origin.count("/robots.txt"), fetches, "Vary: {vary}");
    }
    // A redirect to the file that depends on the agent says the same.
    let to = Script::default().send(answer(302, "Location: /rules\r\nVary: User-Agent\r\n", ""));
    let origin = Origin::start()
        .on("/robots.txt", to)
        .on("/rules", Script::default().send(answer(200, "", RULES)));
    let proxy = Proxy::start();
    for agent in ["OneBot", "OtherBot", "Third"] {
        assert_eq!(get_as(&proxy, agent, &origin.url("/private/")), 403);
    }
    assert_eq!(origin.count("/rules"), 4);
}

#[test]
fn f29_each_agent_is_shown_the_copy_that_decides_for_it() {
    let other = "User-agent: *\nDisallow: /other/\n";
    let origin = site("OtherBot", Script::default().send(answer(200, "", other)));
    let proxy = Proxy::start();
    let shown = |agent: &str| {
        let field = format!("User-Agent: {agent}/1.0\r\n");
        proxy.exchange("GET", &origin.url("/robots.txt"), &field).text()
    };
    for _ in 0..2 {
        assert_eq!(shown("OtherBot"), other);
        assert_eq!(shown("OneBot"), RULES);
        assert_eq!(get_as(&proxy, "OtherBot", &origin.url("/other/")), 403);
        assert_eq!(get_as(&proxy, "OneBot", &origin.url("/other/")), 200);
    }
    let records = proxy.records();
    assert_eq!(records[0]["robots"]["asked_as"], "OtherBot courtesy");
    let digest = courtesy::types::sanitize::hex(&<sha2::Sha256 as sha2::Digest>::digest(other));
    assert_eq!(records[0]["robots"]["sha256"], digest);
}

/// A hold that one agent is told for its robots.txt is of that agent.
#[test]
fn f29_the_rest_of_one_agent_is_no_others() {
    for fields in ["Retry-After: 60\r\n", "RateLimit: \"a\";r=0;t=60\r\n"] {
        for code in [429, 503] {
            let origin = site("BadBot", Script::default().send(answer(code, fields, "")));
            let proxy = Proxy::start();
            get_as(&proxy, "BadBot/1.0", &origin.url("/open"));
            assert_by_the_file(&proxy, &origin, fields);
            // One that goes by a copy is held.
            let origin = Origin::with_robots(RULES);
            assert_eq!(get_as(&proxy, "BadBot/1.0", &origin.url("/open")), 200);
            let origin =
                origin.on("BadBot /robots.txt", Script::default().send(answer(code, fields, "")));
            proxy.clock.advance(25 * HOUR);
            let own = get_as(&proxy, "BadBot/1.0", &origin.url("/open"));
            let expected = if fields.starts_with("Retry") { code } else { 200 };
            assert_eq!(own, expected, "{fields}");
            assert_by_the_file(&proxy, &origin, fields);
        }
    }
    // What this program alone is told holds for all.
    let rest = Script::default().send(answer(429, "Retry-After: 3600\r\n", ""));
    let origin = Origin::with_robots(RULES).on("courtesy /robots.txt", rest);
    let proxy = Proxy::start();
    assert_eq!(get_as(&proxy, "OneBot", &origin.url("/open")), 200);
    assert_ne!(get_as(&proxy, "OtherBot", &origin.url("/open")), 200);
    assert_eq!(get_as(&proxy, "OneBot", &origin.url("/open")), 429);
}

/// The victim is another client than the attacker.
fn courtesy_client(proxy: &Proxy) -> crate::testkit::parties::Client {
    crate::testkit::parties::Client::connect_from(
        std::net::Ipv4Addr::new(127, 0, 0, 77),
        proxy.address(),
    )
}

#[test]
fn f8_a_hundred_first_requests_of_ten_agents_cause_two_fetches() {
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
    assert_eq!(origin.count("/robots.txt"), 2, "the first agent's, and the common copy");
}
