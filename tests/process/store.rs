//! What `courtesy serve` knows of origins, over its own end and a disk that is full.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

/// A site on every address of loopback: origins as many as there are addresses. It disallows
/// /private/, in a file that is large and not the same for any two.
struct Site {
    port: u16,
    fetches: Arc<AtomicUsize>,
}

impl Site {
    fn start(robots_bytes: usize) -> Self {
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let site = Self { port: listener.local_addr().unwrap().port(), fetches: Arc::default() };
        let fetches = Arc::clone(&site.fetches);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let fetches = Arc::clone(&fetches);
                std::thread::spawn(move || answer(stream.unwrap(), robots_bytes, &fetches));
            }
        });
        site
    }

    fn url(&self, host: usize, path: &str) -> String {
        format!("http://127.0.1.{host}:{}{path}", self.port)
    }

    fn fetches(&self) -> usize {
        self.fetches.load(Ordering::SeqCst)
    }
}

fn answer(mut stream: TcpStream, robots_bytes: usize, fetches: &AtomicUsize) {
    let address = stream.local_addr().unwrap();
    let mut request = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let line = request.next().unwrap_or_default();
    request.find(String::is_empty);
    let mut body = String::from("a page\n");
    if line.contains(" /robots.txt ") {
        fetches.fetch_add(1, Ordering::SeqCst);
        body = "User-agent: *\nDisallow: /private/\n".into();
        let name = address.ip().to_string();
        let mut number =
            name.bytes().fold(1_u64, |number, byte| number.wrapping_mul(31) + u64::from(byte));
        while body.len() < robots_bytes {
            number = number
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            body += &format!("# {number:x}\n");
        }
    }
    let length = body.len();
    let _ = write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
}

/// A running `courtesy serve`; killed when dropped.
struct Served {
    child: Child,
    address: SocketAddr,
    log: Option<JoinHandle<String>>,
}

impl Served {
    fn start(state: &Path) -> Self {
        Self::by(Command::new(env!("CARGO_BIN_EXE_courtesy")), state)
    }

    /// With files that cannot grow beyond `kilobytes`, as on a disk that is full.
    fn on_a_full_disk(state: &Path, kilobytes: usize) -> Self {
        let mut command = Command::new("sh");
        let program = env!("CARGO_BIN_EXE_courtesy");
        // POSIX counts in blocks of 512 bytes.
        let script = format!("trap '' XFSZ; ulimit -f {}; exec {program} \"$@\"", 2 * kilobytes);
        command.args(["-c", &script, "sh"]);
        Self::by(command, state)
    }

    fn by(mut command: Command, state: &Path) -> Self {
        command
            .args([
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--admin",
                "off",
                "--workers",
                "1",
                "--allow-private",
            ])
            .arg("--state-dir")
            .arg(state)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", state);
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        let address = loop {
            let mut line = String::new();
            assert_ne!(log.read_line(&mut line).unwrap(), 0, "it ended: {said}");
            said += &line;
            if let Some((_, address)) = line.split_once("listening address=") {
                break address.trim().parse().unwrap();
            }
        };
        let log = std::thread::spawn(move || {
            log.read_to_string(&mut said).unwrap();
            said
        });
        Self { child, address, log: Some(log) }
    }

    /// The status of an answer.
    fn get(&self, url: &str) -> u16 {
        let mut stream = TcpStream::connect(self.address).unwrap();
        write!(
            stream,
            "GET {url} HTTP/1.1\r\nHost: x\r\nUser-Agent: ExampleBot/1.0\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.get(9..12).and_then(|code| code.parse().ok()).unwrap_or_else(|| panic!("{answer}"))
    }

    /// Stops as told by `signal`; what it said.
    fn stop(mut self, signal: &str) -> String {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
        self.child.wait().unwrap();
        self.log.take().unwrap().join().unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn an_origin_is_not_asked_again_after_a_restart() {
    let (site, dir) = (Site::start(100), tempfile::tempdir().unwrap());
    let served = Served::start(dir.path());
    assert_eq!((served.get(&site.url(1, "/")), served.get(&site.url(1, "/private/"))), (200, 403));
    served.stop("TERM");
    let served = Served::start(dir.path());
    assert_eq!((served.get(&site.url(1, "/private/")), served.get(&site.url(1, "/"))), (403, 200));
    assert_eq!(site.fetches(), 1);
}

#[test]
fn a_killed_process_leaves_a_store_that_serves() {
    let (site, dir) = (Site::start(100), tempfile::tempdir().unwrap());
    for round in 0..5 {
        let served = Served::start(dir.path());
        for host in 1..=20 {
            assert_eq!(served.get(&site.url(host, "/private/")), 403, "round {round}");
        }
        served.stop("KILL");
    }
    let served = Served::start(dir.path());
    assert_eq!(served.get(&site.url(1, "/private/")), 403);
    let said = served.stop("TERM");
    assert!(!said.contains("damaged"), "{said}");
    assert!(site.fetches() < 6 * 20, "nothing was ever remembered");
}

#[test]
fn a_full_disk_costs_only_the_memory_beyond_the_process() {
    let (site, dir) = (Site::start(300_000), tempfile::tempdir().unwrap());
    let served = Served::on_a_full_disk(dir.path(), 2048);
    for host in 1..=20 {
        assert_eq!(served.get(&site.url(host, "/private/")), 403, "{host}");
        assert_eq!(served.get(&site.url(host, "/")), 200, "{host}");
    }
    assert_eq!(site.fetches(), 20);
    let said = served.stop("TERM");
    assert_eq!(said.matches("stored in memory only").count(), 1, "{said}");
    // With room again it is a store like any other.
    let served = Served::start(dir.path());
    for host in 1..=20 {
        assert_eq!(served.get(&site.url(host, "/private/")), 403, "{host}");
    }
    let said = served.stop("TERM");
    assert!(!said.contains("stored in memory only"), "{said}");
}

#[test]
fn a_damaged_store_is_moved_aside_and_said() {
    let (site, dir) = (Site::start(100), tempfile::tempdir().unwrap());
    let folder = dir.path().join("state");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("state.db"), "this was no database").unwrap();
    let served = Served::start(dir.path());
    assert_eq!(served.get(&site.url(1, "/private/")), 403);
    let said = served.stop("TERM");
    assert!(said.contains("was damaged") && said.contains("state.damaged-"), "{said}");
    assert!(std::fs::read(folder.join("state.db")).unwrap().starts_with(b"SQLite format 3"));
}
