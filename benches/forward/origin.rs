//! An origin that has one page, and a robots.txt.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;

/// What it answers but for its robots.txt: 1 KB.
pub const BODY: &[u8] = &[b'x'; 1024];

/// A path that its robots.txt disallows.
pub const DENIED: &str = "/private/page";

const ROBOTS_TXT: &[u8] = b"User-agent: *\nDisallow: /private/\n";

/// It ends with the process.
#[derive(Debug)]
pub struct Origin(SocketAddr);

impl Origin {
    pub fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || serve(&stream));
            }
        });
        Self(address)
    }

    pub fn address(&self) -> SocketAddr {
        self.0
    }
}

/// One request after the other, none of which has content, until the client leaves.
fn serve(mut stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    while let Some(line) = lines.next() {
        let body = if line.starts_with("GET /robots.txt ") { ROBOTS_TXT } else { BODY };
        if !lines.by_ref().any(|line| line.is_empty()) {
            return;
        }
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        if stream.write_all(&[head.as_bytes(), body].concat()).is_err() {
            return;
        }
    }
}
