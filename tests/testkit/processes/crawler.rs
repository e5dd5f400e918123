//! A client that keeps its connection: it asks, and reads what is answered.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::DEADLINE;

/// The crawler that asks.
const AGENT: &str = "ExampleBot/1.0 (+http://bot.example/)";

/// A client of the proxy. It connects when it first asks, and again where the connection has ended.
pub struct Crawler {
    proxy: SocketAddr,
    /// How long an answer may take.
    deadline: Duration,
    connection: Option<BufReader<TcpStream>>,
}

/// What was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// The id of the record of a denial.
    pub record: Option<String>,
    /// How long it waited for its turn, and why.
    pub waited: Option<String>,
    pub body: String,
}

impl Crawler {
    pub fn new(proxy: SocketAddr) -> Self {
        Self::waiting(proxy, DEADLINE)
    }

    /// One that waits so long for an answer.
    pub fn waiting(proxy: SocketAddr, deadline: Duration) -> Self {
        Self { proxy, deadline, connection: None }
    }

    /// Asks for `url` and reads the answer to its end; an error where none came.
    pub fn get(&mut self, url: &str) -> io::Result<Answer> {
        let (_, rest) = url.split_once("://").ok_or(ErrorKind::InvalidInput)?;
        let (authority, _) = rest.split_once('/').ok_or(ErrorKind::InvalidInput)?;
        self.ask(url, authority)
    }

    /// The same for a target and a Host as they are to be sent.
    pub fn ask(&mut self, target: &str, host: &str) -> io::Result<Answer> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => connect(self.proxy, self.deadline)?,
        };
        let request =
            format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {AGENT}\r\n\r\n");
        connection.get_mut().write_all(request.as_bytes())?;
        let (answer, lasts) = read(&mut connection)?;
        self.connection = lasts.then_some(connection);
        Ok(answer)
    }
}

fn connect(proxy: SocketAddr, deadline: Duration) -> io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect(proxy)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(deadline))?;
    Ok(BufReader::new(stream))
}

/// An answer, and whether another can follow on the connection.
fn read(connection: &mut BufReader<TcpStream>) -> io::Result<(Answer, bool)> {
    let status = line(connection)?;
    let status = status
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .ok_or(ErrorKind::InvalidData)?;
    let (mut length, mut record, mut waited, mut lasts) = (0, None, None, true);
    loop {
        let field = line(connection)?;
        let Some((name, value)) = field.split_once(':') else { break };
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().map_err(|_| ErrorKind::InvalidData)?,
            "courtesy-record" => record = Some(value.to_owned()),
            "courtesy-waited" => waited = Some(value.to_owned()),
            "connection" => lasts = !value.eq_ignore_ascii_case("close"),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    connection.read_exact(&mut body)?;
    let body = String::from_utf8_lossy(&body).into_owned();
    Ok((Answer { status, record, waited, body }, lasts))
}

fn line(connection: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    if connection.read_line(&mut line)? == 0 || !line.ends_with('\n') {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end().to_owned())
}
