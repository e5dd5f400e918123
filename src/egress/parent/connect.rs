//! CONNECT to a parent (RFC 9110 §9.3.6).

use std::time::Duration;

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::address::{ParentCredentials, ParentTarget, url_host};
use crate::egress::error::{Fault, TunnelFailure};
use crate::policy::RETRY_AFTER_MAX;
use crate::runtime::clock::{Clock, SystemClock};
use crate::types::http_time::retry_after;
use crate::types::loop_token::{LOOP_TOKEN, LoopToken};

/// The port to which all proxies permit CONNECT.
pub(super) const HTTPS_PORT: u16 = 443;

/// Bytes of the head of a parent's answer, and of the interim ones before it.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// Has the parent connect to `target`. What follows the head of its answer is left to be read: it
/// is the origin's, whatever the head says of a content (RFC 9110 §9.3.6).
///
/// # Errors
///
/// What was answered instead of a 2xx.
pub async fn open(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    target: ParentTarget<'_>,
    credentials: Option<&ParentCredentials>,
    loop_token: Option<&LoopToken>,
) -> Result<(), TunnelFailure> {
    let request = request(target, credentials, loop_token);
    let sent = async {
        stream.write_all(request.as_bytes()).await?;
        stream.flush().await
    };
    sent.await.map_err(|error| TunnelFailure::unknown(error.to_string()))?;
    let head = read_head(stream).await?;
    match head.status {
        200..=299 => Ok(()),
        // Of a CONNECT a 401 is the parent's as well: tinyproxy asks so for its password.
        status @ (401 | 407) => Err(refuses_credentials(status)),
        status @ (403 | 405) if target.port != HTTPS_PORT => {
            Err(refuses_port(status, target.port, &head.headers))
        }
        status => Err(TunnelFailure {
            status: Some(status),
            retry_after: wait(&head.headers),
            ..TunnelFailure::new(Fault::Target, format!("it answered CONNECT with {status}"))
        }),
    }
}

/// It answered with 407 (RFC 9110 §15.5.8), or with 401 as some proxies do.
pub fn refuses_credentials(status: u16) -> TunnelFailure {
    let reason = format!(
        "it requires a name and a password, or has refused those of \
         egress.parent_credentials_file ({status})"
    );
    TunnelFailure { status: Some(status), ..TunnelFailure::new(Fault::Credentials, reason) }
}

/// It refuses CONNECT to a port that is not that of https, as many proxies do by default (RFC 9110
/// §9.3.6 tells them to); or to this host.
fn refuses_port(status: u16, port: u16, headers: &HeaderMap) -> TunnelFailure {
    let squid = headers.get("x-squid-error").and_then(|value| value.to_str().ok());
    let said = squid.map(|said| format!(", X-Squid-Error: {said}")).unwrap_or_default();
    let reason = format!(
        "it refuses CONNECT to port {port} ({status}{said}): set egress.parent_http = \"absolute\", or \
         permit the port there (squid: acl SSL_ports port {port}; tinyproxy: ConnectPort {port})"
    );
    TunnelFailure {
        status: Some(status),
        retry_after: wait(headers),
        ..TunnelFailure::new(Fault::Port, reason)
    }
}

fn request(
    ParentTarget { host, port }: ParentTarget<'_>,
    credentials: Option<&ParentCredentials>,
    loop_token: Option<&LoopToken>,
) -> String {
    let authority = format!("{}:{port}", url_host(host));
    let mut head = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n");
    if let Some(token) = loop_token {
        head.push_str(&format!("{LOOP_TOKEN}: {token}\r\n"));
    }
    if let Some(credentials) = credentials {
        head.push_str(&format!("Proxy-Authorization: {}\r\n", credentials.basic()));
    }
    head.push_str("\r\n");
    head
}

/// What is read of the head of an answer.
#[derive(Debug)]
struct Head {
    status: u16,
    /// `Retry-After`, the `Date` that it is relative to, and `X-Squid-Error`.
    headers: HeaderMap,
}

/// The next head, which is read to its end and no further: byte by byte, as no stream gives bytes
/// back. Interim responses are passed over.
async fn read_head(stream: &mut (impl AsyncRead + Unpin)) -> Result<Head, TunnelFailure> {
    let mut bytes_left = HEAD_BYTES_MAX;
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") && !head.ends_with(b"\n\n") {
            if bytes_left == 0 {
                return Err(TunnelFailure::parent("the head of its answer is too long"));
            }
            bytes_left -= 1;
            let byte = stream.read_u8().await;
            head.push(byte.map_err(|error| {
                TunnelFailure::unknown(format!("its answer broke off: {error}"))
            })?);
        }
        match status(&head).ok_or_else(|| TunnelFailure::parent("its answer is not HTTP"))? {
            100..=199 => {}
            status => return Ok(Head { status, headers: headers(&head) }),
        }
    }
}

/// `Retry-After`, `Date` (RFC 9110 §10.2.3, §6.6.1), `Proxy-Status` and `X-Squid-Error`; lines that are no headers
/// are passed over.
fn headers(head: &[u8]) -> HeaderMap {
    let lines = head.split(|byte| *byte == b'\n').skip(1);
    let header = |line: &[u8]| {
        let colon = memchr::memchr(b':', line)?;
        let name = HeaderName::from_bytes(&line[..colon]).ok()?;
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).ok()?;
        let names = ["retry-after", "date", "proxy-status", "x-squid-error"];
        names.contains(&name.as_str()).then_some((name, value))
    };
    lines.filter_map(header).collect()
}

/// The `Retry-After` of a parent, as far as it is honoured.
fn wait(headers: &HeaderMap) -> Option<Duration> {
    retry_after(headers, SystemClock.wall()).map(|wait| wait.min(RETRY_AFTER_MAX))
}

/// The status in a status line (RFC 9112 §4).
fn status(head: &[u8]) -> Option<u16> {
    let rest = head.strip_prefix(b"HTTP/1.")?.get(1..)?.strip_prefix(b" ")?;
    let digits = rest.get(..3).filter(|digits| digits.iter().all(u8::is_ascii_digit))?;
    let is_whole = rest.get(3).is_some_and(|next| b" \r\n".contains(next));
    let status = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (is_whole && status >= 100).then_some(status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::origin::Host;

    #[tokio::test]
    async fn an_answer_is_read_to_the_end_of_its_head() {
        for (sent, expected) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nrest", Ok(200)),
            ("HTTP/1.0 200\r\n\r\nrest", Ok(200)),
            ("HTTP/1.1 200 OK\nVia: x\n\nrest", Ok(200)),
            ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 407 No\r\n\r\nrest", Ok(407)),
            ("HTTP/2 200\r\n\r\nrest", Err("not HTTP")),
            ("HTTP/1.1 20\r\n\r\nrest", Err("not HTTP")),
            ("HTTP/1.1 2000 OK\r\n\r\nrest", Err("not HTTP")),
            ("HTTP/1.1 200 OK\r\n", Err("broke off")),
            ("", Err("broke off")),
        ] {
            let mut stream = sent.as_bytes();
            match (read_head(&mut stream).await, expected) {
                (Ok(head), Ok(expected)) => {
                    assert_eq!((head.status, stream), (expected, &b"rest"[..]), "{sent}");
                }
                (Err(it), Err(expected)) => assert!(it.reason.contains(expected), "{it:?}"),
                (read, _) => panic!("{sent}: {read:?}"),
            }
        }
        let long = [b"HTTP/1.1 200 OK\r\n".to_vec(), vec![b'a'; HEAD_BYTES_MAX]].concat();
        assert!(read_head(&mut &long[..]).await.unwrap_err().reason.contains("too long"));
        let interim = "HTTP/1.1 100 Continue\r\n\r\n".repeat(HEAD_BYTES_MAX);
        let failed = read_head(&mut interim.as_bytes()).await.unwrap_err();
        assert!(failed.reason.contains("too long"), "{failed:?}");
    }

    /// A stream that reads `answer` and forgets what is written.
    async fn opened(answer: &[u8]) -> Result<(), TunnelFailure> {
        let mut stream = tokio::io::join(answer, tokio::io::sink());
        let host = Host::Name("example.com".into());
        open(&mut stream, ParentTarget { host: &host, port: 443 }, None, None).await
    }

    #[tokio::test]
    async fn what_is_at_fault_follows_from_the_answer() {
        for (answer, fault, status, wait) in [
            ("HTTP/1.1 407 No\r\n\r\n", Fault::Credentials, Some(407), None),
            ("HTTP/1.1 403 No\r\n\r\n", Fault::Target, Some(403), None),
            ("HTTP/1.1 429 No\r\nretry-after: 7\r\n\r\n", Fault::Target, Some(429), Some(7)),
            ("HTTP/1.1 429 No\r\nRetry-After: soon\r\n\r\n", Fault::Target, Some(429), None),
            (
                "HTTP/1.1 503 No\r\nRetry-After: 9999999\r\n\r\n",
                Fault::Target,
                Some(503),
                Some(3600),
            ),
            (
                "HTTP/1.1 503 No\nDate: Sun, 06 Nov 1994 08:49:37 GMT\nbad line\n\
                 Retry-After: Sun, 06 Nov 1994 08:50:37 GMT\n\n",
                Fault::Target,
                Some(503),
                Some(60),
            ),
            ("HTTP/1.1 2", Fault::Unknown, None, None),
            ("SSH-2.0-x\r\n\r\n", Fault::Parent, None, None),
        ] {
            let failed = opened(answer.as_bytes()).await.unwrap_err();
            let wait = wait.map(std::time::Duration::from_secs);
            assert_eq!((failed.fault, failed.status, failed.retry_after), (fault, status, wait));
        }
        assert_eq!(opened(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc").await, Ok(()));
    }

    /// What parents answer to a CONNECT to port 80, and the words for it.
    #[tokio::test]
    async fn a_parent_that_refuses_a_port_or_asks_for_a_password_says_what_to_do() {
        let host = Host::Name("example.com".into());
        for (answer, port, fault, words) in [
            (
                "HTTP/1.1 403 Forbidden\r\nServer: squid/5.7\r\nX-Squid-Error: ERR_ACCESS_DENIED 0\r\n\r\n",
                80,
                Fault::Port,
                "(403, X-Squid-Error: ERR_ACCESS_DENIED 0): set egress.parent_http = \"absolute\"",
            ),
            (
                "HTTP/1.0 403 Access violation\r\nServer: tinyproxy/1.11.1\r\n\r\n",
                80,
                Fault::Port,
                "ConnectPort 80",
            ),
            (
                "HTTP/1.1 405 Method Not Allowed\r\n\r\n",
                8080,
                Fault::Port,
                "CONNECT to port 8080 (405)",
            ),
            (
                "HTTP/1.1 403 Forbidden\r\nX-Squid-Error: ERR_ACCESS_DENIED 0\r\n\r\n",
                443,
                Fault::Target,
                "403",
            ),
            (
                "HTTP/1.0 401 Unauthorized\r\nServer: tinyproxy/1.8.3\r\nWWW-Authenticate: Basic realm=\"x\"\r\n\r\n",
                443,
                Fault::Credentials,
                "egress.parent_credentials_file (401)",
            ),
            ("HTTP/1.1 503 No\r\n\r\n", 80, Fault::Target, "503"),
        ] {
            let mut stream = tokio::io::join(answer.as_bytes(), tokio::io::sink());
            let failed = open(&mut stream, ParentTarget { host: &host, port }, None, None).await;
            let failed = failed.unwrap_err();
            assert_eq!(failed.fault, fault, "{answer}");
            assert!(failed.reason.contains(words), "{failed:?}");
        }
    }

    #[test]
    fn an_ipv6_address_is_asked_for_in_brackets() {
        let host = Host::V6("2001:db8::1".parse().unwrap());
        let sent = request(ParentTarget { host: &host, port: 443 }, None, None);
        let line = "CONNECT [2001:db8::1]:443 HTTP/1.1\r\nHost: [2001:db8::1]:443\r\n\r\n";
        assert_eq!(sent, line);
        let credentials = "a:b".parse().unwrap();
        let sent = request(
            ParentTarget { host: &host, port: 443 },
            Some(&credentials),
            Some(&LoopToken::new([0xc3; 16])),
        );
        let token = "c3".repeat(16);
        let lines = format!("\r\ncourtesy-loop: {token}\r\nProxy-Authorization: Basic YTpi\r\n");
        assert!(sent.contains(&lines));
    }
}
