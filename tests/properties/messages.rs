//! Where a request ends is decided once: the same however its bytes come in, and the HTTP engine sees no
//! other end in what it is given. What follows a message is the next one, never a part of it.

use courtesy::proxy::test_hooks;

use super::engine::requests;

/// What stands behind each message, and must be seen as what it is.
const NEXT: &[u8] = b"GET http://next.example/ HTTP/1.1\r\nHost: next.example\r\n\r\n";

/// The bytes that a client sends.
pub fn holds(bytes: &[u8]) {
    let whole = test_hooks::messages(bytes, bytes.len());
    assert_eq!(whole, test_hooks::messages(bytes, 1), "in one piece, and byte by byte");
    for message in whole.0 {
        let seen = requests(&[&message[..], NEXT].concat());
        assert!(seen.len() <= 2, "{seen:?}");
        let Some((first, content)) = seen.first() else { continue };
        assert!(
            content.is_some(),
            "the content of {first} is whole: {:?}",
            message.escape_ascii().to_string()
        );
        if let Some((second, _)) = seen.get(1) {
            assert_eq!(
                second,
                "GET http://next.example/",
                "{:?}",
                message.escape_ascii().to_string()
            );
        }
        let bytes = content.as_ref().map_or(0, Vec::len);
        assert!(
            bytes <= message.len(),
            "{bytes} bytes of content in a message of {}",
            message.len()
        );
    }
}
