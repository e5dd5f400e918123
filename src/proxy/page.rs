//! The few pages for people: a problem, and the proxy's own. Small, self-contained, escaped.

use std::fmt::Write as _;

use http::StatusCode;
use serde_json::{Map, Value};

use super::problem::{OWN_NAME, Problem};
use crate::ca::CLIENTS;
use crate::text::Html;

/// A problem as a page.
pub fn problem(problem: Problem, detail: &str, members: &Map<String, Value>) -> String {
    let row = problem.row();
    let mut rows = String::new();
    flatten("", members, &mut rows);
    document(
        row.title,
        &format!(
            "<p>{}</p>\n<table>{rows}</table>\n<p><b>What to do:</b> {}</p>\n\
             <p><small>Answered by courtesy, a crawler politeness proxy. <a href=\"{}\">{}</a></small></p>",
            Html(detail),
            Html(row.remedy),
            problem.uri(),
            row.name
        ),
    )
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
        let body = format!("<p>{}</p>\n<p><b>What to do:</b> {}</p>", Html(row.meaning), Html(row.remedy));
        return (StatusCode::OK, document(row.title, &body));
    }
    if path != "/" {
        let body = format!("<p>There is no such page. <a href=\"http://{OWN_NAME}/\">Start here.</a></p>");
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
        "<p>This is a crawler politeness proxy: it obeys robots.txt (RFC 9309) for whoever asks through it. \
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
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>{0}</title>\n\
         <style>body{{font:16px/1.5 system-ui,sans-serif;max-width:46em;margin:3em auto;padding:0 1em}}\
         th{{text-align:left;padding-right:1em;font-weight:normal;color:#555}}code,pre{{overflow-wrap:anywhere;white-space:pre-wrap}}</style>\n\
         <h1>{0}</h1>\n{body}\n</html>\n",
        Html(title)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_strangers_wrote_is_escaped() {
        let members = Map::from_iter([("url".to_owned(), Value::from("http://a/<script>'\"&"))]);
        let html = problem(Problem::Disallowed, "<b>", &members);
        assert!(html.contains("http://a/&lt;script&gt;&#39;&quot;&amp;"), "{html}");
        assert!(!html.contains("<script>") && html.contains("&lt;b&gt;"));
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
