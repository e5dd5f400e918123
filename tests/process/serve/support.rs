//! A serving process, commands beside it, and plain requests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tempfile::TempDir;

/// How long anything that must happen may take. Only a failing test takes so long.
const DEADLINE: Duration = Duration::from_secs(20);

/// The program with this state directory and a plain environment.
pub fn courtesy(state_dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_courtesy"));
    command.args(arguments).env_clear().env("COURTESY__STATE_DIR", state_dir).stdin(Stdio::null());
    // The system's roots take longer to read than most tests.
    command.env("COURTESY__TLS__ROOTS", "bundled");
    command
}

/// How a command ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

pub fn end(command: &mut Command) -> Ended {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let [stdout, stderr] = [stdout, stderr].map(|text| String::from_utf8(text).unwrap());
    Ended { code: status.code(), stdout, stderr }
}

/// A directory for state, with a name short enough for a socket in it.
pub fn state_dir() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// `courtesy serve` on free ports; killed when dropped.
pub struct Served {
    child: Child,
    log: BufReader<ChildStderr>,
    state_dir: PathBuf,
    /// What it said until it listened.
    pub said: String,
    pub proxy: SocketAddr,
    pub admin: Option<SocketAddr>,
}

impl Served {
    #[track_caller]
    pub fn start(state_dir: &Path, arguments: &[&str]) -> Self {
        Self::begin(state_dir, arguments, |command| command)
    }

    /// The same, by a command that `wrap` makes of the plain one.
    #[track_caller]
    pub fn begin(
        state_dir: &Path,
        arguments: &[&str],
        wrap: impl FnOnce(Command) -> Command,
    ) -> Self {
        let free =
            ["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--allow-private"];
        let mut arguments: Vec<&str> = free.into_iter().chain(arguments.iter().copied()).collect();
        if arguments.iter().filter(|it| **it == "--admin").count() > 1 {
            arguments.drain(3..5);
        }
        Self::of(wrap(courtesy(state_dir, &arguments)), state_dir)
    }

    /// A command that serves, as it is.
    #[track_caller]
    pub fn of(mut command: Command, state_dir: &Path) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        let mut admin = None;
        let proxy = loop {
            let mut line = String::new();
            assert!(log.read_line(&mut line).unwrap() > 0, "it ended: {said}");
            said.push_str(&line);
            let address = address_in(&line);
            if line.contains("health and metrics") {
                admin = address;
            } else if line.contains("listening") {
                break address.unwrap();
            }
        };
        Self { child, log, state_dir: state_dir.into(), said, proxy, admin }
    }

    /// A page through the proxy: the status.
    #[track_caller]
    pub fn get(&self, url: &str) -> u16 {
        let host = url.split('/').nth(2).unwrap();
        let request = format!(
            "GET {url} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: ExampleBot\r\nConnection: close"
        );
        status(&exchange(self.proxy, &request))
    }

    /// A command beside it, in the same state directory.
    pub fn beside(&self, arguments: &[&str]) -> Ended {
        end(&mut courtesy(&self.state_dir, arguments))
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    #[track_caller]
    pub fn signal(&self, name: &str) {
        let id = self.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }

    /// What the admin listener answers to a question for `path`, head and all.
    #[track_caller]
    pub fn ask_admin(&self, path: &str) -> String {
        let admin = self.admin.expect("an admin listener");
        exchange(admin, &format!("GET {path} HTTP/1.1\r\nHost: {admin}"))
    }

    /// A number of `/metrics`.
    #[track_caller]
    pub fn metric(&self, name: &str) -> f64 {
        let metrics = self.ask_admin("/metrics");
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name}: {metrics}")).parse().unwrap()
    }

    /// Waits until a metric has this value.
    #[track_caller]
    pub fn wait_for(&self, name: &str, value: f64) {
        until(name, || self.metric(name) == value);
    }

    /// Waits for its end; the code, and what it said since it listened.
    pub fn wait(mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        self.log.read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code(), said)
    }

    /// Ends it as systemd does; what it said since it listened.
    #[track_caller]
    pub fn terminate(mut self) -> String {
        self.signal("TERM");
        let mut said = String::new();
        self.log.read_to_string(&mut said).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{said}");
        said
    }

    /// Ends it as nobody should.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The address that a line of the log tells, as text or as JSON.
fn address_in(line: &str) -> Option<SocketAddr> {
    let text = line.split_once("address=").or_else(|| line.split_once("\"address\":\""))?.1;
    text.split(['"', ' ', '\n']).next()?.parse().ok()
}

/// Waits until `seen` holds, for what tells of no change by itself.
#[track_caller]
pub fn until(what: &str, mut seen: impl FnMut() -> bool) {
    let end = courtesy::runtime::clock::monotonic() + DEADLINE;
    while !seen() {
        assert!(courtesy::runtime::clock::monotonic() < end, "it did not happen: {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// One exchange on a connection of its own: all that comes back.
#[track_caller]
pub fn exchange(address: SocketAddr, head: &str) -> String {
    let mut stream = TcpStream::connect_timeout(&address, DEADLINE).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(format!("{head}\r\n\r\n").as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8(answer).unwrap()
}

#[track_caller]
pub fn status(answer: &str) -> u16 {
    answer
        .get(9..12)
        .and_then(|status| status.parse().ok())
        .unwrap_or_else(|| panic!("no answer: {answer}"))
}

/// A site that counts how often its robots.txt is asked for; it is there as long as the test runs.
pub struct Site {
    pub origin: String,
    asked: Arc<AtomicUsize>,
}

impl Site {
    pub fn start(robots_txt: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let counter = Arc::clone(&counter);
                std::thread::spawn(move || answer(stream.unwrap(), robots_txt, &counter));
            }
        });
        Self { origin, asked }
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.origin)
    }

    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

fn answer(mut stream: TcpStream, robots_txt: &str, asked: &AtomicUsize) {
    let mut request = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let line = request.next().unwrap_or_default();
    request.find(String::is_empty);
    let body = if line.contains(" /robots.txt ") {
        asked.fetch_add(1, Ordering::SeqCst);
        robots_txt
    } else {
        "a page\n"
    };
    let length = body.len();
    let _ = write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    let _ = stream.read(&mut [0]);
}
