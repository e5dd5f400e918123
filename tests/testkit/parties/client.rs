//! A client that sends exactly what it is told, and reads answers as strictly as their framing.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use serde_json::Value;
use socket2::{Domain, SockRef, Socket, Type};

use super::wire::{Wire, values};
use super::{AGENT, DEADLINE, tls};

/// A write that takes longer has stalled: nobody reads.
const STALL: Duration = Duration::from_millis(300);

#[derive(Debug)]
pub struct Client {
    wire: Wire,
    /// Where it is connected to through the proxy.
    within: Option<String>,
}

/// A head as it came.
#[derive(Clone, Debug)]
pub struct Head(pub String);

#[derive(Clone, Debug)]
pub struct Response {
    pub head: Head,
    /// The heads of the interim responses before it.
    pub interim: Vec<Head>,
    pub body: Vec<u8>,
    pub trailers: String,
}

/// An answer that did not come whole.
#[derive(Debug)]
pub struct Cut {
    /// What came of its body.
    pub body: Vec<u8>,
    pub error: io::Error,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect_timeout(&address, DEADLINE).expect("the proxy listens"))
    }

    /// One that has another address than the others: all of 127.0.0.0/8 are this machine.
    pub fn connect_from(ip: Ipv4Addr, address: SocketAddr) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.bind(&SocketAddr::from((ip, 0)).into()).expect("an address of this machine");
        socket.connect_timeout(&address.into(), DEADLINE).expect("the proxy listens");
        Self::over(socket.into())
    }

    fn over(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(DEADLINE)).expect("a deadline");
        stream.set_write_timeout(Some(DEADLINE)).expect("a deadline");
        stream.set_nodelay(true).expect("an option");
        Self { wire: Wire::new(Box::new(stream)), within: None }
    }

    /// Asks for a tunnel, and has it.
    #[track_caller]
    pub fn tunnel(self, authority: &str) -> Self {
        self.tunnel_with(authority, "")
    }

    /// The same, with these field lines in the CONNECT.
    #[track_caller]
    pub fn tunnel_with(mut self, authority: &str, fields: &str) -> Self {
        let head = self.send(connect(authority, fields)).read_head();
        assert_eq!(head.status(), 200, "{}", head.0);
        Self { within: Some(authority.to_owned()), ..self }
    }

    /// Goes on as in a tunnel to `authority`, which it has.
    pub fn within(self, authority: &str) -> Self {
        Self { within: Some(authority.to_owned()), ..self }
    }

    /// Speaks TLS from here on. `name` is whom the certificate must be for and, unless it is an
    /// address, what the handshake asks for.
    pub fn secured(self, config: Arc<ClientConfig>, name: &str) -> io::Result<Self> {
        assert!(!self.wire.has_buffered(), "the proxy spoke first");
        self.resumed(tls::Handshake::new(config, name))
    }

    /// Asks for a tunnel and begins TLS in one go, without waiting for the answer.
    pub fn tunnel_in_hope(
        mut self,
        authority: &str,
        config: Arc<ClientConfig>,
    ) -> io::Result<Self> {
        let mut handshake = tls::Handshake::new(config, tls::host(authority));
        self.send([connect(authority, "").as_bytes(), &handshake.hello()].concat());
        assert_eq!(self.read_head().status(), 200);
        let stream = self.wire.stream.tcp().try_clone()?;
        let stream = handshake.finish(self.wire.take_buffered(), stream)?;
        Ok(Self { wire: Wire::new(stream), within: Some(authority.to_owned()) })
    }

    /// Goes on with a handshake whose first flight has been sent.
    pub fn resumed(self, handshake: tls::Handshake) -> io::Result<Self> {
        let stream = handshake.finish(Vec::new(), self.wire.stream.tcp().try_clone()?)?;
        Ok(Self { wire: Wire::new(stream), ..self })
    }

    /// Everything up to the end of the stream.
    #[track_caller]
    pub fn read_rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self.wire.rest(&mut bytes) {
            Err(error) if error.kind() != ErrorKind::ConnectionReset => {
                panic!("still open: {error}")
            }
            _ => bytes,
        }
    }

    /// The connection itself.
    pub fn into_tcp(self) -> TcpStream {
        assert!(!self.wire.has_buffered(), "more bytes than the answer");
        self.wire.stream.tcp().try_clone().expect("a descriptor")
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.try_send(bytes).expect("the proxy reads");
        self
    }

    /// Sends what the proxy may well not read to the end.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.wire.stream.write_all(bytes.as_ref())?;
        self.wire.stream.flush()
    }

    /// Sends a request in absolute-form or, in a tunnel, in origin-form for a path; with more field
    /// lines, each ending in CRLF.
    pub fn ask(&mut self, method: &str, url: &str, fields: &str) -> &mut Self {
        let request = match &self.within {
            Some(authority) if url.starts_with('/') => request_to(authority, method, url, fields),
            _ => request(method, url, fields),
        };
        self.send(request)
    }

    /// One exchange.
    #[track_caller]
    pub fn get(&mut self, url: &str) -> Response {
        self.ask("GET", url, "").read()
    }

    #[track_caller]
    pub fn exchange(&mut self, method: &str, url: &str, fields: &str) -> Response {
        self.ask(method, url, fields).read_to(method)
    }

    /// The next final answer, to a GET.
    #[track_caller]
    pub fn read(&mut self) -> Response {
        self.read_to("GET")
    }

    /// The next final answer, to this method.
    #[track_caller]
    pub fn read_to(&mut self, method: &str) -> Response {
        match self.try_read(method) {
            Ok(response) => response,
            Err(cut) => panic!("no whole answer: {cut:?}"),
        }
    }

    pub fn try_read(&mut self, method: &str) -> Result<Response, Cut> {
        let mut interim = Vec::new();
        loop {
            let head = match self.try_head() {
                Ok(head) => head,
                Err(error) => return Err(Cut { body: Vec::new(), error }),
            };
            if head.status() < 200 && head.status() != 101 {
                interim.push(head);
                continue;
            }
            let mut body = Vec::new();
            return match self.body(&head, method, &mut body) {
                Ok(trailers) => Ok(Response { head, interim, body, trailers }),
                Err(error) => Err(Cut { body, error }),
            };
        }
    }

    /// The next head, interim or final, without its body.
    #[track_caller]
    pub fn read_head(&mut self) -> Head {
        self.try_head().expect("a head")
    }

    /// So many bytes of what follows.
    #[track_caller]
    pub fn read_bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.wire.exactly(count, &mut bytes).expect("more bytes");
        bytes
    }

    /// So many bytes, unless the connection ends before.
    #[track_caller]
    pub fn try_read_bytes(&mut self, count: usize) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        match self.wire.exactly(count, &mut bytes) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("still open: {error}")
            }
            result => result.is_ok().then_some(bytes),
        }
    }

    fn try_head(&mut self) -> io::Result<Head> {
        self.wire.head()?.map(Head).ok_or_else(|| ErrorKind::UnexpectedEof.into())
    }

    fn body(&mut self, head: &Head, method: &str, body: &mut Vec<u8>) -> io::Result<String> {
        let status = head.status();
        if method == "HEAD" || matches!(status, 101 | 204 | 304) {
            return Ok(String::new());
        }
        if head.all("transfer-encoding") == ["chunked"] {
            return self.wire.chunked(body);
        }
        match head.field("content-length") {
            Some(length) => self.wire.exactly(length.parse().map_err(io::Error::other)?, body)?,
            None => self.wire.rest(body)?,
        }
        Ok(String::new())
    }

    /// Whether the proxy ends the connection without another byte.
    #[track_caller]
    pub fn assert_closed(&mut self) {
        assert!(!self.wire.has_buffered(), "more bytes than the answer");
        let mut bytes = [0; 64];
        match self.wire.stream.read(&mut bytes) {
            Ok(0) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            Ok(count) => panic!("more came: {}", bytes[..count].escape_ascii()),
            Err(error) => panic!("the connection is still open: {error}"),
        }
    }

    /// Sends `piece` again and again until nobody takes it for a while. Returns how many bytes went,
    /// and what is left of the last piece.
    pub fn send_until_stalled<'a>(&mut self, piece: &'a [u8]) -> (usize, &'a [u8]) {
        self.wire.stream.tcp().set_write_timeout(Some(STALL)).expect("a deadline");
        let mut sent = 0;
        loop {
            let left = &piece[sent % piece.len()..];
            match self.wire.stream.write(left) {
                Ok(count) => sent += count,
                Err(error) => {
                    assert!(
                        matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
                        "{error}"
                    );
                    self.wire.stream.tcp().set_write_timeout(Some(DEADLINE)).expect("a deadline");
                    return (sent, left);
                }
            }
        }
    }

    /// Ends the connection below TLS in this direction, and stays to listen.
    pub fn finish_sending_below(&mut self) {
        self.wire.stream.tcp().shutdown(Shutdown::Write).expect("an open connection");
    }

    /// Leaves without a word.
    #[allow(dead_code, reason = "only clients of tests/load do")]
    pub fn reset(self) {
        let socket = SockRef::from(self.wire.stream.tcp());
        socket.set_linger(Some(Duration::ZERO)).expect("an option");
    }

    /// Says that no more will come, and stays to listen.
    pub fn finish_sending(&mut self) {
        self.wire.stream.finish().expect("an open connection");
    }
}

/// A request in absolute-form. `fields` may bring its own User-Agent and Host.
pub fn request(method: &str, url: &str, fields: &str) -> String {
    request_to(url.split('/').nth(2).unwrap_or_default(), method, url, fields)
}

/// A CONNECT, with more field lines.
pub fn connect(authority: &str, fields: &str) -> String {
    format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{fields}\r\n")
}

fn request_to(authority: &str, method: &str, target: &str, fields: &str) -> String {
    let lower = format!("\r\n{}", fields.to_ascii_lowercase());
    let host =
        if lower.contains("\r\nhost:") { String::new() } else { format!("Host: {authority}\r\n") };
    let agent = if lower.contains("\r\nuser-agent:") {
        String::new()
    } else {
        format!("User-Agent: {AGENT}\r\n")
    };
    format!("{method} {target} HTTP/1.1\r\n{host}{agent}{fields}\r\n")
}

impl Head {
    #[track_caller]
    pub fn status(&self) -> u16 {
        let status = self.0.split(' ').nth(1).and_then(|status| status.get(..3)?.parse().ok());
        status.unwrap_or_else(|| panic!("no status line: {}", self.0))
    }

    pub fn field(&self, name: &str) -> Option<&str> {
        values(&self.0, name).first().copied()
    }

    pub fn all(&self, name: &str) -> Vec<&str> {
        values(&self.0, name)
    }

    /// Whether a line stands in the head exactly so.
    pub fn has_line(&self, line: &str) -> bool {
        self.0.lines().any(|it| it == line)
    }
}

impl Response {
    #[track_caller]
    pub fn status(&self) -> u16 {
        self.head.status()
    }

    pub fn field(&self, name: &str) -> Option<&str> {
        self.head.field(name)
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.text()))
    }

    /// The proxy's own answer, with this error (RFC 9209 §2.3).
    #[track_caller]
    pub fn assert_error(&self, status: u16, error: &str) {
        assert_eq!(self.status(), status, "{}{}", self.head.0, self.text());
        let told = self.field("proxy-status").unwrap_or_default();
        assert!(told.starts_with(&format!("courtesy; error={error}")), "{told}");
    }

    /// What a denial rests on, in the record's word.
    #[track_caller]
    pub fn reason(&self) -> String {
        self.json()["reason"].as_str().unwrap_or_default().to_owned()
    }
}
