//! HTML pages: problems, and the proxy's own. Small, self-contained, escaped.

use std::fmt::Write as _;

use http::StatusCode;
use serde_json::{Map, Value};

use crate::audit::evidence::Kind;
use crate::audit::{Record, print_time};
use crate::ca::TABLE;
use crate::proxy::denial::{Denial, Recorded};
use crate::robots::{self, Dialect};
use crate::types::problem::{OWN_NAME, Problem};
use crate::types::sanitize::{self, Html};

const STYLE: &str = include_str!("page.css");

/// Nothing may be loaded, run or sent; only the style in the page applies.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// A problem as a page: what happened, the remedy, the lines of the robots.txt that decided, and
/// everything else folded.
pub fn problem(
    problem: Problem,
    detail: &str,
    members: &Map<String, Value>,
    denial: Option<&Recorded<Denial>>,
) -> String {
    let row = problem.row();
    let what = denial.map(|denial| refused(&denial.record)).unwrap_or_default();
    let mut body = format!(
        "<p>{what}{}</p>\n<p class=\"cure\"><b>What to do:</b> {}</p>\n",
        Html(detail),
        Html(row.remedy)
    );
    let mut rows = String::new();
    flatten("", members, &mut rows);
    if let Some(denial) = denial {
        push_evidence(denial, &mut body);
        push_circumstances(&denial.record, &mut rows);
    }
    if !rows.is_empty() {
        let _ =
            writeln!(body, "<details><summary>Details</summary>\n<table>{rows}</table></details>");
    }
    let _ = write!(
        body,
        "<p><small>Answered by courtesy, a crawler politeness proxy. <a href=\"{}\">{}</a></small></p>",
        problem.uri(),
        row.name
    );
    document(row.title, &body)
}

/// The beginning of the first sentence: which request was denied.
fn refused(record: &Record) -> String {
    format!("<code>{} {}</code> was refused: ", Html(&record.method), Html(&record.url))
}

/// The lines of the robots.txt that decided, and the command that shows all of it. Made here and
/// not with the denial, because few clients want a page.
fn push_evidence(denial: &Recorded<Denial>, body: &mut String) {
    let record = &denial.record;
    let file = denial.blobs.iter().find(|blob| blob.kind == Kind::File);
    let rule = record.rule.as_ref().map(|rule| rule.line);
    let line = rule.or(record.group.as_ref().map(|group| group.line));
    if let (Some(file), Some(line), Some(robots)) = (file, line, &record.robots)
        && let Some(rows) = excerpt_rows(&file.content, line)
    {
        let _ = writeln!(
            body,
            "<figure><figcaption>Line {line} of <a href=\"{0}\">{0}</a></figcaption>\n<table>{rows}</table></figure>",
            Html(&robots.url)
        );
    }
    if denial.is_in_log() {
        let id = Html(&record.id);
        let _ = writeln!(body, "<p>The whole evidence: <code>courtesy audit show {id}</code></p>");
    }
}

/// Members of the record that the JSON does not have.
fn push_circumstances(record: &Record, rows: &mut String) {
    push_row("method", &record.method, rows);
    push_row(
        "profile",
        &format!("{} (version {})", record.profile.name, record.profile.version),
        rows,
    );
    push_row("time", &print_time(record.time), rows);
}

fn flatten(prefix: &str, members: &Map<String, Value>, rows: &mut String) {
    for (name, value) in members {
        let name = format!("{prefix}{name}");
        match value {
            Value::Object(inner) => flatten(&format!("{name}."), inner, rows),
            Value::String(text) => push_row(&name, text, rows),
            other => push_row(&name, &other.to_string(), rows),
        }
    }
}

fn push_row(name: &str, value: &str, rows: &mut String) {
    let _ = write!(rows, "<tr><th>{}</th><td><code>{}</code></td></tr>", Html(name), Html(value));
}

/// The proxy's own pages: what it is, and one for each problem type.
pub fn own(path: &str, fingerprint: &str) -> (StatusCode, String) {
    if let Some(found) = path.strip_prefix("/problems/").and_then(Problem::named) {
        let row = found.row();
        let body =
            format!("<p>{}</p>\n<p><b>What to do:</b> {}</p>", Html(row.meaning), Html(row.remedy));
        return (StatusCode::OK, document(row.title, &body));
    }
    if path != "/" {
        let body =
            format!("<p>There is no such page. <a href=\"http://{OWN_NAME}/\">Start here.</a></p>");
        return (StatusCode::NOT_FOUND, document("Not found", &body));
    }
    let mut list = String::new();
    for row in Problem::ALL.map(Problem::row) {
        let _ = write!(
            list,
            "<li><a href=\"/problems/{}\">{}</a>: {}</li>",
            row.name,
            row.title,
            Html(row.meaning)
        );
    }
    let mut clients = String::new();
    for client in &TABLE.clients {
        let help = client.help.replace("{file}", "ca.pem");
        let help = help.lines().map(|line| Html(line).to_string()).collect::<Vec<_>>().join("\n");
        let _ = write!(clients, "<dt>{}</dt><dd><pre>{help}</pre></dd>", client.names.join(", "));
    }
    let body = format!(
        "<p>This is a crawler politeness proxy: it obeys robots.txt (RFC 9309) for the clients that use it. \
         What a site's robots.txt disallows is answered with 403 here, and recorded; everything else passes.</p>\
         <h2>To use it</h2>\n\
         <p>Set <code>http_proxy</code> and <code>https_proxy</code> to its address (with <code>http://</code>), \
         or start a crawler with <code>courtesy run -- COMMAND</code>, which sets all that is needed.</p>\n\
         <p>For HTTPS a client has to trust the proxy's CA: <a href=\"/ca.pem\">ca.pem</a>, \
         <a href=\"/ca.der\">ca.der</a> (SHA-256 <code>{}</code>).</p>\n\
         <dl>{clients}</dl>\n<h2>Answers it makes itself</h2>\n<ul>{list}</ul>",
        Html(fingerprint)
    );
    (StatusCode::OK, document("courtesy", &body))
}

fn document(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{0}</title>\n<style>\n{STYLE}</style>\n\
         <h1>{0}</h1>\n{body}\n</html>\n",
        Html(title)
    )
}

/// Lines before and after the deciding one that are shown.
const CONTEXT: u32 = 3;
/// Bytes of a line that are shown.
const SHOWN_BYTES_MAX: usize = 300;

/// Table rows of line number and text, with line `decided` (counted from 1) in `<mark>`; `None` if
/// `body` has no such line. Reads `body` no further than needed, and copies only what is shown.
pub fn excerpt_rows(body: &[u8], decided: u32) -> Option<String> {
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

    #[test]
    fn untrusted_text_is_escaped() {
        let members = Map::from_iter([("url".to_owned(), Value::from("http://a/<script>'\"&"))]);
        let html = problem(Problem::Disallowed, "<b>", &members, None);
        assert!(html.contains("http://a/&lt;script&gt;&#39;&quot;&amp;"), "{html}");
        assert!(!html.contains("<script>") && html.contains("&lt;b&gt;"));
    }

    #[test]
    fn the_remedy_comes_before_the_folded_details() {
        let members = Map::from_iter([("url".to_owned(), Value::from("http://a/"))]);
        let html = problem(Problem::Busy, "Too many.", &members, None);
        let parts = [
            "<h1>Too much under way</h1>",
            "<p>Too many.</p>",
            "Try again after",
            "<details>",
            "http://a/",
        ];
        assert!(parts.map(|part| html.find(part).expect(part)).is_sorted(), "{html}");
        assert!(
            !problem(Problem::Busy, "", &Map::new(), None).contains("<details>"),
            "nothing to fold"
        );
    }

    #[test]
    fn a_page_loads_nothing_and_is_legible_on_dark_and_narrow_screens() {
        let html = own("/", "").1;
        for has in [
            POLICY,
            "name=\"color-scheme\" content=\"light dark\"",
            "prefers-color-scheme: dark",
            "width=device-width",
        ] {
            assert!(html.contains(has), "{has}");
        }
        for lacks in ["<script", " src=", "<link", "@import", "url("] {
            assert!(!html.contains(lacks), "{lacks}");
        }
    }

    #[test]
    fn every_problem_has_its_page() {
        for problem in Problem::ALL {
            let path = problem.uri().strip_prefix("http://courtesy.internal").unwrap().to_owned();
            assert_eq!(own(&path, "").0, StatusCode::OK, "{path}");
        }
        assert_eq!(own("/problems/x", "").0, StatusCode::NOT_FOUND);
    }

    fn numbers(rows: &str) -> Vec<&str> {
        rows.split("<th>").skip(1).map(|row| row.split_once("</th>").unwrap().0).collect()
    }

    #[test]
    fn the_line_that_decided_is_marked_and_stands_among_its_neighbours() {
        let body = (1..=20).map(|number| format!("Disallow: /{number}\r\n")).collect::<String>();
        let middle = excerpt_rows(body.as_bytes(), 10).unwrap();
        assert_eq!(numbers(&middle), ["7", "8", "9", "10", "11", "12", "13"]);
        assert!(
            middle.contains("<th>10</th><td><code><mark>Disallow: /10</mark></code></td>"),
            "{middle}"
        );
        assert_eq!(middle.matches("<mark>").count(), 1);
        assert_eq!(numbers(&excerpt_rows(body.as_bytes(), 1).unwrap()), ["1", "2", "3", "4"]);
        assert_eq!(numbers(&excerpt_rows(body.as_bytes(), 20).unwrap()), ["17", "18", "19", "20"]);
        assert_eq!(
            numbers(&excerpt_rows(body.trim_end().as_bytes(), 20).unwrap()),
            ["17", "18", "19", "20"]
        );
        assert_eq!(
            (excerpt_rows(body.as_bytes(), 30), excerpt_rows(b"", 2), excerpt_rows(b"a", u32::MAX)),
            (None, None, None)
        );
    }

    #[test]
    fn markup_and_control_characters_of_the_file_are_escaped() {
        let body = b"</td><script>alert('1')</script>\nDisallow: /\x1b[2J\xe2\x80\xae\xff\0\x7f&amp;\n</mark><img src=x>";
        let rows = excerpt_rows(body, 2).unwrap();
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
        let rows = excerpt_rows(&long.repeat(9), 5).unwrap();
        assert_eq!(numbers(&rows).len(), 7);
        assert!(rows.contains("<i>… 1048587 bytes in all</i>"));
        assert!(rows.len() < 7 * (SHOWN_BYTES_MAX * 6 + 100), "{}", rows.len());
    }
}
