//! What the proxy takes for the target of a request is what a strict reader sees in the same bytes:
//! never another scheme, host, port or path. And a target, written out, is the same target again.

use courtesy::proxy::test_hooks;
use courtesy::types::origin::split_url;

use super::engine::first_request;
use super::strict;

/// The bytes that a client sends.
pub fn holds(bytes: &[u8]) {
    let Some(head) = first_request(bytes) else { return };
    let Some((origin, path)) = test_hooks::resource(&head) else { return };

    let (_, target) = strict::request_line(bytes).expect("a strict reader takes the request line");
    let read = strict::absolute(target).expect("a strict reader takes the target");
    assert_eq!(origin.scheme().as_str(), read.scheme);
    assert_eq!(origin.host().to_string(), read.host);
    assert_eq!(origin.port(), read.port.unwrap_or(origin.scheme().default_port()));
    assert_eq!(path.as_str().as_bytes(), read.path);

    let written = format!("{origin}{path}");
    let (again, rest) = split_url(written.as_bytes()).expect("a target is a URL");
    assert_eq!((&again, &*rest), (&origin, path.as_str().as_bytes()));
}
