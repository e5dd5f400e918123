//! Requests that come whole, byte by byte and in pieces.

use super::*;

/// The requests that are passed of `bytes` when they come in these pieces, and the status of the
/// fault that ends them.
fn passed(bytes: &str, pieces: &[usize]) -> (Vec<String>, Option<u16>) {
    let mut framing = Framing::new(200, 4);
    let (mut buffer, mut all, mut is_new) = (Vec::new(), Vec::<String>::new(), true);
    let mut rest = bytes.as_bytes();
    for size in pieces.iter().copied().chain([usize::MAX]) {
        let (piece, later) = rest.split_at(size.min(rest.len()));
        buffer.extend_from_slice(piece);
        rest = later;
        loop {
            let count = match framing.check(&mut buffer) {
                Ok(FramingStep::Pass(count)) => {
                    let encoded = framing.take_encoded().map(|encoded| encoded.head);
                    let text =
                        String::from_utf8_lossy(encoded.as_deref().unwrap_or(&buffer[..count]))
                            .into_owned();
                    match all.last_mut().filter(|_| !is_new) {
                        Some(last) => last.push_str(&text),
                        None => all.push(text),
                    }
                    is_new = framing.is_between_requests();
                    count
                }
                Ok(FramingStep::Discard(count)) => count,
                Ok(FramingStep::ReadMore) => break,
                Err(Fault::Head(rejection)) => return (all, Some(rejection.status().as_u16())),
                Err(Fault::Content(_)) => return (all, Some(0)),
            };
            buffer.drain(..count);
        }
    }
    (all, None)
}

/// The same at once, byte by byte, and split at each boundary.
#[track_caller]
fn assert_passed(bytes: &str, requests: &[&str], status: Option<u16>) {
    let expected = (requests.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>(), status);
    for at in 0..bytes.len() {
        // How much of broken content passes before it breaks depends on how it comes.
        if status != Some(0) {
            assert_eq!(passed(bytes, &[at]), expected, "{bytes:?} split at {at}");
        }
    }
    let (requests, status) = passed(bytes, &vec![1; bytes.len()]);
    assert_eq!(status, expected.1, "{bytes:?} byte by byte");
    assert!(status == Some(0) || requests == expected.0, "{bytes:?} byte by byte: {requests:?}");
}

const GET: &str = "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn requests_pass_one_by_one_however_they_come() {
    let post = "POST http://a/ HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello";
    let chunked = "POST http://a/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nGET /\r\n0\r\nX: y\r\n\r\n";
    assert_passed(GET, &[GET], None);
    assert_passed(&[GET, post, chunked, GET].concat(), &[GET, post, chunked, GET], None);
    assert_passed(&format!("\r\n\n{GET}\r\n\r\n{GET}\n"), &[GET, GET], None);
    assert_passed("GET http://a/ HTTP/1.0\n\n", &["GET http://a/ HTTP/1.0\n\n"], None);
    assert_passed("GET http://a/ HTTP/1.7\r\n\r\n", &["GET http://a/ HTTP/1.1\r\n\r\n"], None);
    assert_passed(&GET[..GET.len() - 1], &[], None);
}

#[test]
fn a_target_is_percent_encoded_however_it_comes() {
    let typed = "GET http://a/caf\u{e9}?\"<>` HTTP/1.1\r\nHost: a\r\n\r\n";
    let encoded = "GET http://a/caf%C3%A9?%22%3C%3E` HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_passed(&[GET, typed, GET].concat(), &[GET, encoded, GET], None);
    // The head, or the target alone, would be longer than it may be.
    let long = |typed: &str| format!("GET http://a/{} HTTP/1.1\r\n\r\n{GET}", typed.repeat(60));
    assert_passed(&long("<"), &[], Some(431));
    assert_passed(&[GET, "GET http://a\u{e9}/ HTTP/1.1\r\n\r\n", GET].concat(), &[GET], Some(400));
}

#[test]
fn b14_nothing_passes_after_a_fault() {
    for (fault, status) in [
        ("GET http://a/ HTTP/1.1\r\nHost : a\r\n\r\n", 400),
        ("\rGET http://a/ HTTP/1.1\r\n\r\n", 400),
        ("GET http://a/ HTTP/2.0\r\n", 400),
        ("\0", 400),
        ("GET http://a/ HTTP/1.1\r\nA: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\nE: 5\r\n\r\n", 431),
    ] {
        assert_passed(&[GET, fault, GET].concat(), &[GET], Some(status));
    }
    let long = "x".repeat(300);
    assert_passed(&format!("GET http://a/{long} HTTP/1.1\r\n\r\n{GET}"), &[], Some(414));
    assert_passed(&format!("GET http://a/ HTTP/1.1\r\nX: {long}\r\n\r\n{GET}"), &[], Some(431));
    let chunks =
        "POST http://a/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n";
    assert_passed(&[chunks, GET].concat(), &[], Some(0));
}
