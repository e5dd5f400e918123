//! Real crawlers, their own robots handling switched off: what they get through the proxy is what
//! the site's robots.txt allows, and every refusal has its record.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::admin::metrics;
use crate::testkit::parties::{Origin, Proxy, Script, answer, ok_with};
use crate::testkit::processes::scale;
use crate::testkit::spacing::{LATENESS, assert_origin_spaced};

/// Only a crawl that hangs takes so long.
const PATIENCE: Duration = Duration::from_secs(120);

/// What follows the Crawl-delay.
const RULES: &str = "\
Disallow: /private/
Disallow: /*/draft-
Disallow: /*.pdf$
Disallow: /search?
Allow: /private/press/

User-agent: OtherBot
Disallow: /
";

/// The pages of the site, and whether robots.txt allows them.
const PAGES: &[(&str, bool)] = &[
    ("/", true),
    ("/about", true),
    ("/contact.html", true),
    ("/news/", true),
    ("/news/1", true),
    ("/news/2", true),
    ("/news/3", true),
    ("/news/draft-1", false),
    ("/news/draft-2", false),
    ("/news/redraft-3", true),
    ("/docs/a.html", true),
    ("/docs/b.html", true),
    ("/docs/manual.pdf", false),
    ("/docs/manual.pdf.html", true),
    ("/docs/%64raft-x", false),
    ("/docs/caf%C3%A9", true),
    ("/private/", false),
    ("/private/a", false),
    ("/private/b.html", false),
    ("/private/press/", true),
    ("/private/press/1", true),
    ("/private/press/draft-1", true),
    ("/PRIVATE/c", true),
    ("/privately", true),
    ("/search", true),
    ("/search?q=a", false),
    ("/list?page=1", true),
    ("/list?page=2", true),
    ("/list?file=x.pdf", false),
    ("/moved", true),
    ("/leads-inside", true),
];

/// Redirects, and where to: the second leads into what is disallowed.
const REDIRECTS: &[(&str, &str)] = &[("/moved", "/about"), ("/leads-inside", "/private/secret")];

/// Found only by the redirect.
const SECRET: &str = "/private/secret";

/// The Crawl-delay of the site; a second by `COURTESY_TEST_CRAWL_DELAY_MS=1000`.
fn delay() -> Duration {
    Duration::from_millis(scale("COURTESY_TEST_CRAWL_DELAY_MS", 200) as u64)
}

fn site() -> Origin {
    let mut links = String::new();
    for (path, _) in PAGES {
        let _ = write!(links, "<li><a href=\"{path}\">{path}</a></li>");
    }
    let html = |title: &str| {
        let page = format!("<!doctype html><html><title>{title}</title><ul>{links}</ul></html>\n");
        ok_with("Content-Type: text/html; charset=utf-8\r\n", page)
    };
    let asked = format!("User-agent: *\nCrawl-delay: {}\n{RULES}", delay().as_secs_f64());
    let mut origin = Origin::with_robots(&asked);
    for (path, _) in PAGES {
        origin = origin.on(path, html(path));
    }
    for (path, to) in REDIRECTS {
        let location = format!("Location: {}\r\n", origin.url(to));
        origin = origin.on(path, Script::default().send(answer(302, &location, "")));
    }
    origin.on(SECRET, html("nobody sees this"))
}

fn expected(allowed: bool) -> BTreeSet<String> {
    let mut paths: BTreeSet<_> =
        PAGES.iter().filter(|(_, is)| *is == allowed).map(|(path, _)| (*path).to_owned()).collect();
    if !allowed {
        paths.insert(SECRET.into());
    }
    paths
}

/// What the origin saw, and what the records say, after `crawl` has been through the proxy.
#[track_caller]
fn assert_polite(origin: &Origin, proxy: &Proxy) {
    let requests = origin.request_lines();
    let seen: BTreeSet<_> = requests.iter().filter_map(|line| line.strip_prefix("GET ")).collect();
    let allowed = expected(true);
    let mut wanted: BTreeSet<_> = allowed.iter().map(String::as_str).collect();
    wanted.insert("/robots.txt");
    assert_eq!(seen, wanted, "what reached the site");
    assert_eq!(origin.count("/robots.txt"), 1);

    assert_origin_spaced(origin, origin.arrivals().len(), delay());
    let refused: f64 = metrics(proxy)
        .iter()
        .filter(|(name, _)| name.starts_with("courtesy_pace_refusals_total"))
        .map(|(_, count)| count)
        .sum();
    assert_eq!(refused, 0.0, "each request was held until its time");

    let records = proxy.records();
    let refused: BTreeSet<_> = records.iter().filter_map(|record| record["url"].as_str()).collect();
    let disallowed: Vec<_> = expected(false).iter().map(|path| origin.url(path)).collect();
    assert_eq!(refused, disallowed.iter().map(String::as_str).collect(), "what the records say");
    assert!(
        records
            .iter()
            .all(|record| record["event"] == "denied" && record["reason"] == "disallow_rule")
    );
}

/// A command that has been told of no proxy by the environment of the tests.
fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    // Names of files are written as the locale says.
    command.env("LC_ALL", "C.UTF-8");
    for name in ["http_proxy", "https_proxy", "all_proxy", "no_proxy"] {
        command.env_remove(name).env_remove(name.to_ascii_uppercase());
    }
    command
}

/// Runs `command` to its end, and returns its exit code and everything it said.
#[track_caller]
fn run(command: &mut Command) -> (Option<i32>, String) {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child =
        command.spawn().unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    let id = child.id();
    let (sender, ended) = mpsc::channel();
    let waiting = std::thread::spawn(move || {
        let _ = sender.send(child.wait_with_output());
    });
    let Ok(output) = ended.recv_timeout(PATIENCE) else {
        let _ = Command::new("kill").arg(id.to_string()).status();
        panic!("{command:?} has not ended after {PATIENCE:?}");
    };
    waiting.join().expect("it only waits");
    let output = output.expect("its output");
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn wget_gets_what_is_allowed_and_no_more() {
    let origin = site();
    let proxy = Proxy::start();
    let into = TempDir::new().expect("a directory");
    let (code, said) = run(command("wget")
        .args([
            "--recursive",
            "--level=inf",
            "--no-verbose",
            "--tries=1",
            "--timeout=60",
            "--no-config",
        ])
        .args(["--user-agent=ExampleBot/1.0", "-e", "robots=off", "-e", "use_proxy=on"])
        .args(["-e", &format!("http_proxy=http://{}", proxy.address())])
        .arg("--directory-prefix")
        .arg(into.path())
        .arg(origin.url("/")));
    assert_eq!(code, Some(8), "8: the server answered with errors, as it did with 403. {said}");
    assert_polite(&origin, &proxy);

    // "/leads-inside" is allowed and leads to what is not: there is nothing to be saved.
    let pages = expected(true).into_iter().filter(|path| path != "/leads-inside");
    let wanted = pages.map(|path| match path.strip_suffix('/') {
        Some(directory) => format!("{directory}/index.html"),
        None => path.replace("%C3%A9", "\u{e9}"),
    });
    let site = into.path().join(origin.address().to_string());
    assert_eq!(files(&site, &site), wanted.collect(), "what was saved");
}

/// The files below `directory`, as paths from `root`.
fn files(directory: &Path, root: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path, root));
        } else {
            let path = path.strip_prefix(root).expect("it is below");
            found.insert(format!("/{}", path.display()));
        }
    }
    found
}

const SPIDER: &str = r#"
import scrapy

class Spider(scrapy.Spider):
    name = "everything"

    def parse(self, response):
        yield {
            "url": response.url,
            "status": response.status,
            "record": (response.headers.get("Courtesy-Record") or b"").decode(),
        }
        if response.status == 200:
            for href in response.css("a::attr(href)").getall():
                yield response.follow(href, self.parse)
"#;

/// The Python with Scrapy: `$COURTESY_TEST_PYTHON`, else the one that `tests/setup-python.sh` makes.
#[expect(clippy::disallowed_methods, reason = "a test has no settings to take it from")]
fn python() -> PathBuf {
    let made = || Path::new(env!("CARGO_MANIFEST_DIR")).join("target/test-python/bin/python");
    let python = std::env::var_os("COURTESY_TEST_PYTHON").map_or_else(made, PathBuf::from);
    let found = Command::new(&python).args(["-c", "import scrapy"]).output();
    assert!(
        found.as_ref().is_ok_and(|output| output.status.success()),
        "Scrapy is not there. Run tests/setup-python.sh, which installs it into target/test-python, or set \
         COURTESY_TEST_PYTHON to a Python that has it (tests/requirements.txt). Tried {}: {found:?}",
        python.display()
    );
    python
}

#[test]
fn scrapy_gets_what_is_allowed_and_no_more() {
    let python = python();
    let origin = site();
    let proxy = Proxy::start();
    let directory = TempDir::new().expect("a directory");
    let spider = directory.path().join("spider.py");
    std::fs::write(
        &spider,
        SPIDER.replace(
            "\"everything\"",
            &format!("\"everything\"\n    start_urls = [{:?}]", origin.url("/")),
        ),
    )
    .expect("a file");
    let (code, said) = run(command(python)
        .args([
            "-m",
            "scrapy",
            "runspider",
            "-O",
            "items.jsonl:jsonlines",
            "-s",
            "ROBOTSTXT_OBEY=False",
        ])
        .args([
            "-s",
            "HTTPERROR_ALLOW_ALL=True",
            "-s",
            "TELNETCONSOLE_ENABLED=False",
            "-s",
            "LOG_LEVEL=INFO",
        ])
        .args(["-s", "CONCURRENT_REQUESTS=16", "-s", "CONCURRENT_REQUESTS_PER_DOMAIN=16"])
        .args(["-s", "USER_AGENT=ExampleBot/1.0 (+http://bot.example/)"])
        .arg(&spider)
        .current_dir(directory.path())
        .env("http_proxy", format!("http://{}", proxy.address())));
    assert_eq!(code, Some(0), "{said}");
    assert_polite(&origin, &proxy);

    let items =
        std::fs::read_to_string(directory.path().join("items.jsonl")).expect("what it scraped");
    let items: Vec<Value> =
        items.lines().map(|line| serde_json::from_str(line).expect("an item")).collect();
    let records = proxy.records();
    let of = |status: u64| -> BTreeSet<&str> {
        items
            .iter()
            .filter(|item| item["status"] == status)
            .filter_map(|item| item["url"].as_str())
            .collect()
    };
    let pages = expected(true);
    let pages = pages.iter().filter(|path| REDIRECTS.iter().all(|(from, _)| from != path));
    let pages: Vec<_> = pages.map(|path| origin.url(path)).collect();
    assert_eq!(of(200), pages.iter().map(String::as_str).collect(), "{said}");
    assert_eq!(of(403).len(), expected(false).len());
    for item in items.iter().filter(|item| item["status"] == 403) {
        let record = records.iter().find(|record| record["id"] == item["record"]);
        let record = record.unwrap_or_else(|| panic!("no record of {item}"));
        assert_eq!(record["url"], item["url"]);
    }
}

/// Debian's Chromium, which loads `url` through `proxy` and prints the document.
fn chromium(profile: &TempDir, proxy: &Proxy, url: &str) -> Command {
    let mut chromium = command("chromium");
    chromium
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"])
        .args(["--disable-component-update", "--disable-sync", "--no-first-run"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("--proxy-server=http://{}", proxy.address()))
        .args(["--proxy-bypass-list=<-loopback>", "--dump-dom"])
        .arg(url);
    chromium
}

/// Debian's Chromium, before a site that asks for ten seconds: its pictures come with the page.
#[test]
fn chromium_loads_a_page_of_eighty_pictures_as_one_start() {
    let pictures: String =
        (0..80).map(|number| format!("<img src=\"/{number}.png\" alt=\"\">")).collect();
    let page = ok_with("Content-Type: text/html\r\n", format!("<!doctype html>{pictures}"));
    let origin = Origin::with_robots("User-agent: *\nCrawl-delay: 10\n").on("/page", page);
    let (proxy, profile) = (Proxy::start(), TempDir::new().expect("a directory"));
    let (code, said) = run(&mut chromium(&profile, &proxy, &origin.url("/page")));
    assert_eq!(code, Some(0), "{said}");
    let arrivals: Vec<_> = origin
        .log()
        .requests
        .iter()
        .filter(|request| request.path() == "/page" || request.path().ends_with(".png"))
        .map(|request| request.at)
        .collect();
    assert_eq!(arrivals.len(), 81, "{said}");
    assert!(arrivals[80] - arrivals[0] < Duration::from_secs(10));
    let document = "Sec-Fetch-Dest: document\r\nPrefer: wait=0\r\n";
    let next = proxy.exchange("GET", &origin.url("/page"), document);
    assert_eq!(next.status(), 429, "the next page has its own turn");
    let (code, said) = run(&mut chromium(&profile, &proxy, &origin.url("/next")));
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("this is /next"), "waited for, and shown: {said}");
    let distance = origin.received("/next").at - arrivals[0];
    println!("the next page came {distance:?} after the first");
    assert!(distance + LATENESS >= Duration::from_secs(10), "{distance:?}");
}
