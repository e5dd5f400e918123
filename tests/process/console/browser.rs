//! In a real browser: every page, at each width, light and dark, by keyboard, without scripts, over a log whose
//! texts are attacks.

use std::io::Write;
use std::process::Command;

use serde_json::Value;

use super::support::Console;
use crate::clients::support::{apt, node, with_modules};
use crate::testkit::processes::{Place, Site};

/// What strangers write: in a robots.txt, a URL and a User-Agent.
const HOSTILE: &str = "</script><script>alert(1)</script><img src=x onerror=alert(1)>";
const RULES: &str = "User-agent: *\nDisallow: /private/\nDisallow: /<script>alert(1)</script>\n\
                     Disallow: /\"><img src=http://evil.example/ onerror=alert(1)>\n# </pre></template>\u{202e}\n";

/// A log as a proxy has written it, stopped.
fn served(site: &Site) -> Place {
    let place = Place::new("");
    let serve = place.serve();
    let paths = [
        "/private/a",
        "/private/%3Cscript%3Ealert(1)%3C/script%3E",
        "/%22%3E%3Cimg%20src=x",
        "/open",
    ];
    for path in paths {
        for agent in ["ExampleBot/1.0", HOSTILE] {
            let mut curl = Command::new("curl");
            curl.args([
                "--silent",
                "--noproxy",
                "",
                "--user-agent",
                agent,
                "--output",
                "/dev/null",
            ]);
            curl.arg("--proxy").arg(format!("http://{}", serve.address()));
            assert!(curl.arg(site.url(path)).status().expect("curl").success());
        }
    }
    serve.stop();
    place
}

/// What a walk through the console found.
fn walked(link: &str, live: Option<Value>, paths: &[&str]) -> Value {
    apt("chromium", "chromium");
    let scratch = tempfile::tempdir().expect("a directory");
    let (node, program) = (node(), with_modules("console.mjs", scratch.path()));
    let mut walk = Command::new(node);
    walk.arg(program).arg(link).args(paths);
    walk.envs(live.map(|live| ("LIVE", live.to_string())));
    let walk = walk.output().expect("node");
    let said = String::from_utf8_lossy(&walk.stderr);
    serde_json::from_slice(&walk.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

fn assert_fine(found: &Value) {
    for nothing in ["elsewhere", "errors", "violations", "overflows"] {
        assert_eq!(found[nothing], Value::Array(Vec::new()), "{nothing}: {found:#}");
    }
    assert_eq!(found["dialogs"], 0, "{found:#}");
    assert_eq!(found["code_in_address"], false);
    assert!(
        found["second_use"].as_str().is_some_and(|title| title.contains("opens nothing")),
        "{found:#}"
    );
    assert_eq!(found["first_focus"], "To the content");
    assert!(
        found["by_keyboard"].as_str().is_some_and(|title| title.starts_with("Line ")),
        "{found:#}"
    );
    let pages = found["titles"].as_object().expect("the pages");
    for (path, title) in pages {
        assert!(title.as_str().is_some_and(|title| title.starts_with("200 ")), "{path}: {title}");
        // A page to which records are added asks for those, too.
        if !path.contains("live=1") {
            assert_eq!(found["requests"][path], 1, "{path} is one request");
        }
        assert!(
            found["bytes"][path].as_u64().is_some_and(|bytes| bytes <= 60_000),
            "{path}: {found:#}"
        );
        assert!(found["without_script"][path].as_str().is_some_and(|title| !title.is_empty()));
    }
}

fn encoded_origin(site: &Site) -> String {
    site.url("/").trim_end_matches('/').replace(':', "%3A").replace('/', "%2F")
}

#[test]
fn the_pages_of_an_archive_in_chromium() {
    let site = Site::with_rules(RULES);
    let place = served(&site);
    let console = Console::over(&[&place.audit_dir()]);
    let link = format!("{}/login?code={}", console.origin(), console.code);
    let origin = encoded_origin(&site);
    let found = walked(
        &link,
        None,
        &[
            "/",
            "/records",
            "/records?event=denied",
            "/record?seq=2",
            "/record?seq=3",
            "/sites",
            &format!("/site?origin={origin}"),
            &format!("/ask?url={origin}%2Fprivate%2Fx&agent=ExampleBot"),
            "/exemptions",
            "/unknown",
            "/person?client=127.0.0.1",
            "/help",
        ],
    );
    drop(console);
    assert_fine(&found);
}

#[test]
fn the_pages_of_a_running_proxy_in_chromium() {
    let site = Site::with_rules(RULES);
    let place = served(&site);
    let serve = place.serve();
    for path in ["/private/a", "/private/b"] {
        assert_eq!(serve.get(&site.url(path)).status, 403);
    }
    let slow = Site::with_rules("User-agent: *\nCrawl-delay: 600\n");
    assert_eq!(serve.get(&slow.url("/first")).status, 200);
    let mut waiting = std::net::TcpStream::connect(serve.address()).expect("it listens");
    let head = format!("GET {} HTTP/1.0\r\n\r\n", slow.url("/second"));
    waiting.write_all(head.as_bytes()).expect("it reads");
    let said = place.run("console").stdout;
    let said = String::from_utf8(said).expect("text");
    let link = said.lines().find(|line| line.contains("/login?code=")).expect("a link");
    let live = serde_json::json!({
        "proxy": serve.address().to_string(), "url": site.url("/private/live"),
    });
    let of_site = format!("/site?origin={}", encoded_origin(&site));
    let paths = ["/", "/now", "/records", "/records?live=1", &of_site, "/help"];
    let found = walked(link.trim(), Some(live), &paths);
    drop(waiting);
    assert_fine(&found);
    let live = &found["live"];
    let counts: Vec<_> = live["counts"].as_array().expect("counts").clone();
    let [first, added, held, shown] = [0, 1, 2, 3].map(|at| counts[at].as_u64().unwrap());
    assert_eq!((added, held, shown), (first + 1, first + 1, first + 2), "{live}");
    assert_eq!((&live["held"], &live["is_as_loaded"]), (&true.into(), &true.into()), "{live}");
}
