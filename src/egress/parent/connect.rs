//! CONNECT to a parent (RFC 9110 §9.3.6).

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::address::url_host;
use super::credentials::ParentCredentials;
use super::target::ParentTarget;

/// Bytes of the head of a parent's answer.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// Has the parent connect to `target`. What follows the head of its answer is left to be read: it
/// is the origin's, whatever the head says of a content (RFC 9110 §9.3.6).
///
/// # Errors
///
/// What was answered instead of a 2xx, in words.
pub async fn open(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    ParentTarget { host, port }: ParentTarget<'_>,
    credentials: Option<&ParentCredentials>,
) -> Result<(), String> {
    let authority = format!("{}:{port}", url_host(host));
    let mut head = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n");
    if let Some(credentials) = credentials {
        head.push_str(&format!("Proxy-Authorization: {}\r\n", credentials.basic()));
    }
    head.push_str("\r\n");
    let sent = async {
        stream.write_all(head.as_bytes()).await?;
        stream.flush().await
    };
    sent.await.map_err(|error| error.to_string())?;
    match read_status(stream).await? {
        200..=299 => Ok(()),
        407 => Err("it requires a name and a password, or has refused those of \
                    egress.parent_credentials_file (407)"
            .to_owned()),
        status => Err(format!("it answered CONNECT with {status}")),
    }
}

/// The status of the next head, which is read to its end and no further: byte by byte, as no stream
/// gives bytes back. Interim responses are passed over.
async fn read_status(stream: &mut (impl AsyncRead + Unpin)) -> Result<u16, String> {
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") && !head.ends_with(b"\n\n") {
            if head.len() == HEAD_BYTES_MAX {
                return Err("the head of its answer is too long".to_owned());
            }
            let byte = stream.read_u8().await;
            head.push(byte.map_err(|error| format!("its answer broke off: {error}"))?);
        }
        match status(&head).ok_or_else(|| "its answer is not HTTP".to_owned())? {
            100..=199 => {}
            status => return Ok(status),
        }
    }
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
            match (read_status(&mut stream).await, expected) {
                (Ok(status), Ok(expected)) => {
                    assert_eq!((status, stream), (expected, &b"rest"[..]), "{sent}");
                }
                (Err(error), Err(expected)) => assert!(error.contains(expected), "{error}"),
                (read, _) => panic!("{sent}: {read:?}"),
            }
        }
        let long = [b"HTTP/1.1 200 OK\r\n".to_vec(), vec![b'a'; HEAD_BYTES_MAX]].concat();
        assert!(read_status(&mut &long[..]).await.unwrap_err().contains("too long"));
    }
}
