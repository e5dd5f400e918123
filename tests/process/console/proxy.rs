//! The console of a running proxy: who gets in, what viewers do not see, what operators have it do, rows as they are
//! written, and that what else the listener answers stays as it is.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::support::{Browser, between, encoded};
use crate::testkit::processes::{DEADLINE, Place, Serve, Site, until};

const OPERATOR: &str = "operators-secret-of-this-test";
const VIEWER: &str = "viewers-secret-of-this-test";

fn write_secret(file: &Path, secret: &str) {
    std::fs::write(file, secret).expect("a directory that can be written to");
    std::fs::set_permissions(file, Permissions::from_mode(0o600)).expect("a file of its own");
}

fn port(serve: &Serve) -> u16 {
    serve.admin_address().port()
}

/// A proxy with both tokens, whose log has a denial of one client, with a query.
fn served(site: &Site) -> (Place, Serve) {
    let (place, serve) = with_tokens("");
    assert_eq!(serve.get(&site.url("/private/a?name=jane")).status, 403);
    (place, serve)
}

/// A proxy with both tokens and more settings, which were changed once.
fn with_tokens(more: &str) -> (Place, Serve) {
    let place = Place::new("");
    for (name, token) in [("operator", OPERATOR), ("viewer", VIEWER)] {
        write_secret(&place.path().join(name), token);
    }
    let dir = place.path().display();
    let settings = format!(
        "[admin]\ntoken_file = \"{dir}/operator\"\nviewer_token_file = \"{dir}/viewer\"\n\
         origins = [\"https://courtesy.example\"]\n{more}"
    );
    place.set(&settings);
    let serve = place.serve();
    place.set(&format!("{settings}[clients]\nallow = [\"192.0.2.77/32\"]\n"));
    serve.signal("HUP");
    until("other settings hold", || serve.said().contains("from now on other settings hold"));
    (place, serve)
}

/// The same where sites are asked at their pace, without a denial.
fn served_with_pace(site: &Site) -> (Place, Serve) {
    let (place, serve) = with_tokens("[pace]\nmax_wait = \"10m\"\n");
    assert_eq!(serve.get(&site.url("/first")).status, 200);
    (place, serve)
}

fn site() -> Site {
    Site::with_rules("User-agent: *\nDisallow: /private/\n")
}

/// What the log says of who looked and acted.
fn operated(place: &Place) -> Vec<(String, Option<String>)> {
    let said = place.run("audit query --event operated --format json");
    let lines = String::from_utf8(said.stdout).expect("text");
    let each = lines.lines().map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).expect("a line");
        let text = |name: &str| line[name].as_str().map(str::to_owned);
        (text("action").expect("an action"), text("subject"))
    });
    each.collect()
}

fn token(of: &str) -> String {
    format!("token={of}")
}

#[test]
fn a_link_of_the_command_opens_the_console_of_the_running_proxy() {
    let site = site();
    let (place, serve) = served(&site);
    let said = place.run("console");
    let text = String::from_utf8(said.stdout).expect("text");
    let port = port(&serve);
    let link = format!("http://courtesy.localhost:{port}/login?code=");
    let code = text.split(&link).nth(1).and_then(|rest| rest.split_whitespace().next());
    let browser = Browser::with(port, &format!("code={}", code.expect(&text)));
    let page = browser.page("/records");
    assert!(page.contains("/private/a?name=jane") && page.contains("127.0.0.1"), "{page}");
    let forwarded = place.run("console --at https://courtesy.example");
    let text = String::from_utf8(forwarded.stdout).expect("text");
    assert!(text.contains("\n  https://courtesy.example/login?code="), "{text}");
    assert_eq!(operated(&place), [("log_in".into(), Some("operator".into()))]);
}

#[test]
fn each_token_opens_what_its_role_may_see() {
    let site = site();
    let (_place, serve) = served(&site);
    let port = port(&serve);
    let stranger = Browser::new(port);
    assert_eq!(stranger.log_in(&token("wrong-secret-of-this-test")).status, 403);
    for page in ["/", "/now", "/records", "/records/live?after=0", "/sites", "/person", "/report"] {
        let answer = stranger.ask("GET", page, &[], "");
        assert_eq!(answer.status, 401, "{page}");
        assert!(answer.text().contains("name=\"token\""), "a field for the token");
    }
    let [operator, viewer] = [OPERATOR, VIEWER].map(|it| Browser::with(port, &token(it)));
    let origin = encoded(site.url("").as_bytes());
    let of_site = format!("/site?origin={origin}");
    for page in ["/", "/now", "/records", "/sites", "/exemptions", "/unknown", "/help", &of_site] {
        let less = viewer.page(page);
        for hidden in ["jane", "127.0.0.1 ", "192.0.2.77"] {
            assert!(!less.contains(hidden), "{page}: {less}");
        }
        assert!(!less.contains("/act"), "{page}");
    }
    let dossier = format!("/site/dossier?origin={origin}");
    for page in ["/person", "/report", "/record/line?log=0&seq=2", &dossier] {
        assert_eq!(viewer.get(page).status, 403, "{page}");
    }
    let lines = operator.page("/records");
    let lines = between(&lines, "href=\"/record?", "\"");
    for line in lines.iter().map(|line| line.replace("&#38;", "&").replace("&amp;", "&")) {
        assert!(!viewer.page(&format!("/record?{line}")).contains("jane"), "{line}");
    }
    let notices = ["/exemptions", "/records?event=settings"];
    for page in notices {
        assert!(operator.page(page).contains("192.0.2.77"), "{page}");
        assert!(!viewer.page(page).contains("192.0.2.77"), "{page}");
    }
    assert!(operator.page("/records").contains("jane"));
}

#[test]
fn what_a_viewer_may_not_see_it_may_not_find_either() {
    let site = site();
    let (_place, serve) = served(&site);
    let port = port(&serve);
    let [operator, viewer] = [OPERATOR, VIEWER].map(|it| Browser::with(port, &token(it)));
    for filter in ["client=127.0.0.1", "url=*jane*"] {
        let page = format!("/records?{filter}");
        assert!(operator.page(&page).contains("/private/a"), "{filter}");
        assert!(!viewer.page(&page).contains("/private/a"), "{filter}");
    }
    assert!(viewer.page("/records?url=*/private/*").contains("/private/a?name=~"));
    // As it stands for this viewer, a client can be looked for.
    let shown = viewer.page("/records");
    let clients: BTreeSet<_> = between(&shown, "/records?client=", "\"").into_iter().collect();
    let [client] = Vec::from_iter(clients)[..] else { panic!("{shown}") };
    assert!(viewer.page(&format!("/records?client={client}")).contains("/private/a"));
}

#[test]
fn what_operators_do_is_done_and_is_a_line_of_the_log() {
    let site = site();
    let (place, serve) = served(&site);
    let port = port(&serve);
    let [operator, viewer] = [OPERATOR, VIEWER].map(|it| Browser::with(port, &token(it)));
    let origin = site.url("");
    let origin = origin.trim_end_matches('/');
    let of_site = format!("origin={}", encoded(origin.as_bytes()));
    let actions = ["fetch", "forget"].map(|action| format!("action={action}&{of_site}"));
    let all = [actions.as_slice(), &["action=reload".into(), "action=verify".into()]].concat();
    for form in &all {
        assert_eq!(viewer.post("/act", form).status, 403, "{form}");
        let other = [("Origin", "https://evil.example"), ("Cookie", operator.session())];
        assert_eq!(operator.ask("POST", "/act", &other, form).status, 403, "{form}");
        assert_eq!(operator.get(&format!("/act?{form}")).status, 405, "{form}");
    }
    for form in ["", "action=fetch", "action=forget&origin=x", "action=log_in", "action=reload&a=b"]
    {
        assert_eq!(operator.post("/act", form).status, 400, "{form}");
    }
    let fetches = || site.fetches();
    let before = fetches();
    for (form, to) in all.iter().zip(["/site?", "/site?", "/now", "/"]) {
        let answer = operator.post("/act", form);
        assert_eq!(answer.status, 303, "{form}: {}", answer.text());
        assert!(answer.field("location").unwrap().starts_with(to), "{form}");
    }
    assert_eq!(fetches(), before + 1, "it was fetched, and then forgotten");
    let text = operator.page(&format!("/site?{of_site}"));
    assert!(text.contains("Nothing: it was not asked for since it was forgotten."), "{text}");
    until("the settings are read", || serve.said().contains("the settings are the same"));
    // A program does the same with its token, wherever it comes from.
    let bearer = format!("Bearer {OPERATOR}");
    let by_token = [("Authorization", bearer.as_str()), ("Host", "elsewhere.example")];
    assert_eq!(Browser::new(port).ask("POST", "/act", &by_token, "action=verify").status, 303);
    operator.get("/report");
    operator.page("/person?client=127.0.0.1");
    let expected = [
        ("log_in", Some("operator")),
        ("log_in", Some("viewer")),
        ("fetch", Some(origin)),
        ("forget", Some(origin)),
        ("reload", None),
        ("verify", None),
        ("verify", None),
        ("person", None),
    ];
    let found = operated(&place);
    let found: Vec<_> = found.iter().map(|(action, of)| (action.as_str(), of.as_deref())).collect();
    for each in expected {
        assert!(found.contains(&each), "{each:?}: {found:?}");
    }
    serve.stop();
    place.verified();
}

/// The lines that a stream sends until `is_enough`.
fn stream(browser: &Browser, target: &str, is_enough: impl Fn(&[String]) -> bool) -> Vec<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, browser.port)).expect("it listens");
    stream.set_read_timeout(Some(DEADLINE)).expect("a socket");
    let port = browser.port;
    let cookie = browser.session();
    let head = format!(
        "GET {target} HTTP/1.1\r\nHost: courtesy.localhost:{port}\r\nCookie: {cookie}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("it reads");
    let mut lines = Vec::new();
    for line in BufReader::new(stream).lines() {
        lines.push(line.expect("a line"));
        if is_enough(&lines) {
            break;
        }
    }
    lines
}

/// The numbers of the lines that a stream has sent.
fn ids(lines: &[String]) -> Vec<u64> {
    lines.iter().filter_map(|line| line.strip_prefix("id: ")?.parse().ok()).collect()
}

#[test]
fn records_come_as_they_are_written_each_once() {
    let site = site();
    let (place, serve) = served(&site);
    let port = port(&serve);
    let browser = Browser::with(port, &token(OPERATOR));
    let is_row = |line: &&String| line.starts_with("data: {\"cells");
    let has = |count: usize| move |lines: &[String]| lines.iter().filter(is_row).count() == count;
    let first = ids(&stream(&browser, "/records/live?after=0", has(1)));
    for path in ["/private/b", "/private/c", "/private/d"] {
        assert_eq!(serve.get(&site.url(path)).status, 403);
    }
    let after = first[0];
    let rest = stream(&browser, &format!("/records/live?after={after}"), has(3));
    let written = place.log();
    let denied = written.events("denied");
    let denied: Vec<_> = denied.iter().filter_map(|line| line["seq"].as_u64()).collect();
    assert_eq!([first, ids(&rest)].concat(), denied);
    // The rows are those of the list.
    let page = browser.page("/records");
    let data = rest.iter().filter_map(|line| line.strip_prefix("data: "));
    for row in data.map(|row| serde_json::from_str::<serde_json::Value>(row).expect("JSON")) {
        let cells = row["cells"].as_array().expect("cells");
        assert_eq!(cells.len(), 6, "{row}");
        for text in cells.iter().filter_map(|cell| cell["text"].as_str()) {
            assert!(page.contains(text), "{text} is not in {page}");
        }
    }
    let filtered = stream(&browser, "/records/live?after=0&url=*/private/c", has(1));
    assert!(filtered.iter().any(|line| line.contains("/private/c")));
    for wrong in ["/records/live", "/records/live?after=x", "/records/live?after=0&colour=red"] {
        assert_eq!(browser.get(wrong).status, 400, "{wrong}");
    }
    let viewer = Browser::with(port, &token(VIEWER));
    let masked = stream(&viewer, "/records/live?after=0", has(4)).concat();
    assert!(!masked.contains("jane") && masked.contains("/private/a?name=~"), "{masked}");
}

#[test]
fn a_stream_more_is_refused_and_all_end_with_the_proxy() {
    let site = site();
    let (_place, serve) = served(&site);
    let port = port(&serve);
    let browser = Browser::with(port, &token(VIEWER));
    let open = || {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
        stream.set_read_timeout(Some(DEADLINE)).expect("a socket");
        let cookie = browser.session();
        let head = format!(
            "GET /records/live?after=0 HTTP/1.1\r\nHost: localhost:{port}\r\nCookie: {cookie}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).expect("it reads");
        let mut reader = BufReader::new(stream);
        let mut status = String::new();
        reader.read_line(&mut status).expect("a status");
        (status, reader)
    };
    let streams: Vec<_> = (0..16).map(|_| open()).collect();
    assert!(streams.iter().all(|(status, _)| status.contains("200")));
    let (refused, _rest) = open();
    assert!(refused.contains("503"), "{refused}");
    assert_eq!(browser.get("/healthz").status, 200);
    serve.stop();
    for (_, stream) in streams {
        // Each is ended: none is waited for.
        stream.lines().map_while(Result::ok).for_each(drop);
    }
}

#[test]
fn who_waits_and_why_stands_on_the_page_of_now() {
    let site = Site::with_rules("User-agent: *\nCrawl-delay: 60\n");
    let (_place, serve) = served_with_pace(&site);
    let port = port(&serve);
    let [operator, viewer] = [OPERATOR, VIEWER].map(|it| Browser::with(port, &token(it)));
    assert!(operator.page("/now").contains("No request waits."));
    // The second waits as long as its client does.
    let mut waiting = TcpStream::connect(serve.address()).expect("it listens");
    let url = site.url("/b");
    let host = url.split('/').nth(2).expect("a host");
    let head = format!("GET {url} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: ExampleBot\r\n\r\n");
    waiting.write_all(head.as_bytes()).expect("it reads");
    until("it waits", || !operator.page("/now").contains("No request waits."));
    let (all, less) = (operator.page("/now"), viewer.page("/now"));
    for page in [&all, &less] {
        assert!(page.contains("Crawl-delay: 1 min between two starts (line 2, group *)"), "{page}");
        assert!(page.contains(&format!(">{}</a>", site.url("").trim_end_matches('/'))), "{page}");
    }
    assert!(all.contains("1 of 127.0.0.1") && !less.contains("of 127.0.0.1"), "{less}");
    drop(waiting);
    until("it has left", || operator.page("/now").contains("No request waits."));
}

#[test]
fn what_was_forwarded_all_the_same_is_said_where_it_is_asked() {
    let site = site();
    let origin = site.url("").trim_end_matches('/').to_owned();
    let exempted = format!(
        "[[exemptions]]\norigin = \"{origin}\"\nagents = [\"ExampleBot\"]\nby = \"Ada Lovelace\"\n\
         reason = \"contract 4711\"\nuntil = \"2100-01-01\"\n"
    );
    let ask = |browser: &Browser, agent: &str| {
        let url = encoded(site.url("/private/a").as_bytes());
        // It is told when the log has been read, for the first page.
        browser.page("/");
        browser.page(&format!("/ask?url={url}&agent={agent}"))
    };
    let (place, serve) = with_tokens(&exempted);
    assert_eq!(serve.get(&site.url("/private/a")).status, 200);
    let browser = Browser::with(port(&serve), &token(VIEWER));
    let page = ask(&browser, "ExampleBot");
    assert!(page.contains("Disallowed, and forwarded all the same"), "{page}");
    assert!(
        page.contains("An exemption of Ada Lovelace (contract 4711) covered the site"),
        "{page}"
    );
    let page = ask(&browser, "OtherBot");
    assert!(page.contains("<b>Denied</b>") && !page.contains("Ada"), "{page}");
    serve.stop();
    place.set("[robots]\nmode = \"observe\"\n[admin]\nconsole = \"open\"\n");
    let serve = place.serve();
    assert_eq!(serve.get(&site.url("/private/a")).status, 200);
    let page = ask(&Browser::new(port(&serve)), "OtherBot");
    assert!(page.contains("The mode was observe then, so that nothing was refused."), "{page}");
}

#[test]
fn a_head_is_what_is_written_and_names_no_file() {
    let site = site();
    let (_place, serve) = served(&site);
    let browser = Browser::with(port(&serve), &token(VIEWER));
    for head in ["/etc/hostname", "/nothing", "1:ab", "x"] {
        let answer = browser.get(&format!("/?head={}", encoded(head.as_bytes())));
        assert_eq!(answer.status, 400, "{head}");
        assert!(answer.text().contains("head: it is the number of a line"), "{}", answer.text());
    }
    let head = format!("1:{}", "0".repeat(64));
    assert!(browser.page(&format!("/?head={head}")).contains("urgent"), "it is of another log");
}

#[test]
fn a_changed_token_ends_the_sessions_that_it_opened() {
    let site = site();
    let (place, serve) = served(&site);
    let port = port(&serve);
    let [operator, viewer] = [OPERATOR, VIEWER].map(|it| Browser::with(port, &token(it)));
    let file = place.path().join("viewer");
    write_secret(&file, "another-secret-of-viewers");
    serve.signal("HUP");
    until("the viewer is out", || viewer.get("/records").status == 401);
    assert_eq!(operator.get("/help").status, 200);
    assert_eq!(viewer.log_in(&token(VIEWER)).status, 403);
    assert_eq!(viewer.log_in(&token("another-secret-of-viewers")).status, 303);
}

#[test]
fn by_https_the_cookie_is_sent_by_https_alone() {
    let site = site();
    let (_place, serve) = served(&site);
    let browser = Browser::new(port(&serve));
    let host = ("Host", "courtesy.example");
    let log_in =
        |origin: &str| browser.ask("POST", "/login", &[host, ("Origin", origin)], &token(VIEWER));
    assert_eq!(log_in("http://courtesy.example").status, 403);
    let set = log_in("https://courtesy.example");
    let set = set.field("set-cookie").expect("a cookie").to_owned();
    assert!(set.starts_with("__Host-courtesy-") && set.contains("; Secure"), "{set}");
    let cookie = set.split(';').next().unwrap();
    assert_eq!(browser.ask("GET", "/records", &[host, ("Cookie", cookie)], "").status, 200);
    assert_eq!(browser.ask("GET", "/records", &[("Cookie", cookie)], "").status, 401);
}

#[test]
fn an_address_to_go_on_to_is_one_of_the_console() {
    let site = site();
    let (_place, serve) = served(&site);
    let browser = Browser::new(port(&serve));
    let page = browser.ask("GET", "/records?reason=disallow_rule", &[], "");
    assert!(page.text().contains("value=\"/records?reason=disallow_rule\""), "{}", page.text());
    for (next, expected) in [
        ("/records?reason=disallow_rule", "/records?reason=disallow_rule"),
        ("", "/"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("https://evil.example/", "/"),
        ("javascript:alert(1)", "/"),
        ("/a\r\nSet-Cookie: a=b", "/"),
    ] {
        let form = format!("{}&next={}", token(VIEWER), encoded(next.as_bytes()));
        let answer = browser.log_in(&form);
        assert_eq!((answer.status, answer.field("location")), (303, Some(expected)), "{next}");
    }
}

#[test]
fn the_console_is_off_or_open_where_the_settings_say_so() {
    let site = site();
    let place = Place::new("[admin]\nconsole = \"off\"\n");
    let serve = place.serve();
    assert_eq!(serve.get(&site.url("/private/a")).status, 403);
    let browser = Browser::new(port(&serve));
    for page in ["/", "/records", "/login"] {
        let answer = browser.ask("GET", page, &[], "");
        assert_eq!(answer.status, 404, "{page}");
        assert!(answer.text().contains("/healthz"));
    }
    serve.stop();
    place.set("[admin]\nconsole = \"open\"\n");
    let serve = place.serve();
    let browser = Browser::new(port(&serve));
    assert!(browser.ask("GET", "/records", &[], "").text().contains("/private/a"));
    let own = browser.origin();
    let act = |fields: &[_]| browser.ask("POST", "/act", fields, "action=verify").status;
    assert_eq!((act(&[]), act(&[("Origin", &own)])), (403, 303));
}
