//! Removes dot segments from a URL's path before it is compared (D-DOTS).

use memchr::{memchr, memchr_iter};

/// The path, and the query with its `?`.
pub(super) fn split_query(path_and_query: &[u8]) -> (&[u8], &[u8]) {
    path_and_query.split_at(memchr(b'?', path_and_query).unwrap_or(path_and_query.len()))
}

/// Whether a path has a dot segment.
pub(super) fn has_dot_segment(path: &[u8]) -> bool {
    let begins_segment = |dot: usize| dot > 0 && path[dot - 1] == b'/';
    memchr_iter(b'.', path).filter(|dot| begins_segment(*dot)).any(|dot| {
        let after = path[dot + 1..].strip_prefix(b".").unwrap_or(&path[dot + 1..]);
        matches!(after.first(), None | Some(b'/'))
    })
}

/// RFC 3986 §5.2.4, for a path that begins with `/`.
pub(super) fn remove_dot_segments(path_and_query: &[u8]) -> Vec<u8> {
    let (path, query) = split_query(path_and_query);
    let mut out = Vec::with_capacity(path_and_query.len());
    let mut segments = path[1..].split(|&byte| byte == b'/').peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            b"." => {}
            b".." => out.truncate(out.iter().rposition(|&byte| byte == b'/').unwrap_or(0)),
            _ => {
                out.push(b'/');
                out.extend(segment);
                continue;
            }
        }
        // A dot segment at the end leaves the directory that it names.
        if last {
            out.push(b'/');
        }
    }
    out.extend(query);
    out
}
