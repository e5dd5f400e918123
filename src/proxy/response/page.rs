//! HTML pages: problems, and the proxy's own. Small, self-contained, escaped.

use std::fmt::Write as _;

use http::StatusCode;
use serde_json::{Map, Value};

use super::excerpt;
use crate::audit::evidence::Kind;
use crate::audit::{Record, print_time};
use crate::ca::CLIENTS;
use crate::proxy::outcome::denial::Denial;
use crate::proxy::outcome::recorded::Recorded;
use crate::types::problem::{OWN_NAME, Problem};
use crate::types::sanitize::Html;

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
        && let Some(rows) = excerpt::rows(&file.content, line)
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
    for client in CLIENTS {
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
}
