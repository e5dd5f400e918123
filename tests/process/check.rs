//! `courtesy check` as a shell and a test suite see it: answers, their form, and exit codes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use serde_json::{Value, json};

const RULES: &str = "\
# An example
User-agent: *
Disallow: /private/

User-agent: ExampleBot
Allow: /private/open
Disallow: /private/ # not yet
";

fn check(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_courtesy"));
    command.arg("check").args(arguments).env_clear().env("HOME", "/home/somebody");
    command
}

struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// Runs it to its end with `input` on standard input.
fn run(command: &mut Command, input: &[u8]) -> Ended {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // Beside the reading: neither side may wait for the other when pipes are full.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let [stdout, stderr] = [stdout, stderr].map(|text| String::from_utf8(text).unwrap());
    Ended { code: status.code(), stdout, stderr }
}

fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// An origin whose robots.txt is `answer`: a status line and a body. It lives as long as the tests.
fn origin(status: &'static str, body: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            answer(stream.unwrap(), status, body);
        }
    });
    origin
}

fn answer(mut stream: TcpStream, status: &str, body: &str) {
    let mut head = BufReader::new(stream.try_clone().unwrap()).lines();
    while head.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
    let length = body.len();
    let _ = write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
}

fn conformance(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance").join(name);
    json_lines(&std::fs::read_to_string(path).unwrap())
}

#[test]
fn a_batch_answers_every_case_in_order_with_the_line_that_decided() {
    let cases: Vec<Value> =
        ["seeds.jsonl", "decisions.jsonl"].into_iter().flat_map(conformance).collect();
    let input: String = cases.iter().map(|case| format!("{case}\n")).collect();
    let ended = run(&mut check(&["--batch"]), input.as_bytes());
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let answers = json_lines(&ended.stdout);
    assert_eq!(answers.len(), cases.len());
    for (case, answer) in cases.iter().zip(&answers) {
        assert_eq!(
            (&answer["id"], &answer["decision"]),
            (&case["id"], &case["expect"]),
            "{case}\n{answer}"
        );
        assert!(
            case["matched_line"].is_null() || case["matched_line"] == answer["line"],
            "{case}\n{answer}"
        );
    }
}

#[test]
fn a_batch_gives_the_basis_and_goes_on_after_lines_it_cannot_read() {
    let input = [
        r#"{"id": 1, "robots": "user-agent: *\ndisallow: /r?u=ftp", "agent": "x", "url": "/r?u=ftp://x"}"#,
        "no json",
        "",
        r#"{"id": "two", "robots": "", "url": 5}"#,
        r#"{"id": [3], "robots": "", "robots_b64": "", "url": "/"}"#,
        r#"{"id": 4, "robots_parts": [["abcdefgh", 99999999]], "url": "/"}"#,
        r#"{"id": 5, "robots": "", "url": "/", "profile": "netscape"}"#,
        r#"{"url": "ftp://example.com/"}"#,
        r#"{"id": 7, "robots_b64": "/w==", "url_b64": "/w==", "agent": "X/1 (Y)", "agent_kind": "header"}"#,
    ]
    .join("\n");
    let ended = run(&mut check(&["--batch"]), input.as_bytes());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let answers = json_lines(&ended.stdout);
    let basis = json!({
        "reason": "rule", "group": {"token": "*", "line": 1}, "directive": "disallow", "pattern": "/r?u=ftp",
    });
    let pace = json!({
        "delay_ms": 0, "source": "none", "line": null, "clamped": false, "opens_in_ms": 0,
    });
    let expected =
        json!({"id": 1, "decision": "disallow", "line": 2, "basis": basis, "pace": pace});
    assert_eq!(answers[0], expected);
    for (answer, (id, complaint)) in answers[1..7].iter().zip([
        (Value::Null, "expected ident"),
        (json!("two"), "invalid type: integer `5`"),
        (json!([3]), "more than one of robots"),
        (json!(4), "at most 67108864"),
        (json!(5), "\"netscape\" is not one of"),
        (Value::Null, "the scheme \"ftp\" is not supported"),
    ]) {
        assert_eq!(answer["id"], id, "{answer}");
        assert!(answer["error"].as_str().unwrap().contains(complaint), "{answer}");
    }
    assert_eq!(answers[7]["decision"], "allow");
    assert_eq!(answers.len(), 8);
}

#[test]
fn a_batch_answers_before_it_is_asked_again() {
    let mut child =
        check(&["--batch"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let (sender, answers) = channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        while stdout.read_line(&mut line).is_ok_and(|length| length > 0) {
            sender.send(std::mem::take(&mut line)).unwrap();
        }
    });
    for id in ["a", "b"] {
        stdin
            .write_all(
                format!("{{\"id\": \"{id}\", \"robots\": \"\", \"url\": \"/\"}}\n").as_bytes(),
            )
            .unwrap();
        let answer =
            answers.recv_timeout(Duration::from_secs(30)).expect("an answer while input is open");
        assert!(answer.contains(&format!("\"{id}\"")), "{answer}");
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_batch_fetches_what_it_is_not_given() {
    let origin = origin("200 OK", RULES);
    let input: String = (0..50)
        .map(|id| {
            format!(
                "{{\"id\": {id}, \"agent\": \"ExampleBot\", \"url\": \"{origin}/private/{id}\"}}\n"
            )
        })
        .collect();
    let ended = run(&mut check(&["--batch", "--allow-private"]), input.as_bytes());
    let answers = json_lines(&ended.stdout);
    assert_eq!(answers.len(), 50, "{}", ended.stderr);
    for (id, answer) in answers.iter().enumerate() {
        assert_eq!((&answer["id"], &answer["line"]), (&json!(id), &json!(7)), "{answer}");
        assert_eq!(answer["robots"]["url"], json!(format!("{origin}/robots.txt")));
    }
}

#[test]
fn exit_codes_say_the_worst_of_all_answers() {
    let rules = origin("200 OK", RULES);
    let down = origin("503 Service Unavailable", "");
    let missing = origin("404 Not Found", "");
    let (allowed, disallowed) = (format!("{rules}/a"), format!("{rules}/private/a"));
    let undecided = format!("{down}/a");
    for (urls, code) in [
        (&[allowed.as_str()][..], 0),
        (&[&missing], 0),
        (&[&allowed, &disallowed], 1),
        (&[&allowed, &undecided], 3),
        (&[&undecided, &disallowed], 1),
        (&[&allowed, &disallowed, "example.com/no-scheme"], 2),
    ] {
        let ended = run(check(&["--allow-private"]).args(urls), b"");
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(code), ""), "{}", ended.stdout);
        // What is no URL does not keep the others from their answer.
        assert!(ended.stdout.contains(&allowed) || !urls.contains(&allowed.as_str()));
    }
    assert_eq!(run(&mut check(&["--profile", "netscape", "/"]), b"").code, Some(2));
    assert_eq!(run(&mut check(&["--robots", "-", "-"]), b"").code, Some(2));
    assert_eq!(run(&mut check(&["--robots", "/nowhere", "/"]), b"").code, Some(74));
    let no_path = run(&mut check(&["--robots", "-", "private/b"]), RULES.as_bytes());
    assert_eq!((no_path.code, no_path.stdout.contains("allow")), (Some(2), false));
    assert!(no_path.stdout.contains("write /private/b for a path"), "{}", no_path.stdout);
}

#[test]
fn an_answer_names_the_line_in_its_context_and_the_version_of_the_file() {
    let origin = origin("200 OK", RULES);
    let url = format!("{origin}/private/a");
    let ended = run(&mut check(&["--allow-private", "--agent", "ExampleBot", &url]), b"");
    let expected = format!(
        "disallow  {origin}/private/a\n  \
         line 7 of {origin}/robots.txt   Disallow: /private/\n         \
         6 │ Allow: /private/open\n    \
         ▸    7 │ Disallow: /private/ # not yet\n         \
         8 │\n  \
         group \"ExampleBot\" (line 5); sha256 "
    );
    assert!(ended.stdout.starts_with(&expected), "{}", ended.stdout);
    assert!(ended.stdout.ends_with("…; fetched just now, current for 1 d\n"), "{}", ended.stdout);
}

#[test]
fn what_cannot_be_had_is_explained_with_its_remedy() {
    let down = origin("503 Service Unavailable", "");
    let url = format!("{down}/");
    let ended = run(&mut check(&["--allow-private", &url]), b"");
    assert!(ended.stdout.contains("cannot be had: the server answered 503 Service Unavailable"));
    let refused = run(&mut check(&[&url]), b"");
    assert_eq!(refused.code, Some(3));
    assert!(refused.stdout.contains("--allow-private"), "{}", refused.stdout);
}

#[test]
fn a_user_agent_is_reduced_to_its_token_and_says_so() {
    let agent = "Mozilla/5.0 (compatible; ExampleBot/1.2; +https://example.com/bot)";
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), RULES).unwrap();
    let path = file.path().to_str().unwrap();
    let ended =
        run(&mut check(&["--agent", agent, "--robots", path, "/private/a", "/private/open"]), b"");
    assert_eq!(ended.code, Some(1));
    assert!(ended.stdout.starts_with("as ExampleBot, from the User-Agent"), "{}", ended.stdout);
    assert!(ended.stdout.contains("\nallow     /private/open\n  line 6 of "), "{}", ended.stdout);
}

#[test]
fn what_the_operator_has_set_over_robots_txt_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let origin = origin("200 OK", RULES);
    let config = dir.path().join("courtesy.toml");
    let exemption = format!(
        "[robots]\nmode = \"observe\"\n[[exemptions]]\norigin = \"{origin}\"\npaths = [\"/private/shown\"]\n\
         by = \"A. Person\"\nreason = \"we are the owner\"\nuntil = \"2999-01-01\"\n"
    );
    std::fs::write(&config, exemption).unwrap();
    let urls = ["/private/shown", "/private/other"].map(|path| format!("{origin}{path}"));
    let config = config.to_str().unwrap();
    let ended = run(check(&["--allow-private", "--config", config]).args(urls), b"");
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let said = "but the proxy lets it through, by";
    assert!(ended.stdout.contains(&format!("{said} an exemption by A. Person: we are the owner")));
    assert!(ended.stdout.contains(&format!("{said} the mode \"observe\"")), "{}", ended.stdout);
}

#[test]
fn a_list_of_urls_is_answered_in_json_lines() {
    let list = b"\xEF\xBB\xBFhttps://example.com/private/a\r\n\n# of last week\r\n  # too\n\
                 https://example.com/b#part \t# the other one";
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), RULES).unwrap();
    let ended = run(&mut check(&["--json", "--robots", file.path().to_str().unwrap(), "-"]), list);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let answers = json_lines(&ended.stdout);
    assert_eq!(answers[0]["line"], 3);
    assert_eq!(answers[1]["basis"]["reason"], "no_rule");
    assert_eq!(answers[1]["url"], "https://example.com/b#part");
    assert_eq!(answers.len(), 2);
    // And the file itself from standard input.
    let ended = run(&mut check(&["--json", "--robots", "-", "/private/a"]), RULES.as_bytes());
    assert_eq!(json_lines(&ended.stdout)[0]["decision"], "disallow");
}

#[test]
fn what_strangers_wrote_cannot_steer_the_terminal() {
    let robots = b"user-agent: *\ndisallow: /\x1b[2J\xe2\x80\xae*\n";
    let ended = run(&mut check(&["--robots", "-", "/\x1b[2J\u{202e}x"]), robots);
    assert!(!ended.stdout.contains(['\x1b', '\u{202e}']), "{:?}", ended.stdout);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let mut child =
        check(&["--batch"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || {
        while stdin.write_all(b"{\"robots\": \"\", \"url\": \"/\"}\n").is_ok() {}
    });
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 10]).unwrap();
    drop(stdout);
    assert!(child.wait().unwrap().success());
    writer.join().unwrap();
}
