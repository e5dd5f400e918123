//! The lines of a robots.txt around the one that decided, for the page of a denial.

use std::fmt::Write as _;

use crate::robots::{self, Dialect};
use crate::types::sanitize::{self, Html};

/// Lines before and after the deciding one that are shown.
const CONTEXT: u32 = 3;
/// Bytes of a line that are shown.
const SHOWN_BYTES_MAX: usize = 300;

/// Table rows of line number and text, with line `decided` (counted from 1) in `<mark>`; `None` if
/// `body` has no such line. Reads `body` no further than needed, and copies only what is shown.
pub fn rows(body: &[u8], decided: u32) -> Option<String> {
    // Lines beyond the size limit of a profile are shown, too: it only bounds what is parsed.
    let dialect = Dialect { size_limit: usize::MAX, ..Dialect::RFC9309.clone() };
    let near = robots::lines(body, &dialect)
        .skip_while(|(number, _)| number.saturating_add(CONTEXT) < decided)
        .take_while(|(number, _)| *number <= decided.saturating_add(CONTEXT));
    let mut rows = String::new();
    let mut is_found = false;
    for (number, line) in near {
        let is_last = line.as_ptr_range().end == body.as_ptr_range().end;
        if is_last && line.is_empty() && number != decided {
            // The end of the last line is not followed by a line.
            break;
        }
        let (open, close) = if number == decided { ("<mark>", "</mark>") } else { ("", "") };
        is_found |= number == decided;
        let shown = &line[..line.len().min(SHOWN_BYTES_MAX)];
        let text = sanitize::text(shown, usize::MAX);
        let _ = write!(rows, "<tr><th>{number}</th><td><code>{open}{}{close}</code>", Html(&text));
        if shown.len() < line.len() {
            let _ = write!(rows, " <i>… {} bytes in all</i>", line.len());
        }
        rows.push_str("</td></tr>\n");
    }
    is_found.then_some(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(rows: &str) -> Vec<&str> {
        rows.split("<th>").skip(1).map(|row| row.split_once("</th>").unwrap().0).collect()
    }

    #[test]
    fn the_line_that_decided_is_marked_and_stands_among_its_neighbours() {
        let body = (1..=20).map(|number| format!("Disallow: /{number}\r\n")).collect::<String>();
        let middle = rows(body.as_bytes(), 10).unwrap();
        assert_eq!(numbers(&middle), ["7", "8", "9", "10", "11", "12", "13"]);
        assert!(
            middle.contains("<th>10</th><td><code><mark>Disallow: /10</mark></code></td>"),
            "{middle}"
        );
        assert_eq!(middle.matches("<mark>").count(), 1);
        assert_eq!(numbers(&rows(body.as_bytes(), 1).unwrap()), ["1", "2", "3", "4"]);
        assert_eq!(numbers(&rows(body.as_bytes(), 20).unwrap()), ["17", "18", "19", "20"]);
        assert_eq!(
            numbers(&rows(body.trim_end().as_bytes(), 20).unwrap()),
            ["17", "18", "19", "20"]
        );
        assert_eq!(
            (rows(body.as_bytes(), 30), rows(b"", 2), rows(b"a", u32::MAX)),
            (None, None, None)
        );
    }

    #[test]
    fn markup_and_control_characters_of_the_file_are_escaped() {
        let body = b"</td><script>alert('1')</script>\nDisallow: /\x1b[2J\xe2\x80\xae\xff\0\x7f&amp;\n</mark><img src=x>";
        let rows = rows(body, 2).unwrap();
        assert!(
            rows.contains("&lt;/td&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;"),
            "{rows}"
        );
        assert!(
            rows.contains(
                "<mark>Disallow: /\\x1B[2J\\xE2\\x80\\xAE\\xFF\\x00\\x7F&amp;amp;</mark>"
            ),
            "{rows}"
        );
        assert!(rows.contains("&lt;/mark&gt;&lt;img src=x&gt;"), "{rows}");
        assert!(rows.chars().all(|character| character == '\n' || !character.is_control()));
    }

    #[test]
    fn long_lines_are_cut_and_many_are_left_out() {
        let long = [&b"Disallow: /"[..], &[b'"'; 1 << 20], b"\n"].concat();
        let rows = rows(&long.repeat(9), 5).unwrap();
        assert_eq!(numbers(&rows).len(), 7);
        assert!(rows.contains("<i>… 1048587 bytes in all</i>"));
        assert!(rows.len() < 7 * (SHOWN_BYTES_MAX * 6 + 100), "{}", rows.len());
    }
}
