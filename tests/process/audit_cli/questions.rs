//! The twelve questions of docs/guide/audit-questions.md, each by the one command that the page has for it, over the log
//! of a proxy that was started ten times, killed twice, and given other settings three times while it served 65 origins.

use std::collections::{BTreeSet, HashMap};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::process::Command;
use std::sync::{Arc, Mutex};

use crate::testkit::parties::{Client, Origin, Parent, Speaks, tls};
use crate::testkit::processes::{Place, Serve, until};

const RULES: &str = "User-agent: *\nDisallow: /private/\nCrawl-delay: 0.01\n";
const NARROWER: &str = "User-agent: *\nDisallow: /private/\nDisallow: /new/\nCrawl-delay: 0.01\n";
const OBSERVE: &str = "[robots]\nmode = \"observe\"\n";
const EXEMPTION: &str = "[[exemptions]]\norigin = \"http://example.com\"\npaths = [\"/private/archive/\"]\n\
                         by = \"Jane Doe, example.com\"\nreason = \"research agreement\"\nuntil = \"2026-12-31\"\n";

/// What the sites say of their robots.txt, by name: a file, or none where it cannot be had. All others have [`RULES`].
type Robots = Arc<Mutex<HashMap<&'static str, Option<&'static str>>>>;

/// A server that is every site of port 80.
fn sites(robots: &Robots) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let robots = Arc::clone(robots);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let robots = Arc::clone(&robots);
            std::thread::spawn(move || answer(stream, &robots));
        }
    });
    port
}

fn answer(mut stream: TcpStream, robots: &Robots) -> Option<()> {
    let mut lines = BufReader::new(stream.try_clone().ok()?).lines().map_while(Result::ok);
    loop {
        let request = lines.next()?;
        let head: Vec<_> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
        let host = head
            .iter()
            .find_map(|line| line.to_ascii_lowercase().strip_prefix("host: ").map(str::to_owned))?;
        let said = robots.lock().unwrap().get(&*host).copied().unwrap_or(Some(RULES));
        let (status, body) = match (request.contains(" /robots.txt "), said) {
            (false, _) => (200, "a page\n"),
            (true, Some(file)) => (200, file),
            (true, None) => (503, ""),
        };
        let length = body.len();
        write!(stream, "HTTP/1.1 {status} Said\r\nContent-Length: {length}\r\n\r\n{body}").ok()?;
    }
}

/// The proxy, the sites, and where their names lead.
struct World {
    place: Place,
    robots: Robots,
    parent: Parent,
    _secure: Origin,
}

impl World {
    fn new() -> Self {
        let robots = Robots::default();
        let parent = Parent::start(Speaks::Http);
        parent.leads(80, sites(&robots));
        let secure = Origin::secure().robots(RULES);
        parent.leads(443, secure.address().port());
        let world = Self { place: Place::new(""), robots, parent, _secure: secure };
        std::fs::write(world.place.path().join("origins.pem"), tls::origins_ca()).unwrap();
        world.set("");
        world
    }

    fn set(&self, more: &str) {
        let roots = self.place.path().join("origins.pem");
        let settings = format!(
            "{more}\n[egress]\nparent = \"{}\"\nparent_resolve = \"parent\"\n[audit]\nretain = \"30d\"\n\
             [https]\ntunnel = [\"example.com\"]\nmixed = \"tunnel\"\n[tls]\nroots = \"bundled\"\nextra_roots = [{roots:?}]\n",
            self.parent.url(),
        );
        std::fs::write(self.place.configuration(), settings).unwrap();
    }

    fn reload(&self, serve: &Serve, more: &str) {
        let holds = || serve.said().matches("from now on other settings hold").count();
        let before = holds();
        self.set(more);
        serve.signal("HUP");
        until("the settings hold", || holds() > before);
    }

    /// That the statuses of these paths of a site are as expected.
    #[track_caller]
    fn ask(&self, serve: &Serve, site: &str, paths: &[(&str, u16)]) {
        for (path, status) in paths {
            let answer = serve.get(&format!("http://{site}{path}"));
            assert_eq!(answer.status, *status, "{site}{path}: {answer:?} {}", serve.said());
        }
    }

    fn says(&self, site: &'static str, file: Option<&'static str>) {
        self.robots.lock().unwrap().insert(site, file);
    }

    /// What a shell prints for a line, where `courtesy` has the settings of the proxy.
    #[track_caller]
    fn shell(&self, line: &str) -> String {
        let path = self.place.path();
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).env_clear().current_dir(path).env("HOME", path);
        shell.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", path.join("bin").display()));
        shell.env("COURTESY_CONFIG", self.place.configuration());
        shell.env("COURTESY__STATE_DIR", self.place.state_dir());
        let output = shell.output().unwrap();
        let [said, error] = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
        assert!(output.status.success(), "{line}: {said}{error}");
        said
    }
}

/// The life of a proxy: ten starts, two kills, three reloads.
fn lived(world: &World) {
    let start = |time: &str| world.place.serve_at(&format!("@2026-{time}:00"));
    let site = "example.com";
    // 1: long ago; retention removes it.
    let serve = start("09-01 08:00");
    world.ask(&serve, site, &[("/old", 200), ("/private/old", 403)]);
    serve.stop();
    // 2: each site is asked once.
    let serve = start("11-02 08:00");
    for number in 1..=62 {
        world.ask(&serve, &format!("site{number}.example"), &[("/", 200)]);
    }
    world.ask(&serve, site, &[("/a", 200), ("/b", 200), ("/new/a", 200), ("/private/a", 403)]);
    serve.stop();
    // 3: the file forbids more.
    world.says(site, Some(NARROWER));
    let serve = start("11-03 09:00");
    world.ask(&serve, site, &[("/new/b", 403), ("/a", 200)]);
    serve.stop();
    std::fs::write(world.place.path().join("heads.txt"), world.place.run("audit head").stdout)
        .unwrap();
    std::fs::write(world.place.path().join("key.txt"), world.place.run("audit key").stdout)
        .unwrap();
    // 4: killed.
    let serve = start("11-03 14:00");
    world.ask(&serve, site, &[("/private/a", 403)]);
    serve.kill();
    // 5: it observes, and then no more, with an exemption.
    let serve = start("11-03 15:00");
    world.reload(&serve, OBSERVE);
    world.ask(&serve, site, &[("/private/seen", 200)]);
    world.reload(&serve, EXEMPTION);
    world.ask(&serve, site, &[("/private/archive/1", 200), ("/private/b", 403)]);
    serve.stop();
    // 6: without it.
    let serve = start("11-03 16:00");
    world.reload(&serve, "");
    world.ask(&serve, site, &[("/private/archive/2", 403)]);
    serve.stop();
    // 7 to 9: a file that cannot be had, and a kill in between.
    world.says("down.example", None);
    let serve = start("11-04 08:00");
    world.ask(&serve, "down.example", &[("/", 403)]);
    serve.stop();
    let serve = start("11-04 09:05");
    world.ask(&serve, "down.example", &[("/", 403)]);
    serve.kill();
    world.says("down.example", Some(RULES));
    let serve = start("11-04 12:00");
    world.ask(&serve, "down.example", &[("/", 200)]);
    serve.stop();
    // 10: a tunnel.
    let serve = start("11-05 08:00");
    let tunnel = Client::connect(serve.address()).tunnel("example.com:443");
    world.ask(&serve, site, &[("/a", 200)]);
    drop(tunnel);
    serve.stop();
}

/// A question of the page, and its commands, each with the lines that are printed there of its answer.
type Question = (String, Vec<(String, Vec<String>)>);

fn questions() -> Vec<Question> {
    let page = include_str!("../../../docs/guide/audit-questions.md");
    let of = |section: &str| {
        let (title, rest) = section.split_once('\n').unwrap();
        let block = rest.split_once("```console\n").unwrap().1.split_once("```").unwrap().0;
        let mut commands = Vec::<(String, Vec<String>)>::new();
        for line in block.lines() {
            match line.strip_prefix("$ ") {
                Some(command) => commands.push((command.to_owned(), Vec::new())),
                None => commands.last_mut().unwrap().1.push(line.to_owned()),
            }
        }
        (title.to_owned(), commands)
    };
    page.split("\n## ").skip(1).map(of).collect()
}

/// Whether a line of an answer is in it; `…` stands for anything, and how it is laid out does not matter.
fn says(answer: &str, line: &str) -> bool {
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let answer = flat(answer);
    let mut rest = Some(&*answer);
    for part in line.split('…') {
        rest = rest.and_then(|rest| rest.split_once(flat(part).as_str())).map(|(_, rest)| rest);
    }
    rest.is_some()
}

#[test]
fn each_question_of_the_page_is_answered_by_its_command() {
    let world = World::new();
    std::fs::create_dir(world.place.path().join("bin")).unwrap();
    symlink(env!("CARGO_BIN_EXE_courtesy"), world.place.path().join("bin/courtesy")).unwrap();
    lived(&world);

    let log = world.place.log();
    let count = |event: &str| log.events(event).len();
    // Retention has removed the first start.
    assert_eq!((count("started"), count("stopped"), count("settings")), (9, 7, 3));
    let origins: BTreeSet<_> =
        log.lines.iter().filter_map(|line| line["origin"].as_str()).collect();
    assert_eq!(origins.len(), 65);

    let questions = questions();
    assert_eq!(questions.len(), 12);
    for (question, commands) in &questions {
        for (command, lines) in commands {
            let answer = world.shell(command);
            for line in lines {
                assert!(says(&answer, line), "{question}\n$ {command}\n{line} is not in\n{answer}");
            }
        }
    }
    // The fourth, at other hours.
    for (day, hour, state) in [
        ("2026-11-02", "20:00", "When it was on: Off 30 min"),
        ("2026-11-03", "14:15", "When it was on: Not known 30 min"),
        ("2026-11-04", "10:00", "When it was on: Not known 30 min"),
    ] {
        let until = format!("{}{}", &hour[..3], if hour.ends_with("15") { "45" } else { "30" });
        let answer = world.shell(&format!(
            "courtesy audit report --since '{day} {hour}' --until '{day} {until}'"
        ));
        assert!(says(&answer, state), "{day} {hour}: {answer}");
    }
    // The second, of a URL that was denied twice.
    let answer = world.shell("courtesy audit show http://example.com/private/a 2>&1");
    assert!(answer.contains("it is the last of 2 of that URL"), "{answer}");
    // The twelfth: nothing of another site.
    let lines = std::fs::read_to_string(world.place.path().join("lines.jsonl")).unwrap();
    assert!(lines.contains("http://example.com") && !lines.contains("site1.example"));
}
