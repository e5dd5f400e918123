//! A console over logs, and a browser that has its link.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::ops::Deref;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use courtesy::audit::evidence::{Blob, BlobStore, Kind};
use courtesy::types::sanitize::{digest, sha256_hex};

use crate::testkit::processes::{DEADLINE, until};

/// A console over logs, and one browser.
pub struct Console {
    child: Child,
    /// What its link lets in, once.
    pub code: String,
    browser: Browser,
}

/// A browser at a console.
pub struct Browser {
    pub port: u16,
    session: Option<String>,
}

/// A response.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// Names in small letters.
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    /// The value of a field that stands once.
    #[track_caller]
    pub fn field(&self, name: &str) -> Option<&str> {
        let values: Vec<_> = self.fields.iter().filter(|(known, _)| known == name).collect();
        assert!(values.len() < 2, "{name} stands more than once: {:?}", self.fields);
        values.first().map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("a page is UTF-8")
    }
}

impl Console {
    /// Over the logs in these directories.
    #[track_caller]
    pub fn over(dirs: &[&Path]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_courtesy"));
        command.args(["console", "--port", "0"]);
        for dir in dirs {
            command.arg("--dir").arg(dir);
        }
        command.env_clear().env("HOME", "/home/somebody").stdin(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the program runs");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let link = lines.find_map(|line| {
            let line = line.expect("text");
            Some(line.trim().strip_prefix("http://courtesy.localhost:")?.to_owned())
        });
        let link = link.expect("it prints a link");
        let (port, code) = link.split_once("/login?code=").expect("a link with a code");
        let port = port.parse().expect("a port");
        // The pipe stays open: it may print more.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, code: code.to_owned(), browser: Browser { port, session: None } }
    }

    /// The same, with a browser that has opened its link.
    #[track_caller]
    pub fn opened(dirs: &[&Path]) -> Self {
        let mut console = Self::over(dirs);
        console.browser = Browser::with(console.port, &format!("code={}", console.code));
        console
    }

    pub fn log_in(&self, code: &str) -> Answer {
        self.browser.log_in(&format!("code={code}"))
    }
}

impl Deref for Console {
    type Target = Browser;

    fn deref(&self) -> &Browser {
        &self.browser
    }
}

impl Browser {
    /// One that nothing has let in.
    pub const fn new(port: u16) -> Self {
        Self { port, session: None }
    }

    /// One that a form has let in.
    #[track_caller]
    pub fn with(port: u16, form: &str) -> Self {
        let stranger = Self::new(port);
        let answer = stranger.log_in(form);
        assert_eq!(answer.status, 303, "{answer:?}");
        Self { session: Some(cookie(&answer)), ..stranger }
    }

    pub fn log_in(&self, form: &str) -> Answer {
        let origin = self.origin();
        self.ask("POST", "/login", &[("Origin", &origin)], form)
    }

    /// A form of the console, as the browser sends it.
    pub fn post(&self, target: &str, form: &str) -> Answer {
        let origin = self.origin();
        self.ask("POST", target, &[("Origin", &origin), ("Cookie", self.session())], form)
    }

    pub fn origin(&self) -> String {
        format!("http://courtesy.localhost:{}", self.port)
    }

    /// The cookie of the browser's session.
    pub fn session(&self) -> &str {
        self.session.as_deref().expect("a session")
    }

    /// One exchange, with no fields but these, `Host` and the length.
    pub fn ask(&self, method: &str, target: &str, fields: &[(&str, &str)], form: &str) -> Answer {
        let mut head = format!("{method} {target} HTTP/1.1\r\nConnection: close\r\n");
        if !fields.iter().any(|(name, _)| *name == "Host") {
            head += &format!("Host: courtesy.localhost:{}\r\n", self.port);
        }
        for (name, value) in fields {
            head += &format!("{name}: {value}\r\n");
        }
        if method == "POST" {
            let kind = "application/x-www-form-urlencoded";
            head += &format!("Content-Type: {kind}\r\nContent-Length: {}\r\n", form.len());
        }
        self.exchange(format!("{head}\r\n{form}").as_bytes())
    }

    /// What comes back for these bytes.
    pub fn exchange(&self, request: &[u8]) -> Answer {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).expect("it listens");
        stream.set_read_timeout(Some(DEADLINE)).expect("a socket");
        // It may answer, and close, before it has read all.
        let _ = stream.write_all(request);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let end = answer.windows(4).position(|it| it == b"\r\n\r\n").expect("a whole head");
        let head = std::str::from_utf8(&answer[..end]).expect("a head in ASCII").to_owned();
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.get(9..12)?.parse().ok());
        let pair = |line: &str| {
            let (name, value) = line.split_once(':').expect("a field");
            (name.to_ascii_lowercase(), value.trim().to_owned())
        };
        Answer {
            status: status.expect("a status"),
            fields: lines.map(pair).collect(),
            body: answer.split_off(end + 4),
        }
    }

    /// A page for the browser that has the link.
    pub fn get(&self, target: &str) -> Answer {
        self.ask("GET", target, &[("Cookie", self.session())], "")
    }

    /// What such a page has in its frame, when all that it needs is read.
    #[track_caller]
    pub fn page(&self, target: &str) -> String {
        let mut found = None;
        until("the log is read", || {
            let cookie = self.session.as_deref();
            let fields: Vec<_> = cookie.iter().map(|session| ("Cookie", *session)).collect();
            let answer = self.ask("GET", target, &fields, "");
            let text = answer.text();
            let text = text.split_once("<main").map_or(text.as_str(), |(_, main)| main).to_owned();
            assert_eq!(answer.status, 200, "{target}: {text}");
            let is_there = !text.contains("This page asks again by itself");
            found = is_there.then_some(text);
            is_there
        });
        found.expect("a page")
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The cookie that a response sets, as it is sent back.
#[track_caller]
pub fn cookie(answer: &Answer) -> String {
    let set = answer.field("set-cookie").expect("a cookie");
    set.split(';').next().unwrap_or_default().to_owned()
}

/// `value` in an address.
pub fn encoded(value: &[u8]) -> String {
    value.iter().map(|byte| format!("%{byte:02X}")).collect()
}

/// What stands between these, each time.
pub fn between<'a>(text: &'a str, open: &str, close: &str) -> Vec<&'a str> {
    let parts = text.split(open).skip(1);
    parts.filter_map(|part| Some(part.split_once(close)?.0)).collect()
}

/// The numbers of the log and of the line of each row of a list, as they are shown.
#[track_caller]
pub fn rows(page: &str) -> Vec<(usize, u64)> {
    let body = between(page, "<tbody>", "</tbody>").concat();
    let places = between(&body, "href=\"/record?log=", "\"");
    let numbers = places.into_iter().map(|place| {
        let (log, seq) = place.split_once("seq=").expect("a place");
        let log = log.trim_end_matches(|it: char| !it.is_ascii_digit());
        let log = log.trim_end_matches("#38").trim_end_matches('&');
        (log.parse().expect("a log"), seq.parse().expect("a line"))
    });
    numbers.collect()
}

/// Makes a file evidence of the log in `dir`; its digest.
pub fn keep(dir: &Path, file: &[u8]) -> String {
    let name = sha256_hex(file);
    let sha256 = digest(&name).expect("a digest");
    let blob = Blob { sha256, kind: Kind::File, content: file.to_vec().into() };
    BlobStore::of(dir).put(&blob).expect("a directory that can be written to");
    name
}
