//! Faults of a request head, as its rejection describes them.

use http::StatusCode;

use crate::proxy::outcome::rejection::Rejection;

/// Bytes of a malformed line that the response repeats.
const DETAIL_BYTES_MAX: usize = 120;

/// The rejection of a head that is longer, or has more fields, than is allowed.
pub fn too_large() -> Rejection {
    Rejection::bad_request_as(
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        "the request head is longer, or has more fields, than limits.max_header_bytes and \
         limits.max_headers allow",
    )
}

/// The rejection of a head that takes too long to arrive.
pub fn too_slow() -> Rejection {
    Rejection::bad_request_as(
        StatusCode::REQUEST_TIMEOUT,
        "the request head did not come to its end in time (limits.header_timeout)",
    )
}

/// The rejection of a target, or a request line, that is longer than is allowed.
pub fn target_too_long() -> Rejection {
    Rejection::bad_request_as(
        StatusCode::URI_TOO_LONG,
        "the request line is longer than limits.max_header_bytes allows, or its target than 65,534 bytes",
    )
}

/// Describes a fault of a field line. Only the values of fields that frame the message are
/// repeated: others may be secret.
pub(super) fn field_fault(line: &[u8], fault: &str) -> String {
    let name = memchr::memchr2(b':', b' ', line).map_or(line, |end| &line[..end]);
    let frames = [&b"content-length"[..], b"transfer-encoding"];
    let is_framing = frames.iter().any(|framing| name.eq_ignore_ascii_case(framing));
    format!("the field line {} {fault}", if is_framing { quoted(line) } else { quoted(name) })
}

/// The beginning of `line` for a detail of a rejection, in quotation marks.
pub(super) fn quoted(line: &[u8]) -> String {
    let cut = &line[..line.len().min(DETAIL_BYTES_MAX)];
    let more = if cut.len() < line.len() { "…" } else { "" };
    format!("\"{}{more}\"", cut.escape_ascii())
}
