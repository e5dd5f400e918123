//! What the HTTP engine can read as a request is taken for HTTP from its first bytes on; what begins
//! as a TLS handshake is TLS; one is never taken for the other.

use courtesy::proxy::test_hooks::is_tls;

use super::engine::first_request;
use super::strict;

/// What a client sends after its CONNECT.
pub fn holds(bytes: &[u8]) {
    let Some(first) = bytes.first() else {
        assert_eq!(is_tls(bytes), None, "nothing is neither");
        return;
    };
    assert_eq!(is_tls(bytes) == Some(true), *first == 0x16);
    let is_plain = first.is_ascii_alphabetic();
    let Some(request) = first_request(bytes).filter(|_| is_plain) else { return };
    assert!(strict::is_token(request.method.as_str().as_bytes()));
    // Each of the first, and then some: a reader that looks at all of each would take long.
    for end in (1..=bytes.len().min(4096)).filter(|end| *end <= 256 || end % 61 == 0) {
        assert_eq!(is_tls(&bytes[..end]), Some(false), "after {end} bytes");
    }
}
