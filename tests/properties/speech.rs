//! What the HTTP engine can read as a request is taken for HTTP from its first octets on; what begins
//! as a TLS handshake is TLS; one is never taken for the other.

use courtesy::proxy::probe::is_tls;

use super::engine::first_request;
use super::strict;

/// What a client sends after its CONNECT.
pub fn holds(octets: &[u8]) {
    let Some(first) = octets.first() else {
        assert_eq!(is_tls(octets), None, "nothing is neither");
        return;
    };
    assert_eq!(is_tls(octets) == Some(true), *first == 0x16);
    let is_plain = first.is_ascii_alphabetic();
    let Some(request) = first_request(octets).filter(|_| is_plain) else { return };
    assert!(strict::is_token(request.method.as_str().as_bytes()));
    // Each of the first, and then some: a reader that looks at all of each would take long.
    for end in (1..=octets.len().min(4096)).filter(|end| *end <= 256 || end % 61 == 0) {
        assert_eq!(is_tls(&octets[..end]), Some(false), "after {end} octets");
    }
}
