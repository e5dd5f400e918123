//! Who gets in, from where, and what every response has.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

use sha2::{Digest, Sha256};

use crate::audit_cli::support::{Log, record};
use crate::console::support::{Answer, Console, between, cookie};

/// Of every page.
const PAGES: [&str; 17] = [
    "/",
    "/records",
    "/records?limit=2",
    "/record?seq=1",
    "/record?seq=99",
    "/record/line?seq=1",
    "/file?sha256=0000000000000000000000000000000000000000000000000000000000000000",
    "/file/raw?sha256=0000000000000000000000000000000000000000000000000000000000000000",
    "/sites",
    "/site?origin=https://www1.example.com",
    "/exemptions",
    "/unknown",
    "/ask?url=https://www1.example.com/private/1",
    "/report",
    "/help",
    "/login",
    "/nothing",
];

fn log() -> Log {
    let mut log = Log::new();
    log.write((0..6).map(record));
    log
}

#[test]
fn a_link_opens_in_one_browser_once_and_until_it_logs_out() {
    let log = log();
    let console = Console::over(&[log.dir.path()]);
    let other = Console::opened(&[log.dir.path()]);
    for page in PAGES.iter().filter(|page| **page != "/login") {
        for cookie in [
            None,
            Some(format!("courtesy-{}=", console.port)),
            Some(format!("courtesy-{}={}", console.port, "0".repeat(64))),
            Some(format!("courtesy-{}={}", console.port, console.code)),
            Some(other.session().to_owned()),
            Some(other.session().replace(&other.port.to_string(), &console.port.to_string())),
        ] {
            let fields: Vec<_> = cookie.iter().map(|cookie| ("Cookie", cookie.as_str())).collect();
            let answer = console.ask("GET", page, &fields, "");
            assert_eq!(answer.status, 401, "{page} {cookie:?}");
            // The form has the address that was asked for, to go on to.
            let text = answer.text();
            let shown = text.split("name=\"next\"").next().unwrap();
            assert!(!shown.contains("example.com"), "{page} {cookie:?}");
        }
    }
    // A preview of the link does not spend it.
    let shown = console.ask("GET", &format!("/login?code={}", console.code), &[], "");
    assert_eq!((shown.status, shown.field("set-cookie")), (200, None));
    assert_eq!(console.log_in(&other.code).status, 403);
    let answer = console.log_in(&console.code);
    assert_eq!((answer.status, answer.field("location")), (303, Some("/")));
    let set = answer.field("set-cookie").unwrap();
    assert!(set.ends_with("; HttpOnly; SameSite=Lax; Path=/"), "{set}");
    let session = cookie(&answer);
    assert_eq!(console.ask("GET", "/records", &[("Cookie", &session)], "").status, 200);
    let again = console.log_in(&console.code);
    assert_eq!((again.status, again.field("set-cookie")), (403, None));
    let fields = [("Cookie", session.as_str()), ("Sec-Fetch-Site", "same-origin")];
    let out = console.ask("POST", "/logout", &fields, "");
    assert_eq!((out.status, out.field("location")), (303, Some("/login")));
    assert!(out.field("set-cookie").unwrap().contains("Max-Age=0"));
    assert_eq!(console.ask("GET", "/records", &[("Cookie", &session)], "").status, 401);
}

#[test]
fn wrong_codes_shut_nobody_out() {
    let log = log();
    let console = Console::over(&[log.dir.path()]);
    for number in 0..50 {
        assert_eq!(console.log_in(&format!("{number:064x}")).status, 403);
    }
    assert_eq!(console.log_in(&console.code).status, 303);
}

#[test]
fn another_name_of_this_machine_is_refused() {
    let log = log();
    let console = Console::opened(&[log.dir.path()]);
    let port = console.port;
    let own = ("Cookie", console.session());
    for (host, status) in [
        (format!("courtesy.localhost:{port}"), 200),
        (format!("localhost:{port}"), 200),
        (format!("127.0.0.1:{port}"), 200),
        (format!("[::1]:{port}"), 200),
        (format!("localhost.evil.example:{port}"), 421),
        (format!("evil.example:{port}"), 421),
        (format!("[fe80::1%25lo]:{port}"), 421),
        // The port is another where it is forwarded.
        ("localhost".into(), 200),
        (format!("localhost:{}", port ^ 1), 200),
        (String::new(), 421),
    ] {
        let answer = console.ask("GET", "/help", &[own, ("Host", &host)], "");
        assert_eq!(answer.status, status, "{host}");
        // Nor is a code taken under it.
        if status == 421 {
            let origin = format!("http://{host}");
            let fields = [("Host", host.as_str()), ("Origin", &origin)];
            assert_eq!(console.ask("POST", "/login", &fields, "code=00").status, 421, "{host}");
        }
    }
    let own_host = format!("localhost:{port}");
    let two = [own, ("Host", own_host.as_str()), ("Host", "evil.example")];
    assert!([400, 421].contains(&console.ask("GET", "/help", &two, "").status));
    let absolute = |name: &str| {
        let target = format!("http://{name}:{port}/help");
        console.ask("GET", &target, &[own, ("Host", &own_host)], "").status
    };
    assert_eq!((absolute("localhost"), absolute("evil.example")), (200, 421));
    let old = format!("GET /help HTTP/1.0\r\nCookie: {}\r\n\r\n", console.session());
    assert_eq!(console.exchange(old.as_bytes()).status, 200, "no browser speaks it");
}

#[test]
fn forms_of_other_sites_are_refused() {
    let log = log();
    let console = Console::opened(&[log.dir.path()]);
    let own = console.origin();
    let neighbour = format!("http://courtesy.localhost:{}", console.port ^ 1);
    for (fields, is_taken) in [
        (&[("Sec-Fetch-Site", "cross-site")][..], false),
        (&[("Sec-Fetch-Site", "same-site")], false),
        (&[("Sec-Fetch-Site", "cross-site"), ("Origin", &own)], false),
        (&[("Origin", &neighbour)], false),
        (&[("Origin", "https://evil.example")], false),
        (&[("Origin", "null")], false),
        (&[], false),
        (&[("Origin", &own)], true),
        (&[("Sec-Fetch-Site", "none")], true),
        (&[("Sec-Fetch-Site", "same-origin")], true),
    ] {
        // Each that is taken ends the session: so the one refusal that is looked for is of the form.
        let with_cookie: Vec<_> =
            fields.iter().copied().chain([("Cookie", console.session())]).collect();
        let is_refused = console.ask("POST", "/logout", &with_cookie, "").status == 403;
        assert_eq!(!is_refused, is_taken, "{fields:?}");
        assert_eq!(
            console.ask("POST", "/login", fields, "code=00").text().contains("Not from"),
            !is_taken
        );
    }
}

#[test]
fn every_response_has_the_fields_that_keep_it_in() {
    let log = log();
    let console = Console::opened(&[log.dir.path()]);
    let get = |page: &str| console.get(page);
    let mut answers: Vec<_> = PAGES.iter().map(|page| ((*page).to_owned(), get(page))).collect();
    console.page("/");
    answers.push(("/ when it is read".into(), get("/")));
    answers.push(("report".into(), get("/report")));
    let long = format!("/records?url={}", "a".repeat(4000));
    let own = [("Sec-Fetch-Site", "none")];
    let cases = [
        ("GET", "/records", &[][..], 401),
        ("GET", "/login", &[("Host", "evil.example")], 421),
        ("POST", "/login", &[], 403),
        ("POST", "/login", &own, 403),
        ("PUT", "/login", &own, 405),
        ("GET", long.as_str(), &[("Cookie", console.session())], 200),
        ("POST", "/records", &[("Cookie", console.session()), own[0]], 405),
        ("GET", "/records?nothing=1", &[("Cookie", console.session())], 400),
    ];
    for (method, target, fields, status) in cases {
        let answer = console.ask(method, target, fields, "");
        assert_eq!(answer.status, status, "{method} {target}");
        answers.push((format!("{method} {target}"), answer));
    }
    let large = console.ask("POST", "/login", &own, &format!("code={}", "0".repeat(9 << 10)));
    assert_eq!(large.status, 413);
    answers.push(("a large form".into(), large));
    for (name, answer) in &answers {
        has_fields(name, answer);
    }
}

#[track_caller]
fn has_fields(name: &str, answer: &Answer) {
    for (field, value) in [
        ("x-frame-options", "DENY"),
        ("x-content-type-options", "nosniff"),
        ("cache-control", "no-store"),
        ("referrer-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        assert_eq!(answer.field(field), Some(value), "{name} {field}");
    }
    let policy = answer.field("content-security-policy").unwrap_or_default();
    assert!(policy.contains("default-src 'none'"), "{name}: {policy}");
    let is_page = answer.field("content-type").is_some_and(|it| it.starts_with("text/html"));
    if !is_page {
        return;
    }
    let text = answer.text();
    for (element, directive) in [("style", "style-src"), ("script", "script-src")] {
        let parts = between(&text, &format!("<{element}>"), &format!("</{element}>"));
        assert!(parts.len() < 2, "{name} has {} {element}s", parts.len());
        assert_eq!(text.matches(&format!("<{element}")).count(), parts.len(), "{name}");
        let digest = parts.first().map(|part| {
            use base64::Engine;
            let digest = Sha256::digest(part.as_bytes());
            format!("'sha256-{}'", base64::engine::general_purpose::STANDARD.encode(digest))
        });
        let expected = format!("{directive} {};", digest.as_deref().unwrap_or("'none'"));
        assert!(policy.contains(&expected), "{name}: {policy} lacks {expected}");
    }
    for words in
        ["form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'", "trusted-types 'none'"]
    {
        assert!(policy.contains(words), "{name}: {policy}");
    }
    for unsafe_part in [" style=\"", " onclick", " onload", "javascript:", "unsafe-inline"] {
        assert!(!text.contains(unsafe_part), "{name} has {unsafe_part}");
    }
}

#[test]
fn a_head_that_is_too_large_is_refused() {
    let log = log();
    let console = Console::opened(&[log.dir.path()]);
    let filler = "a".repeat(9 << 10);
    let answer = console.ask("GET", "/help", &[("X-Filler", &filler)], "");
    assert_eq!(answer.status, 431);
    let answer = console.ask("GET", &format!("/{filler}"), &[], "");
    assert!([414, 431].contains(&answer.status), "{}", answer.status);
    assert_eq!(console.get("/help").status, 200);
}

/// Of each file below, its bytes and when it was changed.
fn state(dir: &Path) -> BTreeMap<String, (Vec<u8>, SystemTime)> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.flat_map(|path| {
        if path.is_dir() {
            return state(&path).into_iter().collect::<Vec<_>>();
        }
        let changed = std::fs::metadata(&path).unwrap().modified().unwrap();
        vec![(path.display().to_string(), (std::fs::read(&path).unwrap(), changed))]
    });
    let own = std::fs::metadata(dir).unwrap().modified().unwrap();
    files.chain([(dir.display().to_string(), (Vec::new(), own))]).collect()
}

#[test]
fn no_page_changes_the_log() {
    let log = log();
    let before = state(log.dir.path());
    let console = Console::opened(&[log.dir.path()]);
    for page in PAGES.iter().chain(&["/site/dossier?origin=https://www1.example.com"]) {
        console.get(page);
    }
    console.page("/");
    console.page("/site?origin=https://www1.example.com");
    assert!(state(log.dir.path()) == before);
}
