//! Checks that a line is in canonical form (RFC 8785), so that its hash can be computed again.

use serde_json::Value;

use crate::audit::{Content, split};

/// Whether the bytes before the hash are in canonical form. Known lines are serialized again and
/// compared; others are checked by the general rules.
pub fn is_canonical(line: &[u8], content: Option<&Content>) -> bool {
    let Some((canonical, _)) = split(line) else { return false };
    let text = [canonical, b"}"].concat();
    let written = content.and_then(|content| match content {
        // The hash is no member of a record, and so is not written.
        Content::Record(record) => serde_json::to_vec(record).ok(),
        Content::Notice(notice) => serde_json::to_vec(notice).ok(),
    });
    written.is_some_and(|written| written == text) || is_canonical_json(&text)
}

/// RFC 8785 §3.2 for the values that lines have: no white space, members sorted, no fractions.
fn is_canonical_json(text: &[u8]) -> bool {
    let Ok(value) = serde_json::from_slice::<Value>(text) else { return false };
    is_sorted(&value) && serde_json::to_vec(&value).is_ok_and(|written| written == text)
}

fn is_sorted(value: &Value) -> bool {
    match value {
        Value::Object(members) => {
            let names: Vec<Vec<u16>> =
                members.keys().map(|name| name.encode_utf16().collect()).collect();
            names.is_sorted() && members.values().all(is_sorted)
        }
        Value::Array(items) => items.iter().all(is_sorted),
        Value::Number(number) => !number.is_f64(),
        _ => true,
    }
}
