//! The target of a CONNECT is host and port as a strict reader sees them, or refused; and so is the
//! authority of anything else. What is taken, written out, is the same again.

use courtesy::proxy::test_hooks;
use courtesy::types::origin::{Origin, Scheme};

use super::engine::first_request;
use super::strict;

/// What stands between `CONNECT` and `HTTP/1.1`.
pub fn holds(bytes: &[u8]) {
    let head = [b"CONNECT ", bytes, b" HTTP/1.1\r\nHost: a.example\r\n\r\n"].concat();
    if let Some(origin) = first_request(&head).as_ref().and_then(test_hooks::connect) {
        let (_, target) =
            strict::request_line(&head).expect("a strict reader takes the request line");
        let (host, port) = strict::authority(target).expect("a strict reader takes the target");
        assert_eq!((origin.host().to_string(), Some(origin.port())), (host, port));
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(origin) = Origin::from_authority(Scheme::Http, text) else { return };
    assert_eq!(Origin::from_authority(Scheme::Http, &origin.authority()), Ok(origin.clone()));
    // Another alphabet has another spelling, which is not for the strict reader.
    if text.is_ascii() {
        let (host, port) = strict::authority(bytes).expect("a strict reader takes the authority");
        assert_eq!((origin.host().to_string(), origin.port()), (host, port.unwrap_or(80)));
    }
}
