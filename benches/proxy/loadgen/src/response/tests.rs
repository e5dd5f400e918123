use super::*;

/// However it is cut in two, the response is the same.
#[track_caller]
fn reads(bytes: &[u8], status: u16, body: u64, keep_alive: bool) {
    for cut in 0..bytes.len() {
        let mut response = Response::new();
        assert!(!response.feed(&bytes[..cut]).unwrap(), "complete after {cut}");
        assert!(response.feed(&bytes[cut..]).unwrap(), "incomplete, cut at {cut}");
        let read = (response.status, response.body, response.keep_alive);
        assert_eq!(read, (status, body, keep_alive), "cut at {cut}");
    }
}

#[test]
fn a_length_ends_a_body() {
    reads(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, 5, true);
    reads(b"HTTP/1.1 204 No Content\r\n\r\n", 204, 0, true);
    reads(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nConnection: close\r\n\r\nhi", 200, 2, false);
    reads(b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nhi", 200, 2, false);
    reads(b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\ncontent-length: 2\r\n\r\nhi", 200, 2, true);
}

#[test]
fn an_interim_response_comes_before_the_real_one() {
    reads(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, 1, true);
}

#[test]
fn chunks_end_with_an_empty_one_and_its_trailer() {
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunks = b"5\r\nhello\r\n3;x=y\r\nabc\r\n0\r\nT: v\r\n\r\n";
    reads(&[&chunked[..], chunks].concat(), 200, 8, true);
}

#[test]
fn without_framing_the_close_is_the_end() {
    let mut response = Response::new();
    assert!(!response.feed(b"HTTP/1.1 200 OK\r\n\r\nabc").unwrap());
    assert!(response.closed());
    assert_eq!((response.body, response.keep_alive), (3, false));
}

#[test]
fn a_tunnel_begins_after_the_head() {
    let mut response = Response::new();
    response.reset(true);
    assert!(response.feed(b"HTTP/1.1 200 OK\r\n\r\n").unwrap());
    response.reset(false);
    assert!(!response.started());
}

#[test]
fn what_cannot_be_a_response_is_malformed() {
    for bytes in [
        &b"SSH-2.0-x\r\n\r\n"[..],
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxy",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ] {
        assert!(Response::new().feed(bytes).is_err(), "{}", bytes.escape_ascii());
    }
}
