//! A Redis server of the test, on a Unix socket in a directory of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::{DEADLINE, until};

/// The server; it ends with its directory when it is dropped.
pub struct RedisServer {
    dir: TempDir,
    process: Option<Child>,
    more: Vec<String>,
}

/// What a server replies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Nil,
    Int(i64),
    Text(String),
    Error(String),
    Array(Vec<Reply>),
}

impl RedisServer {
    /// Starts a server without any data that writes none by itself; `more` are arguments.
    #[track_caller]
    pub fn start(more: &[&str]) -> Self {
        let dir = TempDir::new().expect("a directory");
        let more = more.iter().map(|word| (*word).to_owned()).collect();
        let mut server = Self { dir, process: None, more };
        server.start_again(&[]);
        server
    }

    /// Starts a sentinel on this port of the loopback address; `settings` say what it watches.
    #[track_caller]
    pub fn start_sentinel(port: u16, settings: &str) -> Self {
        let dir = TempDir::new().expect("a directory");
        let file = dir.path().join("sentinel.conf");
        let socket = dir.path().join("redis.sock");
        let settings = format!("port {port}\nunixsocket {}\n{settings}", socket.display());
        std::fs::write(&file, settings).expect("a directory that can be written to");
        let mut command = Command::new("redis-server");
        command.arg(&file).arg("--sentinel").stdin(Stdio::null()).stdout(Stdio::null());
        let process = command.spawn().expect("redis-server, which tests/run installs");
        let server = Self { dir, process: Some(process), more: Vec::new() };
        until("the sentinel responds", || server.ping().is_some());
        server
    }

    /// Starts it once more, with these arguments as well. What it has not saved is lost.
    #[track_caller]
    pub fn start_again(&mut self, more: &[&str]) {
        self.spawn(more);
        until("the server responds", || self.ping().is_some());
    }

    /// Starts it without waiting until it responds.
    #[track_caller]
    pub fn spawn(&mut self, more: &[&str]) {
        assert!(self.process.is_none(), "it runs");
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--appendonly", "no"]);
        command.arg("--unixsocket").arg(self.socket()).arg("--dir").arg(self.dir.path());
        command.args(["--loglevel", "warning"]).args(&self.more).args(more);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let process = command.spawn().expect("redis-server, which tests/run installs");
        self.process = Some(process);
    }

    /// Ends it at once (`SIGKILL`).
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().expect("a process of ours");
            process.wait().expect("a process of ours");
        }
    }

    /// Stops it, so that it responds no more, or lets it go on.
    pub fn set_stopped(&self, is_stopped: bool) {
        use rustix::process::{Pid, Signal, kill_process};
        let id = self.process.as_ref().expect("it runs").id();
        let id = Pid::from_raw(id.try_into().expect("a process")).expect("a process");
        let signal = if is_stopped { Signal::STOP } else { Signal::CONT };
        kill_process(id, signal).expect("a process of ours");
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("redis.sock")
    }

    /// The reply to a command, on a connection of its own.
    #[track_caller]
    pub fn command<W: AsRef<[u8]>>(&self, words: &[W]) -> Reply {
        self.try_command(words).expect("the server responds")
    }

    fn ping(&self) -> Option<Reply> {
        self.try_command(&["PING"]).ok()
    }

    /// The same, where the server may not be there.
    pub fn try_command<W: AsRef<[u8]>>(&self, words: &[W]) -> std::io::Result<Reply> {
        let mut stream = UnixStream::connect(self.socket())?;
        stream.set_read_timeout(Some(DEADLINE))?;
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words.iter().map(AsRef::as_ref) {
            request.extend(format!("${}\r\n", word.len()).bytes());
            request.extend(word);
            request.extend(b"\r\n");
        }
        stream.write_all(&request)?;
        read(&mut BufReader::new(stream))
    }
}

fn read(stream: &mut impl BufRead) -> std::io::Result<Reply> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let line = line.trim_end();
    let rest = line.get(1..).ok_or(std::io::ErrorKind::UnexpectedEof)?;
    let number = || rest.parse::<i64>().map_err(|_| std::io::ErrorKind::InvalidData);
    Ok(match line.as_bytes()[0] {
        b'+' => Reply::Text(rest.to_owned()),
        b'-' => Reply::Error(rest.to_owned()),
        b':' => Reply::Int(number()?),
        b'$' | b'*' if number()? < 0 => Reply::Nil,
        b'$' => {
            let mut text = vec![0; number()? as usize + 2];
            stream.read_exact(&mut text)?;
            text.truncate(text.len() - 2);
            // Bytes as the characters of their numbers (ISO 8859-1).
            Reply::Text(text.into_iter().map(char::from).collect())
        }
        _ => Reply::Array((0..number()?).map(|_| read(stream)).collect::<Result<_, _>>()?),
    })
}

impl Reply {
    #[track_caller]
    pub fn text(&self) -> &str {
        let Self::Text(text) = self else { panic!("{self:?}") };
        text
    }

    /// The texts of an array.
    #[track_caller]
    pub fn texts(&self) -> Vec<&str> {
        let Self::Array(parts) = self else { panic!("{self:?}") };
        parts.iter().map(Self::text).collect()
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}
