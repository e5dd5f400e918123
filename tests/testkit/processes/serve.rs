//! `courtesy serve` as a process.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::{Answer, Crawler, until};

/// A running proxy. It is killed when dropped.
pub struct Serve {
    child: Child,
    address: SocketAddr,
    said: Arc<Mutex<String>>,
    listener: Option<JoinHandle<()>>,
}

impl Serve {
    /// Starts `command`, which is `courtesy serve` or becomes it, and waits until it listens.
    #[track_caller]
    pub fn start(mut command: Command) -> Self {
        command.args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
        let mut child =
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("a process");
        let said = Arc::<Mutex<String>>::default();
        let listener = listen(child.stderr.take().expect("its standard error"), Arc::clone(&said));
        let mut serve =
            Self { child, address: ([0, 0, 0, 0], 0).into(), said, listener: Some(listener) };
        until("the proxy listens", || {
            let ended = serve.child.try_wait().expect("a child");
            assert!(ended.is_none(), "it ended: {}", serve.said());
            let address = serve.named("listening address=");
            serve.address = address.unwrap_or(serve.address);
            address.is_some()
        });
        serve
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has logged so far.
    pub fn said(&self) -> String {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Where its admin listener is.
    #[track_caller]
    pub fn admin_address(&self) -> SocketAddr {
        self.named("health and metrics address=").expect("an admin listener")
    }

    /// What it answers for a path of its admin listener.
    #[track_caller]
    pub fn admin(&self, path: &str) -> Answer {
        let address = self.admin_address();
        let answer = Crawler::new(address).ask(path, &address.to_string());
        answer.unwrap_or_else(|error| {
            let state = std::fs::read_to_string(format!("/proc/{}/status", self.id()));
            let state = state.unwrap_or_else(|error| error.to_string());
            panic!("no answer: {error}; it has logged: {}; its state: {state}", self.said())
        })
    }

    /// Whether it says that it should be sent requests.
    #[track_caller]
    pub fn is_ready(&self) -> bool {
        self.admin("/readyz").status == 200
    }

    /// One number of its metrics.
    #[track_caller]
    pub fn metric(&self, name: &str) -> usize {
        let metrics = self.admin("/metrics").body;
        let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {name} in {metrics}")).parse().expect("a number")
    }

    /// A path as this process sees it, which may have mounted something there.
    pub fn sees(&self, path: &Path) -> PathBuf {
        let root = format!("/proc/{}/root", self.id());
        Path::new(&root).join(path.strip_prefix("/").expect("a whole path"))
    }

    /// An address after the first `words` in what it has logged.
    fn named(&self, words: &str) -> Option<SocketAddr> {
        let said = self.said();
        let (_, rest) = said.split_once(words)?;
        rest.split_whitespace().next()?.parse().ok()
    }

    /// One GET through it by a connection of its own.
    #[track_caller]
    pub fn get(&self, url: &str) -> Answer {
        Crawler::new(self.address).get(url).expect("an answer")
    }

    /// Bytes of it that are in memory.
    pub fn resident(&self) -> usize {
        self.memory("VmRSS")
    }

    /// Bytes of a kind of its memory (proc_pid_status(5)).
    pub fn memory(&self, kind: &str) -> usize {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.id())).expect("its status");
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(kind)?.strip_prefix(':'))
            .expect("its memory");
        line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
    }

    /// Ends it as a crash does; returns when it is gone.
    pub fn kill(mut self) {
        self.child.kill().expect("a child");
        self.child.wait().expect("a child");
    }

    /// Ends it as an operator does, and gives what it logged.
    #[track_caller]
    pub fn stop(self) -> String {
        let (code, said) = self.end();
        assert_eq!(code, Some(0), "{said}");
        said
    }

    /// The same, however it ends: its exit code, and what it logged.
    #[track_caller]
    pub fn end(mut self) -> (Option<i32>, String) {
        self.signal("TERM");
        let mut ended: Option<ExitStatus> = None;
        until("the proxy stops", || {
            ended = self.child.try_wait().expect("a child");
            ended.is_some()
        });
        self.listener.take().expect("who listens").join().expect("to the end");
        (ended.and_then(|status| status.code()), self.said())
    }

    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args(["-s", name, &self.id().to_string()]).status();
        assert!(status.expect("kill runs").success());
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

/// Keeps what the process says, so that it never waits for a reader.
fn listen(stderr: ChildStderr, said: Arc<Mutex<String>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
            said.push_str(&line);
            said.push('\n');
        }
    })
}
