//! RFC 9309 §2.3.1: what the fetch of a robots.txt ends in, and what follows from it for every other
//! URL of the origin. Each case is an origin of its own; what it answers for `/robots.txt` differs.

use std::io::Write;
use std::time::Duration;

use courtesy::config::ProfileName;
use courtesy::runtime::clock::monotonic;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::testkit::parties::{Client, Origin, Proxy, Script, answer, ok, ok_with, refusing};

/// A file by which `/no` is disallowed and everything else is not.
const RULES: &str = "User-agent: *\nDisallow: /no\n";

/// What is made of an access result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// `/no` is denied by its rule, and nothing else.
    Rules,
    /// Everything is allowed.
    Unavailable,
    /// Everything is denied, because robots.txt cannot be had.
    Unreachable,
    /// Everything is denied, because access to robots.txt is denied.
    AccessDenied,
}

use Verdict::{AccessDenied, Rules, Unavailable, Unreachable};

/// Asks for two URLs of the origin `base`.
#[track_caller]
fn verdict(client: &mut Client, base: &str) -> Verdict {
    let mut told = |path: &str| {
        let response = client.get(&format!("{base}{path}"));
        match response.status() {
            200 => "allowed".to_owned(),
            403 => response.reason(),
            other => panic!("{other} for {base}{path}: {}", response.text()),
        }
    };
    let (yes, no) = (told("/yes"), told("/no"));
    match (yes.as_str(), no.as_str()) {
        ("allowed", "disallow_rule") => Rules,
        ("allowed", "allowed") => Unavailable,
        ("robots_unreachable", "robots_unreachable") => Unreachable,
        ("robots_access_denied", "robots_access_denied") => AccessDenied,
        _ => panic!("{base}: {yes}, {no}"),
    }
}

/// Runs each case at an origin of its own, over one proxy.
#[track_caller]
fn check(cases: impl IntoIterator<Item = (String, Script, Verdict)>) {
    let cases: Vec<_> = cases.into_iter().collect();
    let mut origin = Origin::start();
    for (number, (_, script, _)) in cases.iter().enumerate() {
        origin = origin.on(&format!("o{number}/robots.txt"), script.clone());
    }
    let proxy = Proxy::start();
    let mut client = proxy.client();
    for (number, (name, _, expected)) in cases.iter().enumerate() {
        let found = verdict(&mut client, &origin.named(&format!("o{number}"), ""));
        assert_eq!(found, *expected, "{name}");
    }
    assert_eq!(origin.count("/robots.txt"), cases.len(), "one fetch for each");
    let reached = origin.count("/yes") + origin.count("/no");
    let passed = |verdict: &Verdict| match verdict {
        Rules => 1,
        Unavailable => 2,
        Unreachable | AccessDenied => 0,
    };
    assert_eq!(reached, cases.iter().map(|(_, _, verdict)| passed(verdict)).sum::<usize>());
}

fn raw(bytes: impl AsRef<[u8]>) -> Script {
    Script::default().send(bytes)
}

fn status(code: u16, fields: &str) -> Script {
    let body = if matches!(code, 204 | 304) { "" } else { RULES };
    let bytes = answer(code, fields, body);
    match code {
        // Interim: a final answer follows, but for the 101 that nobody asked for.
        100 | 102..=199 => {
            raw(format!("HTTP/1.1 {code} Interim\r\n{fields}\r\n")).send(answer(200, "", RULES))
        }
        101 => raw(format!("HTTP/1.1 101 Switching Protocols\r\n{fields}\r\n")),
        204 | 304 => raw(format!("HTTP/1.1 {code} Bodiless\r\n{fields}\r\n")),
        _ => raw(bytes),
    }
}

#[test]
fn every_status_means_what_the_table_of_rfc_9309_says() {
    check((100..=599).map(|code| {
        let expected = match code {
            101 => Unreachable,
            100..=199 => Rules,
            204 => Unavailable,
            206 => Unreachable,
            200..=299 => Rules,
            300..=399 => Unreachable,
            429 => Unreachable,
            400..=499 => Unavailable,
            _ => Unreachable,
        };
        (code.to_string(), status(code, ""), expected)
    }));
}

#[test]
fn the_redirects_are_followed_and_no_other_status_with_a_location() {
    let codes: Vec<u16> = (200..=599).collect();
    let mut origin = Origin::start().on("/elsewhere", ok(RULES));
    for code in &codes {
        origin =
            origin.on(&format!("s{code}/robots.txt"), status(*code, "Location: /elsewhere\r\n"));
    }
    let proxy = Proxy::start();
    let mut client = proxy.client();
    for code in codes {
        let expected = match code {
            301 | 302 | 303 | 307 | 308 => Rules,
            204 => Unavailable,
            206 => Unreachable,
            200..=299 => Rules,
            429 => Unreachable,
            400..=499 => Unavailable,
            _ => Unreachable,
        };
        assert_eq!(
            verdict(&mut client, &origin.named(&format!("s{code}"), "")),
            expected,
            "{code}"
        );
    }
    assert_eq!(origin.count("/elsewhere"), 5);
}

#[test]
fn other_profiles_take_some_statuses_otherwise() {
    for (profile, cases) in [
        (
            ProfileName::Koster1996,
            [
                (401, AccessDenied),
                (403, AccessDenied),
                (404, Unavailable),
                (418, Unreachable),
                (500, Unreachable),
            ],
        ),
        (
            ProfileName::Google,
            [
                (401, Unavailable),
                (403, Unavailable),
                (404, Unavailable),
                (429, Unreachable),
                (503, Unreachable),
            ],
        ),
        (
            ProfileName::Google2019,
            [
                (401, Unavailable),
                (404, Unavailable),
                (418, Unavailable),
                (429, Unavailable),
                (503, Unreachable),
            ],
        ),
        (
            ProfileName::Conservative,
            [
                (401, AccessDenied),
                (403, AccessDenied),
                (404, Unavailable),
                (429, Unreachable),
                (200, Rules),
            ],
        ),
        (
            ProfileName::Archival,
            [
                (401, Unavailable),
                (404, Unavailable),
                (429, Unavailable),
                (503, Unavailable),
                (200, Rules),
            ],
        ),
    ] {
        let mut origin = Origin::start();
        for (code, _) in cases {
            origin = origin.on(&format!("s{code}/robots.txt"), status(code, ""));
        }
        let proxy = Proxy::with(|settings| settings.robots.profile = profile);
        let mut client = proxy.client();
        for (code, expected) in cases {
            let found = verdict(&mut client, &origin.named(&format!("s{code}"), ""));
            assert_eq!(found, expected, "{code} under {profile}");
        }
    }
}

#[test]
fn an_empty_file_has_no_rules() {
    check([
        ("length 0".into(), raw(answer(200, "", "")), Unavailable),
        ("nothing before the end".into(), raw("HTTP/1.1 200 OK\r\n\r\n").close(), Unavailable),
        (
            "no chunks".into(),
            raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
            Unavailable,
        ),
    ]);
}

#[test]
fn f6_a_file_may_come_in_any_framing() {
    let chunked = format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nU\r\n{:x};x=y\r\n{}\r\n0\r\nX: y\r\n\r\n",
        RULES.len() - 1,
        &RULES[1..]
    );
    check([
        (
            "HTTP/1.0, to the end".into(),
            raw(format!("HTTP/1.0 200 OK\r\n\r\n{RULES}")).close(),
            Rules,
        ),
        (
            "HTTP/1.1, to the end".into(),
            raw(format!("HTTP/1.1 200 OK\r\n\r\n{RULES}")).close(),
            Rules,
        ),
        ("chunked".into(), raw(chunked), Rules),
        (
            "byte by byte".into(),
            Script::default().drip(answer(200, "", RULES), Duration::ZERO),
            Rules,
        ),
        (
            "a page of HTML is a file without rules".into(),
            ok_with("Content-Type: text/html\r\n", "<html>"),
            Unavailable,
        ),
        ("the type does not count".into(), ok_with("Content-Type: image/png\r\n", RULES), Rules),
        ("gzip".into(), ok_with("Content-Encoding: gzip\r\n", gzip(RULES)), Rules),
        (
            "after interim answers".into(),
            raw("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n")
                .send(answer(200, "", RULES)),
            Rules,
        ),
    ]);
}

#[test]
fn an_origin_that_cannot_be_reached_is_denied() {
    let (_held, refusing) = refusing();
    let origin = Origin::start();
    let proxy =
        Proxy::with(|settings| settings.egress.connect_timeout = Duration::from_millis(300));
    let mut client = proxy.client();
    for base in [
        format!("http://{refusing}"),
        "http://no-such-name.invalid".to_owned(),
        // Waits for a request, and never says a word of TLS.
        format!("https://{}", origin.address()),
    ] {
        assert_eq!(verdict(&mut client, &base), Unreachable, "{base}");
    }
    assert_eq!(origin.request_lines(), Vec::<String>::new());
}

#[test]
fn f6_an_answer_that_is_no_http_is_unreachable() {
    let head = "HTTP/1.1 200 OK\r\n";
    let long_field = format!("{head}X: {}\r\n\r\n", "x".repeat(200_000));
    let many_fields = format!("{head}{}\r\n", "X: y\r\n".repeat(2000));
    let cases = [
        ("closed before anything", Script::default().close()),
        ("reset before anything", Script::default().reset()),
        ("closed in the head", raw("HTTP/1.1 200 OK\r\nContent-").close()),
        ("reset in the body", raw(format!("{head}Content-Length: 100\r\n\r\n{RULES}")).reset()),
        ("reset in a body without length", raw(format!("{head}\r\n{RULES}")).reset()),
        (
            "a longer length than there is",
            raw(format!("{head}Content-Length: 1000\r\n\r\n{RULES}")).close(),
        ),
        (
            "a length that is no number",
            raw(format!("{head}Content-Length: x\r\n\r\n{RULES}")).close(),
        ),
        ("a negative length", raw(format!("{head}Content-Length: -1\r\n\r\n{RULES}")).close()),
        (
            "two lengths",
            raw(format!("{head}Content-Length: 1\r\nContent-Length: 29\r\n\r\n{RULES}")).close(),
        ),
        (
            "no chunk size",
            raw(format!("{head}Transfer-Encoding: chunked\r\n\r\nzz\r\n{RULES}\r\n0\r\n\r\n"))
                .close(),
        ),
        (
            "too large a chunk size",
            raw(format!(
                "{head}Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n{RULES}\r\n0\r\n\r\n"
            ))
            .close(),
        ),
        (
            "a chunk without its end",
            raw(format!("{head}Transfer-Encoding: chunked\r\n\r\n5\r\n{RULES}\r\n0\r\n\r\n"))
                .close(),
        ),
        (
            "no last chunk",
            raw(format!(
                "{head}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{RULES}\r\n",
                RULES.len()
            ))
            .close(),
        ),
        ("garbage", raw(b"\x00\xff\x16garbage\r\n\r\n").close()),
        ("no status", raw("HTTP/1.1 OK\r\n\r\n").close()),
        ("HTTP/0.9", raw(RULES).close()),
        ("too long a field", raw(long_field)),
        ("too many fields", raw(many_fields)),
        ("half of a gzip", ok_with("Content-Encoding: gzip\r\n", &gzip(RULES)[..25])),
        (
            "a gzip without its checksum",
            ok_with("Content-Encoding: gzip\r\n", {
                let gz = gzip(RULES);
                gz[..gz.len() - 8].to_vec()
            }),
        ),
        ("a coding that was not asked for", ok_with("Content-Encoding: br\r\n", RULES)),
        ("gzip twice", ok_with("Content-Encoding: gzip, gzip\r\n", gzip(gzip(RULES)))),
    ];
    check(cases.map(|(name, script)| (name.to_owned(), script, Unreachable)));
}

/// A broken file must not be taken for a shorter one: that would widen access.
#[test]
fn f5_a_file_that_breaks_off_at_any_byte_allows_nothing() {
    let with_length = answer(200, "Content-Type: text/plain\r\n", RULES);
    let chunked = format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{}\r\n{:x}\r\n{}\r\n0\r\n\r\n",
        &RULES[..9],
        RULES.len() - 9,
        &RULES[9..]
    )
    .into_bytes();
    let gzipped = answer(200, "Content-Encoding: gzip\r\n", gzip(RULES));
    let mut cases = Vec::new();
    for (framing, whole) in [("length", with_length), ("chunked", chunked), ("gzip", gzipped)] {
        for cut in 0..whole.len() {
            cases.push((
                format!("{framing} closed after {cut}"),
                raw(&whole[..cut]).close(),
                Unreachable,
            ));
            cases.push((
                format!("{framing} reset after {cut}"),
                raw(&whole[..cut]).reset(),
                Unreachable,
            ));
        }
        cases.push((format!("{framing} whole"), raw(&whole).close(), Rules));
    }
    check(cases);
}

#[test]
fn f1_a_file_that_comes_too_slowly_is_unreachable_by_the_deadline() {
    let pause = Duration::from_millis(20);
    let long = format!("{RULES}{}", "#\n".repeat(1000));
    for (name, script) in [
        (
            "a dripping body",
            raw(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", long.len()))
                .drip(&long, pause),
        ),
        (
            "a dripping head",
            Script::default().drip(answer(200, &"X: y\r\n".repeat(90), RULES), pause),
        ),
        ("nothing at all", Script::default().hold()),
        ("nothing after the head", raw("HTTP/1.1 200 OK\r\nContent-Length: 29\r\n\r\n").hold()),
        (
            "interim answers without end",
            Script::default().drip("HTTP/1.1 102 Processing\r\n\r\n".repeat(100), pause),
        ),
        (
            "chunks without end",
            raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                .drip("1\r\n#\r\n".repeat(1000), pause),
        ),
    ] {
        let origin = Origin::start().on("/robots.txt", script);
        let proxy =
            Proxy::with(|settings| settings.robots.fetch_timeout = Duration::from_millis(300));
        let begin = monotonic();
        let response = proxy.get(&origin.url("/yes"));
        assert_eq!(
            (response.status(), response.reason().as_str()),
            (403, "robots_unreachable"),
            "{name}"
        );
        let took = begin.elapsed();
        assert!(
            took >= Duration::from_millis(300) && took < Duration::from_millis(1800),
            "{name}: {took:?}"
        );
        origin.wait_until("the proxy has left", |log| log.abandoned == 1);
        assert_eq!(origin.request_lines(), ["GET /robots.txt"], "{name}");
    }
}

#[test]
fn f4_a_chain_of_slow_redirects_has_one_deadline() {
    let slow = |to: &str| {
        Script::default()
            .drip(answer(302, &format!("Location: {to}\r\n"), ""), Duration::from_millis(3))
    };
    let origin = Origin::start()
        .on("/robots.txt", slow("/1"))
        .on("/1", slow("/2"))
        .on("/2", slow("/3"))
        .on("/3", slow("/4"))
        .on("/4", slow("/5"))
        .on("/5", ok(RULES));
    let proxy = Proxy::with(|settings| settings.robots.fetch_timeout = Duration::from_millis(400));
    let response = proxy.get(&origin.url("/yes"));
    assert_eq!(response.reason(), "robots_unreachable");
    assert_eq!(origin.count("/5"), 0);
}

/// RFC 9309 §2.5: at least 500 KiB are read; the rest is not even downloaded.
#[test]
fn f2_a_file_without_end_costs_its_first_part_only() {
    let begin = format!("{RULES}#");
    let comment = vec![b'x'; 64 * 1024];
    let chunk = [format!("{:x}\r\n", comment.len()).as_bytes(), &comment, b"\r\n"].concat();
    let chunked = format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{begin}\r\n",
        begin.len()
    );
    for (name, script) in [
        (
            "of 100 MB",
            raw(format!("HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n{begin}"))
                .endless(&comment),
        ),
        ("without length", raw(format!("HTTP/1.1 200 OK\r\n\r\n{begin}")).endless(&comment)),
        ("in chunks", raw(chunked).endless(chunk)),
    ] {
        let origin = Origin::start().on("/robots.txt", script);
        let proxy = Proxy::start();
        assert_eq!(verdict(&mut proxy.client(), &origin.url("")), Rules, "{name}");
        origin.wait_until("the proxy has left", |log| log.abandoned == 1);
        // What the sockets between them hold is beyond the proxy's reach.
        let sent = origin.log().sent;
        assert!((500 * 1024..16 << 20).contains(&sent), "{name}: {sent} bytes were sent");
        assert!(proxy.stats().bytes < 2 << 20, "{name}: {:?}", proxy.stats());
    }
}

#[test]
fn f3_a_file_that_unfolds_without_end_costs_its_first_part_only() {
    // Members of a gzip file follow each other (RFC 1952 §2.2): 256 MiB of comment in all.
    let bomb = [gzip(RULES), gzip(vec![b'#'; 1 << 20]).repeat(256)].concat();
    assert!(bomb.len() < 500 * 1024, "it is within the limit as it comes");
    let origin = Origin::start().on("/robots.txt", ok_with("Content-Encoding: gzip\r\n", bomb));
    let proxy = Proxy::start();
    assert_eq!(verdict(&mut proxy.client(), &origin.url("")), Rules);
    assert!(proxy.stats().bytes < 2 << 20, "{:?}", proxy.stats());
}

#[test]
fn the_line_that_the_limit_cuts_is_no_rule() {
    let head = "User-agent: *\nDisallow: /no\n#";
    let fill = 500 * 1024 - head.len() - "\nDisallow: /".len();
    let file = format!("{head}{}\nDisallow: /yes\n", "x".repeat(fill));
    let origin = Origin::with_robots(&file);
    assert_eq!(
        verdict(&mut Proxy::start().client(), &origin.url("")),
        Rules,
        "\"Disallow: /\" is a torn line"
    );
}

fn gzip(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes.as_ref()).expect("memory");
    encoder.finish().expect("memory")
}

fn to(location: &str) -> Script {
    raw(answer(301, &format!("Location: {location}\r\n"), ""))
}

/// RFC 9309 §2.3.1.2: at least five, even across authorities; more may be taken as unavailable.
#[test]
fn f4_five_redirects_are_followed_and_the_sixth_is_not() {
    let origin = Origin::start()
        .on("five/robots.txt", to("/1"))
        .on("six/robots.txt", to("/0"))
        .on("/0", to("1"))
        .on("/1", to("2?x=y"))
        .on("/2?x=y", to("/3"))
        .on("/3", to("./4"))
        .on("/4", to("/5"))
        .on("/5", ok(RULES));
    let proxy = Proxy::start();
    let mut client = proxy.client();
    assert_eq!(verdict(&mut client, &origin.named("five", "")), Rules);
    assert_eq!(origin.count("/5"), 1);
    assert_eq!(verdict(&mut client, &origin.named("six", "")), Unavailable);
    assert_eq!(origin.count("/5"), 1);
}

#[test]
fn rules_found_across_authorities_are_those_of_the_first() {
    let second = Origin::with_robots("User-agent: *\nDisallow: /\n").on("/shared.txt", ok(RULES));
    let first = Origin::start().on("/robots.txt", to(&second.url("/shared.txt")));
    let proxy = Proxy::start();
    let mut client = proxy.client();
    assert_eq!(verdict(&mut client, &first.url("")), Rules);
    assert_eq!(second.request_lines(), ["GET /shared.txt"]);
    let fetch = second.received("/shared.txt");
    assert_eq!(fetch.field("host"), Some(second.address().to_string().as_str()));
    assert_eq!(client.get(&second.url("/yes")).reason(), "disallow_rule", "the second has its own");

    let denied = client.get(&first.url("/no")).json();
    assert_eq!(denied["robots"]["url"], first.url("/robots.txt"));
    assert_eq!(denied["robots"]["url_reached"], second.url("/shared.txt"));
}

#[test]
fn f4_algorithm_4_redirects_that_cannot_be_followed_are_unreachable() {
    let bystander = Origin::start();
    let proxy = Proxy::with(|settings| {
        settings.egress.deny = vec!["127.0.0.2/32".parse().expect("a block")];
    });
    let own = format!("http://{}/robots.txt", proxy.address());
    let denied = format!("http://127.0.0.2:{}/", bystander.address().port());
    let port = bystander.address().port();
    let locations = [
        "/robots.txt",
        "http://10.0.0.1/robots.txt",
        "http://169.254.169.254/latest/meta-data/",
        "http://[fd00::1]/",
        &denied,
        &own,
        "ftp://ftp.example/robots.txt",
        "file:///etc/passwd",
        "gopher://x/",
        "data:,User-agent:*",
        "javascript:0",
        "ws://127.0.0.1/",
        "mailto:robots@127.0.0.1",
        "jar:http://127.0.0.1/!/",
        "http://",
        "http://user@127.0.0.1/",
        &format!("http://0x7f000001:{port}/"),
        &format!("http://127.1:{port}/"),
        &format!("http:\\\\127.0.0.1:{port}\\"),
        "http://127.0.0.1:99999/",
        "http://no-such-name.invalid/",
    ];
    let mut origin = Origin::start()
        .on("none/robots.txt", raw(answer(301, "", "")))
        .on("empty/robots.txt", to(""))
        .on("circle/robots.txt", to("/a"))
        .on("/a", to("/b"))
        .on("/b", to("/robots.txt"));
    for (number, location) in locations.iter().enumerate() {
        origin = origin.on(&format!("l{number}/robots.txt"), to(location));
    }
    let mut client = proxy.client();
    for name in ["none", "empty", "circle"] {
        assert_eq!(verdict(&mut client, &origin.named(name, "")), Unreachable, "{name}");
    }
    for (number, location) in locations.iter().enumerate() {
        let found = verdict(&mut client, &origin.named(&format!("l{number}"), ""));
        assert_eq!(found, Unreachable, "{location}");
    }
    assert_eq!(bystander.log().connections, 0);
}

#[test]
fn f4_a_redirect_back_to_the_start_by_another_spelling_is_a_circle_too() {
    let origin = Origin::start();
    let spelt = format!("http://LOCALHOST:{}/x/../robots.txt", origin.address().port());
    let origin = origin.on("/robots.txt", to(&spelt));
    let base = format!("http://localhost:{}", origin.address().port());
    let proxy = Proxy::start();
    assert_eq!(verdict(&mut proxy.client(), &base), Unreachable);
    assert_eq!(origin.count("/robots.txt"), 1);
}
