//! The lines of the log, as the documentation has them: held against the source, and against the lines
//! that a process writes.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use socket2::{Domain, Socket, Type};

use crate::serve::support::{Served, Site, courtesy, exchange, state_dir, status};

const PAGE: &str = include_str!("../../../docs/reference/logs.md");

const ROBOTS_TXT: &str =
    "User-agent: ExampleBot\nAllow: /a\nDisallow: /private/\nCrawl-delay: 0.2\n";

/// The names in the first column of the table under `heading`.
fn fields(heading: &str) -> BTreeSet<String> {
    let (_, rest) = PAGE.split_once(heading).expect(heading);
    let table = rest
        .lines()
        .skip_while(|line| !line.starts_with("| `"))
        .take_while(|line| line.starts_with("| `"));
    let names = table
        .flat_map(|row| row.split(" | ").next().expect("a cell").split('`').skip(1).step_by(2));
    names.map(Into::into).collect()
}

/// The lines that a process writes while it serves everything that has a field of its own.
fn lines(level: &str) -> Vec<Value> {
    let (dir, config) = (state_dir(), state_dir());
    let config = config.path().join("courtesy.toml");
    fs::write(&config, format!("[log]\nformat = \"json\"\nlevel = \"{level}\"\n")).unwrap();
    let site = Site::start(ROBOTS_TXT);
    // A port that is taken, and on which nobody listens.
    let silent = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    silent.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let closed = silent.local_addr().unwrap().as_socket().unwrap();
    let served = Served::start(dir.path(), &["--config", config.to_str().unwrap()]);
    let get = |url: &str, field: &str| {
        let host = url.split('/').nth(2).unwrap();
        let agent = "User-Agent: ExampleBot/1.0 (secret-agent-no)";
        status(&exchange(
            served.proxy,
            &format!("GET {url} HTTP/1.1\r\nHost: {host}\r\n{agent}\r\n{field}Connection: close"),
        ))
    };
    let trace = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n";
    assert_eq!(get(&format!("{}/a?token=secret", site.origin), trace), 200);
    assert_eq!(
        get(
            &format!("{}/private/b?token=secret", site.origin),
            &format!("Cookie: secret=1\r\n{trace}")
        ),
        403
    );
    assert_eq!(get(&format!("{}/robots.txt", site.origin), ""), 200);
    assert_eq!(get(&format!("{}/a", site.origin), ""), 200, "after a wait");
    assert_eq!(get(&format!("{}/a", site.origin), "Prefer: wait=0\r\n"), 429, "too early");
    // No connection, no robots.txt, no answer.
    assert_eq!(get(&format!("http://{closed}/"), ""), 403);
    assert_eq!(get(&format!("http://{}/", served.proxy), ""), 502);
    let said = served.said.clone() + &served.terminate();
    // What was denied has the trace in its record, too; the other denial had none.
    let records = fs::read_to_string(dir.path().join("audit/denials.jsonl")).unwrap();
    let traced: Vec<_> = records.lines().filter(|line| line.contains("\"trace_id\":")).collect();
    let [traced] = traced[..] else { panic!("{records}") };
    assert!(
        traced.contains("\"trace_id\":\"4bf92f3577b34da6a3ce929d0e0e4736\",\"url\":\"")
            && traced.contains("/private/b")
    );
    assert!(!said.contains("token=") && !said.contains("secret=1"), "{said}");
    said.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}")))
        .collect()
}

fn keys(line: &Value) -> BTreeSet<String> {
    line.as_object().expect("an object").keys().cloned().collect()
}

#[test]
fn every_request_has_one_line_with_the_fields_of_the_page() {
    let lines = lines("access");
    let (access, others): (Vec<_>, Vec<_>) =
        lines.iter().partition(|line| line["target"] == "access");
    assert_eq!(access.len(), 7, "{access:#?}");
    let told: BTreeSet<_> = access.iter().flat_map(|line| keys(line)).collect();
    let of_user = |field: &String| field == "user.name";
    let page = fields("## A line for each request");
    assert_eq!(told, page.into_iter().filter(|field| !of_user(field)).collect());

    let [allowed, denied, copy, waited, early, unreachable, failed] = &access[..] else {
        unreachable!()
    };
    let of = |line: &Value, names: &[&str]| {
        names.iter().map(|name| line[*name].clone()).collect::<Vec<_>>()
    };
    let what = [
        "http.request.method",
        "url.path",
        "http.response.status_code",
        "robots.decision",
        "robots.reason",
    ];
    assert_eq!(
        of(allowed, &what),
        ["GET".into(), "/a".into(), 200.into(), "allow".into(), Value::from("rule")]
    );
    assert_eq!(
        of(denied, &what)[1..],
        ["/private/b".into(), 403.into(), "deny".into(), Value::from("disallow_rule")]
    );
    assert_eq!(
        of(copy, &what)[2..],
        [200.into(), "allow".into(), Value::from("robots_txt_itself")]
    );
    assert_eq!(
        of(waited, &["politeness.by", "politeness.delay_ms"]),
        ["crawl_delay".into(), Value::from(200.0)]
    );
    assert_eq!(of(early, &what)[2..], [429.into(), "delay".into(), Value::from("rule")]);
    assert_eq!(
        of(unreachable, &what)[2..],
        [403.into(), "deny".into(), Value::from("robots_unreachable")]
    );
    assert_eq!(
        (&failed["http.response.status_code"], &failed["error.type"]),
        (&502.into(), &"proxy_loop_detected".into())
    );
    assert_eq!(allowed["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(allowed["network.peer.address"], "127.0.0.1");
    assert!(denied["network.peer.address"].is_null() && copy["network.peer.address"].is_null());
    let size = |line: &Value| line["http.response.body.size"].as_u64().unwrap();
    assert!(size(denied) > 100 && size(copy) == ROBOTS_TXT.len() as u64, "{access:#?}");
    assert_eq!(size(allowed), "a page\n".len() as u64);
    assert_eq!(
        (&allowed["robots.rule.line"], &allowed["robots.rule.text"]),
        (&2.into(), &"Allow: /a".into())
    );
    assert_eq!(
        (&denied["robots.rule.line"], &denied["robots.group"]),
        (&3.into(), &"ExampleBot".into())
    );
    assert_eq!(denied["decision.id"].as_str().map(str::len), Some(26));

    let known = fields("## Every other line");
    for line in others {
        let unknown: Vec<_> = keys(line).difference(&known).cloned().collect();
        assert!(unknown.is_empty(), "{unknown:?} of {line} are not on the page");
    }
}

/// Whose name may be an address of mail.
#[test]
fn the_line_of_a_user_has_the_name() {
    let (dir, site) = (state_dir(), Site::start(ROBOTS_TXT));
    let users = dir.path().join("users.toml");
    let name = "ada+news@example.com";
    let mut add = courtesy(dir.path(), &["users", "add", name, "--file", users.to_str().unwrap()]);
    let mut adding = add.stdin(Stdio::piped()).spawn().unwrap();
    adding.stdin.take().unwrap().write_all(b"kennwort\n").unwrap();
    assert!(adding.wait().unwrap().success());
    let served = Served::begin(dir.path(), &[], |mut command| {
        command.env("COURTESY__LOG__LEVEL", "access").env("COURTESY__LOG__FORMAT", "json");
        command.env("COURTESY__CLIENTS__USERS_FILE", &users);
        command
    });
    let get = |field: &str| {
        let head = format!("GET {}/a HTTP/1.1\r\nHost: a\r\nUser-Agent: ExampleBot", site.origin);
        status(&exchange(served.proxy, &format!("{head}\r\n{field}Connection: close")))
    };
    // "ada+news@example.com:kennwort" (RFC 7617 §2).
    let credentials = "YWRhK25ld3NAZXhhbXBsZS5jb206a2VubndvcnQ=";
    assert_eq!(get(&format!("Proxy-Authorization: Basic {credentials}\r\n")), 200);
    assert_eq!(get(""), 407);
    let said = served.terminate();
    let lines = said.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let access: Vec<_> = lines.filter(|line| line["target"] == "access").collect();
    assert_eq!((access.len(), &access[0]["user.name"]), (2, &name.into()), "{access:#?}");
    assert!(access[1]["user.name"].is_null() && !said.contains("kennwort"));
}

#[test]
fn without_being_asked_for_no_request_has_a_line() {
    let lines = lines("info");
    assert!(lines.iter().all(|line| line["target"] != "access"), "{lines:#?}");
    assert!(lines.iter().any(|line| line["message"] == "robots.txt decision"), "{lines:#?}");
}

/// The lines for decisions that a process writes at this level which denies twelve requests: what each was
/// about, and how many the summary counts.
fn decisions(level: &str) -> (Vec<String>, Option<Value>) {
    let (dir, config) = (state_dir(), state_dir());
    let config = config.path().join("courtesy.toml");
    fs::write(&config, format!("[log]\nformat = \"json\"\nlevel = \"{level}\"\n")).unwrap();
    let sites = [(); 2].map(|()| Site::start("User-agent: *\nDisallow: /private/\n"));
    let served = Served::start(dir.path(), &["--config", config.to_str().unwrap()]);
    for number in 0..6 {
        for site in &sites {
            assert_eq!(served.get(&site.url(&format!("/private/{number}"))), 403);
        }
    }
    let said = served.terminate();
    let lines: Vec<Value> =
        said.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let of = |message: &str| {
        lines.iter().filter(|line| line["message"] == message).cloned().collect::<Vec<_>>()
    };
    let single = of("robots.txt decision")
        .iter()
        .map(|line| line["url"].as_str().unwrap().to_owned())
        .collect();
    let mut sums = of("robots.txt decisions without a line of their own");
    assert!(sums.len() <= 1, "{sums:#?}");
    if let (Some(sum), [one, other]) = (sums.first(), &sites) {
        for origin in [&one.origin, &other.origin] {
            assert!(sum["origins"].as_str().unwrap().contains(&format!("{origin} 5")), "{sum}");
        }
    }
    (single, sums.pop())
}

#[test]
fn the_first_denial_of_each_origin_has_a_line_and_the_others_are_counted() {
    let (single, sum) = decisions("info");
    assert_eq!(single.len(), 2, "{single:?}");
    assert!(single.iter().all(|url| url.ends_with("/private/0")), "{single:?}");
    let sum = sum.expect("a summary");
    assert_eq!(
        (&sum["denied"], &sum["exempted"], &sum["level"]),
        (&10.into(), &0.into(), &"INFO".into())
    );
}

#[test]
fn with_the_access_log_each_denial_has_a_line() {
    let (single, sum) = decisions("access");
    assert_eq!((single.len(), sum), (12, None));
}

/// A call that logs: its level, the names of its fields, its message with … for what differs.
type Call = (String, Vec<String>, String);

#[test]
fn the_page_has_every_message_of_the_source_and_no_other() {
    let calls = calls();
    // What has no words of its own is told of at the end of the page.
    let in_words = calls.iter().filter(|(_, _, message)| message.contains(char::is_alphabetic));
    let source: BTreeSet<_> =
        in_words.map(|(level, _, message)| format!("| {level} | {message} |")).collect();
    assert!(source.len() > 50, "{source:#?}");
    let levels = ["error", "warn", "info", "debug"].map(|level| format!("| {level} | "));
    let is_row = |line: &&str| levels.iter().any(|level| line.starts_with(level));
    let page: BTreeSet<_> = PAGE.lines().filter(is_row).map(str::to_owned).collect();
    let missing: Vec<_> = source.difference(&page).collect();
    assert!(missing.is_empty(), "docs/reference/logs.md lacks {missing:#?}");
    let stale: Vec<_> = page.difference(&source).collect();
    assert!(stale.is_empty(), "docs/reference/logs.md has what is nowhere logged: {stale:#?}");
}

#[test]
fn the_page_has_every_field_of_the_source_and_no_other() {
    let written: BTreeSet<String> = calls().into_iter().flat_map(|(_, fields, _)| fields).collect();
    let always = ["timestamp", "level", "target", "message"].map(Into::into);
    let expected: BTreeSet<_> = written.into_iter().chain(always).collect();
    assert_eq!(fields("## Every other line"), expected);
}

/// All calls of the source, but for the access log's own.
fn calls() -> Vec<Call> {
    let mut calls = Vec::new();
    for file in sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        let text = fs::read_to_string(file).unwrap();
        for level in ["error", "warn", "info", "debug"] {
            let name = format!("{level}!(");
            for (at, _) in text.match_indices(&name) {
                let is_ours = !text[..at]
                    .ends_with(|it: char| it.is_alphanumeric() || it == '_' || it == '`');
                let arguments = arguments(&text[at + name.len()..]);
                if is_ours && !arguments.iter().any(|it| it.starts_with("target:")) {
                    let message =
                        arguments.iter().position(|it| it.starts_with('"')).expect("a message");
                    let fields: Vec<_> = arguments[..message].iter().map(|it| field(it)).collect();
                    calls.push((level.to_owned(), fields, message_of(&arguments[message])));
                }
            }
        }
    }
    calls
}

fn sources(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

/// The arguments of a call, from behind its parenthesis on.
fn arguments(text: &str) -> Vec<String> {
    let (mut arguments, mut depth, mut in_text, mut bytes) =
        (vec![String::new()], 1, false, text.chars());
    while let Some(byte) = bytes.next() {
        match byte {
            '\\' if in_text => {
                arguments.last_mut().unwrap().push(byte);
                arguments.last_mut().unwrap().extend(bytes.next());
                continue;
            }
            '"' => in_text = !in_text,
            '(' | '[' | '{' if !in_text => depth += 1,
            ')' | ']' | '}' if !in_text => depth -= 1,
            ',' if !in_text && depth == 1 => {
                arguments.push(String::new());
                continue;
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
        arguments.last_mut().unwrap().push(byte);
    }
    arguments.into_iter().map(|it| it.trim().to_owned()).filter(|it| !it.is_empty()).collect()
}

/// `name = value`, `%name` or `name`.
fn field(argument: &str) -> String {
    argument.split('=').next().unwrap().trim().trim_start_matches(['%', '?']).to_owned()
}

/// The text of a literal, with … for what is put into it.
fn message_of(literal: &str) -> String {
    let mut message = String::new();
    let mut parts = literal.trim_matches('"').split("\\\n");
    message.push_str(parts.next().unwrap());
    parts.for_each(|part| message.push_str(part.trim_start()));
    let message = message.replace("\\\"", "\"");
    let mut words = String::new();
    for (place, part) in message.split(['{', '}']).enumerate() {
        words.push_str(if place % 2 == 0 { part } else { "…" });
    }
    words
}

/// Given https:// or socks4:// for the proxy's address: one line, however often it tries.
#[test]
fn a_client_that_speaks_no_http_is_named_once_with_what_to_write() {
    for (sent, remedy) in [
        (&b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..], "write http:// instead of https://"),
        (b"\x04\x01\x00", "write http:// or socks5h:// instead of socks4://"),
    ] {
        let dir = state_dir();
        let served = Served::start(dir.path(), &[]);
        for _ in 0..3 {
            let mut stream = TcpStream::connect(served.proxy).unwrap();
            stream.write_all(sent).unwrap();
            stream.read_to_end(&mut Vec::new()).unwrap();
        }
        let said = served.said.clone() + &served.terminate();
        let lines: Vec<_> =
            said.lines().filter(|line| line.contains("a client does not speak HTTP")).collect();
        let [line] = lines[..] else { panic!("{said}") };
        assert!(line.contains(remedy) && line.contains("client=127.0.0.1"), "{line}");
    }
}
