//! The recipes of the book (docs/guide/recipes) and their page (docs/guide/pace.md), run as printed: the files of a page are written, its
//! commands run by a shell, and what they print is what the page shows. `example.com` is a site of the
//! test's own, behind a parent proxy that the settings name.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use courtesy::runtime::clock::monotonic;
use rustix::time::{ClockId, clock_gettime};
use tempfile::TempDir;

use crate::clients::support::{apt, end, modules, node, python};
use crate::testkit::parties::{Origin, Parent, Script, Speaks, answer, ok_with, tls};
use crate::testkit::spacing::{LATENESS, assert_origin_spaced, assert_spaced};

const DELAY: Duration = Duration::from_millis(300);
const ROBOTS: &str = "User-agent: *\nCrawl-delay: 0.3\nDisallow: /private/\n";
const HTML: &str = "Content-Type: text/html\r\n";

/// What of a page is run.
struct Page {
    files: Vec<(String, String)>,
    /// Commands, with what they print.
    commands: Vec<(String, String)>,
}

impl Page {
    /// A block of a program is the file that the last line before it ends with; a block of a console has
    /// commands after "$ ", which go on after a "\".
    fn read(name: &str) -> Self {
        let path = format!("{}/docs/guide/{name}.md", env!("CARGO_MANIFEST_DIR"));
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let (mut files, mut commands) = (Vec::new(), Vec::<(String, String)>::new());
        let mut before = "";
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let Some(kind) = line.strip_prefix("```") else {
                before = if line.is_empty() { before } else { line };
                continue;
            };
            let block: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
            match kind {
                "text" | "toml" => {}
                "console" => commands.extend(console(&block)),
                _ => {
                    let name = before.strip_suffix("`:").and_then(|it| it.rsplit('`').next());
                    let name = name.unwrap_or_else(|| panic!("{path}: no name in {before:?}"));
                    files.push((name.to_owned(), block.join("\n") + "\n"));
                }
            }
        }
        assert!(!commands.is_empty(), "{path} has no command");
        Self { files, commands }
    }
}

fn console(block: &[&str]) -> Vec<(String, String)> {
    let mut commands = Vec::<(String, String)>::new();
    let mut goes_on = false;
    for line in block {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => commands.push((command.to_owned(), String::new())),
            (None, Some((command, _))) if goes_on => *command += &format!("\n{line}"),
            (None, Some((_, output))) => *output += &format!("{line}\n"),
            (None, None) => panic!("{line:?} is of no command"),
        }
        goes_on = line.ends_with('\\');
    }
    commands
}

/// What the recipes crawl: a front page with links, one page that asks for a rest the first time, one
/// that is denied.
struct World {
    origin: Origin,
    parent: Parent,
    directory: TempDir,
}

impl World {
    /// One page of which asks for a rest the first time it is asked for.
    fn new() -> Self {
        let links = ["/news/1", "/news/2", "/news/3", "/private/report"];
        let links: String =
            links.iter().map(|link| format!("<a href=\"{link}\">{link}</a>\n")).collect();
        let page = |text: &str| ok_with(HTML, format!("<!doctype html><title>{text}</title>\n"));
        let tired = format!("{HTML}Retry-After: 1\r\n");
        let origin = Origin::secure()
            .robots(ROBOTS)
            .on("/", ok_with(HTML, format!("<!doctype html><title>news</title>\n{links}")))
            .on("/news/1", page("1"))
            .on("/news/2", Script::default().send(answer(429, &tired, "enough")))
            .then("/news/2", page("2"))
            .on("/news/3", page("3"));
        Self::of(origin)
    }

    /// The same with another site.
    fn of(origin: Origin) -> Self {
        let parent = Parent::start(Speaks::Http);
        parent.leads(443, origin.address().port());
        let directory = TempDir::new().expect("a directory");
        let world = Self { origin, parent, directory };
        let settings = format!(
            "state_dir = {:?}\n[tls]\nroots = \"bundled\"\nextra_roots = [{:?}]\n[egress]\nparent = {:?}\n\
             parent_resolve = \"parent\"\n",
            world.path("state"),
            world.path("origins.pem"),
            world.parent.url()
        );
        fs::write(world.path("courtesy.toml"), settings).expect("a file");
        fs::write(world.path("origins.pem"), tls::origins_ca()).expect("a file");
        for name in ["bin", "home", "work", "tmp"] {
            fs::create_dir(world.path(name)).expect("a directory");
        }
        let courtesy = world.path("bin/courtesy");
        symlink(env!("CARGO_BIN_EXE_courtesy"), courtesy).expect("a link");
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A program `name` that is `command` in words of a shell.
    fn program(&self, name: &str, command: &str) {
        let file = self.path("bin").join(name);
        fs::write(&file, format!("#!/bin/sh\nexec {command} \"$@\"\n")).expect("a file");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("its mode");
    }

    /// A line of a shell, where `courtesy` and the programs are.
    fn shell(&self, line: &str) -> Command {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", line])
            .env_clear()
            .env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", self.path("bin").display()))
            .env("HOME", self.path("home"))
            .env("TMPDIR", self.path("tmp"))
            .env("LC_ALL", "C.UTF-8")
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("GOCACHE", concat!(env!("CARGO_TARGET_TMPDIR"), "/go"))
            .env("COURTESY_CONFIG", self.path("courtesy.toml"))
            .stdin(Stdio::null())
            .current_dir(self.path("work"));
        shell
    }

    #[track_caller]
    fn run_page(&self, name: &str) {
        let page = Page::read(name);
        for (file, text) in &page.files {
            fs::write(self.path("work").join(file), text).expect("a file");
        }
        for (command, output) in &page.commands {
            let ended = end(&mut self.shell(command));
            assert_eq!(&ended.stdout, output, "{command}\n{}", ended.stderr);
            assert_eq!(ended.code, Some(0), "{command}\n{}", ended.stderr);
        }
    }

    /// Runs a recipe, and looks how the site was asked.
    #[track_caller]
    fn run(&self, name: &str) {
        self.run_page(&format!("recipes/{name}"));
        assert_eq!(self.origin.count("/private/report"), 0);
        let log = self.origin.log();
        let at = |wanted: &dyn Fn(&str) -> bool| -> Vec<_> {
            log.requests.iter().filter(|it| wanted(it.path())).map(|it| it.at).collect()
        };
        // What a browser loads for a page has no delay.
        let pages = at(&|path| path == "/" || path.starts_with("/news/"));
        assert_spaced(at(&|path| path == "/robots.txt")[0], &pages, DELAY);
        drop(log);
        assert!(self.origin.count("/news/2") >= 2, "it is asked for again after its rest");
    }

    #[track_caller]
    fn with_python(self, module: &str) -> Self {
        self.program("python3", &python(module));
        self
    }

    #[track_caller]
    fn with_node(self) -> Self {
        self.program("node", &node());
        symlink(modules(), self.path("work/node_modules")).expect("a link");
        self
    }
}

/// Twice, with the add-on and without it, with a 429 for the first alone.
#[test]
fn scrapy() {
    let world = World::new();
    let addon = concat!(env!("CARGO_MANIFEST_DIR"), "/integrations/scrapy/src");
    let scrapy = format!("env PYTHONPATH={addon} {} -m scrapy", python("scrapy"));
    world.program("scrapy", &scrapy);
    world.run("scrapy");
    assert_eq!(world.origin.arrivals().len(), 5 + 4);
}

/// Three clients, one after the other, with a 429 for the first alone.
#[test]
fn python_clients() {
    let world = World::new().with_python("requests, httpx, aiohttp");
    world.run("python");
}

#[test]
fn playwright() {
    apt("chromium", "chromium");
    apt("certutil", "libnss3-tools");
    World::new().with_node().run("playwright");
}

#[test]
fn crawlee() {
    World::new().with_node().run("crawlee");
}

#[test]
fn wget() {
    let world = World::new();
    world.run("wget");
    assert_eq!(world.origin.arrivals().len(), 5);
}

#[test]
#[ignore = "nightly"]
fn go() {
    apt("go", "golang-go");
    World::new().run("go");
}

#[test]
fn many_runs() {
    World::new().run("many-runs");
}

/// The page that the recipes are for.
#[test]
fn slow_on_purpose() {
    let origin = Origin::secure().robots("User-agent: *\nCrawl-delay: 2\n");
    let world = World::of(origin);
    world.run_page("pace");
    assert_origin_spaced(&world.origin, 2, Duration::from_secs(2));
}

/// Scrapy with 16 requests at a time and its own defaults gets every page of a site that asks for a delay:
/// its timeout of 180 s is longer than 16 delays of 10 s, and so is a twentieth of both.
#[test]
fn scrapy_by_its_defaults_loses_no_page() {
    default_spider(Duration::from_millis(500), "9");
}

#[test]
#[ignore = "nightly"]
fn scrapy_by_its_defaults_loses_no_page_of_a_slow_site() {
    default_spider(Duration::from_secs(10), "180");
}

#[track_caller]
fn default_spider(delay: Duration, timeout: &str) {
    const PAGES: usize = 24;
    let spider = r#"
import scrapy


class All(scrapy.Spider):
    name = "all"
    start_urls = ["https://example.com/%d" % number for number in range(24)]
    pages = 0

    def parse(self, response):
        self.pages += 1

    def closed(self, reason):
        stats = self.crawler.stats
        print(self.pages, stats.get_value("retry/count", 0), stats.get_value("downloader/exception_count", 0))
"#;
    let robots = format!("User-agent: *\nCrawl-delay: {}\n", delay.as_secs_f64());
    let world = World::of(Origin::secure().robots(&robots));
    world.program("scrapy", &format!("{} -m scrapy", python("scrapy")));
    fs::write(world.path("work/all.py"), spider).expect("a file");
    let command = format!(
        "courtesy run -- scrapy runspider -s CONCURRENT_REQUESTS=16 -s CONCURRENT_REQUESTS_PER_DOMAIN=16 \
         -s DOWNLOAD_TIMEOUT={timeout} -L ERROR all.py"
    );
    let output = world.shell(&command).output().expect("a shell");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "24 0 0\n", "{said}");
    assert_origin_spaced(&world.origin, PAGES, delay);
}

/// httpx gives up after 5 s by default.
#[test]
fn no_turn_is_spent_on_a_client_that_has_left() {
    leaving_clients(
        "httpx",
        "with httpx.Client() as client:
            return client.get(url).status_code
    except httpx.TimeoutException:",
    );
}

#[test]
#[ignore = "nightly"]
fn no_turn_is_spent_on_a_client_that_leaves_after_ten_seconds() {
    leaving_clients(
        "requests",
        "return requests.get(url, timeout=10).status_code
    except requests.exceptions.Timeout:",
    );
}

/// 64 threads of a client that gives up. What it gave up is not sent, so that those that stay have each
/// turn, and is in the list of what is missing.
#[track_caller]
fn leaving_clients(module: &str, fetch: &str) {
    const DELAY: Duration = Duration::from_secs(1);
    let program = format!(
        r#"
import time
from concurrent.futures import ThreadPoolExecutor

import {module}


def fetch(number):
    url = "https://example.com/%d" % number
    try:
        {fetch}
        return time.clock_gettime(time.CLOCK_MONOTONIC)


with ThreadPoolExecutor(max_workers=64) as pool:
    found = list(pool.map(fetch, range(64)))
for number, status in enumerate(found):
    print(number, status)
"#
    );
    let world = World::of(Origin::secure().robots("User-agent: *\nCrawl-delay: 1\n"));
    let world = world.with_python(module);
    fs::write(world.path("work/crawl.py"), program).expect("a file");
    let ended = end(&mut world.shell("courtesy run -- python3 crawl.py"));
    let found: Vec<_> = ended.stdout.lines().filter_map(|line| line.split_once(' ')).collect();
    assert_eq!(found.len(), 64, "{ended:#?}");
    let (got, left): (Vec<_>, Vec<_>) = found.into_iter().partition(|(_, status)| *status == "200");
    assert!(!got.is_empty() && left.len() > 32, "{ended:#?}");
    let run = fs::read_dir(world.path("state/runs")).expect("a directory").flatten().next();
    let missing = run.expect("the run").path().join("missing.tsv");
    let missing = fs::read_to_string(missing).expect("the list of what is missing");
    let missing: BTreeSet<_> = missing.lines().filter_map(|line| line.split('\t').next()).collect();
    for (number, status) in got.iter().chain(&left) {
        let is_missing = missing.contains(&*format!("https://example.com/{number}"));
        // The answer of one that was sent may have come as its client left.
        let is_either = *status != "200" && world.origin.count(&format!("/{number}")) > 0;
        assert!(is_either || is_missing == (*status != "200"), "{number} {status} {missing:?}");
    }
    let (now, time) = (monotonic(), clock_gettime(ClockId::Monotonic));
    let time = Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32);
    for request in &world.origin.log().requests {
        let page = request.path().trim_start_matches('/');
        let left_at = left.iter().find(|(number, _)| *number == page).map(|(_, at)| at.parse());
        if let Some(left_at) = left_at {
            let left_at = Duration::from_secs_f64(left_at.expect("a time"));
            // One that was sent before its client left may be answered too late.
            let sent_at = time - (now - request.at);
            assert!(sent_at < left_at + LATENESS, "{page}: {sent_at:?} {left_at:?}");
        }
    }
    assert_origin_spaced(&world.origin, world.origin.arrivals().len(), DELAY);
}

#[test]
fn every_recipe_is_run() {
    let pages = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/guide/recipes"));
    let mut names: Vec<_> = pages
        .expect("a directory")
        .flatten()
        .map(|entry| entry.path().file_stem().unwrap_or_default().to_string_lossy().into_owned())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["crawlee", "go", "many-runs", "playwright", "python", "scrapy", "wget"]);
}
