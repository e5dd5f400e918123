//! A payload of a client, what is to become of it, and the judge between the two.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use super::recorder::{Recorder, Reply};
use super::strict::{self, End, Message};
use crate::testkit::parties::{DEADLINE, Proxy};

/// The row of the requirement, the payload, what is to become of it.
pub type Case<'a> = (&'static str, &'a str, Expect);

/// What is to become of a payload. Whatever it is: each request that reaches the origin holds, none
/// is for what is disallowed, and each answer is that of its own request.
#[derive(Clone, Copy, Debug)]
pub enum Expect {
    /// With this status; nothing reaches the origin, and nothing behind it is a request.
    Refused(u16),
    /// These reach the origin, method and target, in this order, and are answered.
    Forwarded(&'static [&'static str]),
    /// As before, and then a refusal.
    Then(&'static [&'static str], u16),
    /// One request with this body.
    Upload(&'static str, &'static str),
    /// One request with exactly these values of the fields named, `Name: value`, or without `-Name`.
    With(&'static [&'static str]),
    /// Answered by the proxy itself; the connection goes on.
    Own(u16),
    /// Answers in a row: their statuses, and what reached the origin.
    Row(&'static [u16], &'static [&'static str]),
    /// The framing breaks behind the head: no whole request reaches the origin.
    Cut,
    /// A tunnel in which these reach the origin.
    Tunnel(&'static [&'static str]),
    /// A tunnel in which a request is refused.
    Inside(u16),
}

/// What no request behind a refused one may become.
const BEHIND: &str = "GET http://{o}/smuggled HTTP/1.1\r\nHost: x\r\n\r\n";

/// A GET with these field lines.
pub fn get(fields: &str) -> String {
    format!("GET http://{{o}}/page HTTP/1.1\r\nHost: x\r\n{fields}\r\n")
}

/// A POST with these field lines and this body.
pub fn post(fields: &str, body: &str) -> String {
    format!("POST http://{{o}}/up HTTP/1.1\r\nHost: x\r\n{fields}\r\n{body}")
}

/// A GET with this request line.
pub fn line(line: &str) -> String {
    format!("{line}\r\nHost: x\r\n\r\n")
}

/// Sends each payload whole and byte by byte, and judges what came of it.
#[track_caller]
pub fn check(cases: &[Case<'_>]) {
    let proxy = proxy();
    let mut faults = Vec::new();
    for (row, payload, expect) in cases {
        for by_byte in [false, true] {
            let origin = Recorder::start(Reply::Echo);
            let behind = if expect.ends_it() { BEHIND } else { "" };
            let payload = bytes(&format!("{payload}{behind}"), origin.address());
            let received = send(proxy.address(), &payload, by_byte);
            if let Err(fault) = judge(*expect, &payload, &received, &origin) {
                let how = if by_byte { "byte by byte" } else { "at once" };
                faults.push(format!(
                    "{row}, {how}: {fault}\n  sent     {}\n  answered {}\n  origin   {:?}",
                    payload.escape_ascii(),
                    received.escape_ascii(),
                    origin
                        .connections()
                        .iter()
                        .map(|it| it.escape_ascii().to_string())
                        .collect::<Vec<_>>(),
                ));
            }
        }
    }
    assert!(
        faults.is_empty(),
        "{} of {} payloads:\n{}",
        faults.len(),
        cases.len(),
        faults.join("\n")
    );
}

/// A proxy whose CONNECT goes to any port.
pub fn proxy() -> Proxy {
    Proxy::with(|settings| settings.egress.connect_ports = (1..=u16::MAX).collect())
}

/// The bytes of a payload: one for each of its characters, as in ISO 8859-1.
pub fn bytes(payload: &str, origin: SocketAddr) -> Vec<u8> {
    let payload =
        payload.replace("{o}", &origin.to_string()).replace("{p}", &origin.port().to_string());
    payload.chars().map(|it| u8::try_from(u32::from(it)).expect("a byte")).collect()
}

/// Sends everything, says that no more will come, and reads to the end.
pub fn send(proxy: SocketAddr, payload: &[u8], by_byte: bool) -> Vec<u8> {
    let mut stream = TcpStream::connect(proxy).expect("the proxy listens");
    stream.set_nodelay(true).expect("an option");
    stream.set_read_timeout(Some(DEADLINE)).expect("an option");
    let size = if by_byte { 1 } else { payload.len().max(1) };
    for piece in payload.chunks(size) {
        if stream.write_all(piece).is_err() {
            break;
        }
    }
    let _ = stream.shutdown(Shutdown::Write);
    let mut received = Vec::new();
    // A reset ends it as well: what came before counts.
    if let Err(error) = stream.read_to_end(&mut received) {
        let is_reset = error.kind() == std::io::ErrorKind::ConnectionReset;
        assert!(is_reset, "{error}: {} got {}", payload.escape_ascii(), received.escape_ascii());
    }
    received
}

impl Expect {
    /// Whether nothing behind the payload is a request.
    const fn ends_it(self) -> bool {
        matches!(self, Self::Refused(_) | Self::Then(..) | Self::Cut | Self::Inside(_))
    }
}

fn judge(expect: Expect, payload: &[u8], received: &[u8], origin: &Recorder) -> Result<(), String> {
    let connections = origin.connections();
    let (mut requests, mut whole) = (Vec::new(), true);
    for bytes in &connections {
        let (some, end) =
            strict::requests(bytes).map_err(|rule| format!("the origin got {rule}"))?;
        requests.extend(some);
        whole &= end == End::Between;
    }
    let host = origin.address().to_string();
    if let Some(other) = requests.iter().find(|request| request.all("host") != [host.as_bytes()]) {
        return Err(format!("the origin got another Host: {other:?}"));
    }
    let asked: Vec<&str> = requests.iter().map(Message::asked).collect();
    if let Some(bad) = asked.iter().find(|it| it.contains("private") || it.contains("smuggled")) {
        return Err(format!("{bad} reached the origin"));
    }
    let methods = methods(payload, &asked);
    let (answers, end) =
        strict::responses(received, &methods).map_err(|rule| format!("the client got {rule}"))?;
    let statuses: Vec<u16> = answers.iter().map(Message::status).collect();
    let same = |what: &str, is: &dyn std::fmt::Debug, should: &dyn std::fmt::Debug| {
        let (is, should) = (format!("{is:?}"), format!("{should:?}"));
        if is == should { Ok(()) } else { Err(format!("{what}: {is}, not {should}")) }
    };
    let all_200 = |count: usize| vec![200; count];
    match expect {
        Expect::Cut => {
            same("requests", &asked, &[""; 0])?;
            return if statuses.iter().all(|it| *it == 400) {
                Ok(())
            } else {
                Err(format!("{statuses:?}"))
            };
        }
        Expect::Refused(status) => {
            same("statuses", &statuses, &[status])?;
            same("bytes at the origin", &connections.concat().len(), &0)?;
            closes(&answers)?;
        }
        Expect::Own(status) => {
            same("statuses", &statuses, &[status])?;
            same("bytes at the origin", &connections.concat().len(), &0)?;
        }
        Expect::Forwarded(lines) => {
            same("requests", &asked, &lines)?;
            same("statuses", &statuses, &all_200(lines.len()))?;
        }
        Expect::Then(lines, status) => {
            same("requests", &asked, &lines)?;
            same("statuses", &statuses, &[all_200(lines.len()), vec![status]].concat())?;
            closes(&answers)?;
        }
        Expect::Upload(line, body) => {
            same("requests", &asked, &[line])?;
            same("statuses", &statuses, &[200])?;
            same("body", &String::from_utf8_lossy(&requests[0].body), &body)?;
        }
        Expect::With(lines) => {
            same("statuses", &statuses, &[200])?;
            fields(&requests[0], lines)?;
        }
        Expect::Row(row, lines) => {
            same("requests", &asked, &lines)?;
            same("statuses", &statuses, &row)?;
        }
        Expect::Tunnel(lines) => {
            same("statuses", &statuses, &[200])?;
            same("requests", &asked, &lines)?;
            let inside = strict::responses(&answers[0].body, &[])?.0;
            same(
                "inside",
                &inside.iter().map(Message::status).collect::<Vec<_>>(),
                &all_200(lines.len()),
            )?;
            return belong(&inside, &asked);
        }
        Expect::Inside(status) => {
            same("statuses", &statuses, &[200])?;
            same("requests", &asked, &[""; 0])?;
            let inside = strict::responses(&answers[0].body, &[])?.0;
            return same(
                "inside",
                &inside.iter().map(Message::status).collect::<Vec<_>>(),
                &[status],
            );
        }
    }
    same("whole", &(whole, end), &(true, End::Between))?;
    belong(&answers, &asked)
}

/// The methods by which answers are read. What the proxy answers itself did not reach the origin.
fn methods<'a>(payload: &[u8], asked: &[&'a str]) -> Vec<&'a str> {
    for first in ["CONNECT", "HEAD"] {
        if payload.starts_with(first.as_bytes()) {
            return vec![first];
        }
    }
    asked.iter().map(|it| it.split(' ').next().unwrap_or_default()).collect()
}

/// I2: each answer of the origin is that to the request in its place.
fn belong(answers: &[Message], asked: &[&str]) -> Result<(), String> {
    let from_origin = answers.iter().filter(|answer| answer.all("proxy-status").is_empty());
    for (answer, asked) in from_origin.zip(asked) {
        if !asked.starts_with("HEAD ") && answer.body != asked.as_bytes() {
            return Err(format!("{asked} was answered with {}", answer.body.escape_ascii()));
        }
    }
    Ok(())
}

/// RFC 9112 §9.6: what is refused is the last.
fn closes(answers: &[Message]) -> Result<(), String> {
    match answers.last().map(|last| last.all("connection")) {
        Some(options) if options == [b"close"] => Ok(()),
        other => Err(format!("the refusal does not close: {other:?}")),
    }
}

fn fields(request: &Message, lines: &[&str]) -> Result<(), String> {
    for line in lines {
        let name = line.split_once(": ").map_or(line.trim_start_matches('-'), |(name, _)| name);
        let there: Vec<String> =
            request.all(name).iter().map(|value| value.escape_ascii().to_string()).collect();
        let wanted: Vec<String> = lines
            .iter()
            .filter_map(|line| {
                line.split_once(": ").filter(|(it, _)| it.eq_ignore_ascii_case(name))
            })
            .map(|(_, value)| bytes(value, ([0, 0, 0, 0], 0).into()).escape_ascii().to_string())
            .collect();
        if there != wanted {
            return Err(format!("{name} is {there:?}, not {wanted:?}"));
        }
    }
    Ok(())
}
