//! Every response that the proxy makes itself: denials, errors, the cached robots.txt, the proxy's own
//! pages. Each error is a problem (RFC 9457) with a `Proxy-Status` (RFC 9209), as JSON, HTML or text by
//! `Accept`.

mod page;

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCEPT, AGE, ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE,
    PROXY_AUTHENTICATE, RETRY_AFTER,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, request};
use hyper::ext::ReasonPhrase;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tracing::debug;

use super::connection::body::Body;
use super::denial::{Denial, Recorded};
use super::hop_by_hop::PROXY_STATUS;
use super::rejection::{Refusal, Rejection};
use crate::audit::{Group, Reason, Rule};
use crate::ca::Authority;
use crate::egress::ParentFailure;
use crate::pace::Waited;
use crate::policy::access::Snapshot;
use crate::types::problem::{Problem, ProblemType};

/// The authentication scheme (RFC 7617 §2, §2.1; RFC 9110 §15.5.8).
const CHALLENGE: &str = "Basic realm=\"courtesy\", charset=\"UTF-8\"";

/// The id of the record of a denial.
const RECORD: HeaderName = HeaderName::from_static("courtesy-record");

/// How long a forwarded request waited for its turn.
const WAITED: HeaderName = HeaderName::from_static("courtesy-waited");

/// Names in `headers` how long the request waited for its turn, in seconds, and why.
pub fn note_waited(headers: &mut HeaderMap, waited: &Waited) {
    let mut value = format!("{:.3};by={}", waited.time.as_secs_f64(), waited.by);
    if let Some(line) = waited.line {
        value.push_str(&format!(";line={line}"));
    }
    if let Ok(value) = HeaderValue::try_from(value) {
        headers.insert(WAITED, value);
    }
}

/// The response to a request of the client at `address` that is not forwarded.
pub fn refused(refusal: &Refusal, format: ErrorFormat, address: IpAddr) -> Response<Body> {
    match refusal {
        Refusal::Rejection(rejection) => {
            debug!(client = %address, status = rejection.status.as_u16(), "{}", rejection.detail);
            rejected(rejection, format)
        }
        Refusal::Denial(denial) => denied(denial, format),
    }
}

/// The response to a refused request.
pub fn rejected(rejection: &Rejection, format: ErrorFormat) -> Response<Body> {
    rejected_content(rejection, format).map(Body::own)
}

fn rejected_content(rejection: &Rejection, format: ErrorFormat) -> Response<Bytes> {
    let mut proxy_status = format!("courtesy; error={}", rejection.proxy_error);
    if rejection.is_delay() {
        // Written by the proxy alone: ASCII without quotes (RFC 9651 §3.3.3).
        proxy_status.push_str(&format!("; details=\"{}\"", rejection.detail));
    }
    if let Some(parent) = &rejection.parent {
        proxy_status.push_str(&next_hop(parent));
    }
    let json = ProblemJson::of(rejection.problem, rejection.status, &rejection.detail);
    let mut response =
        problem(rejection.problem, rejection.status, &rejection.detail, &json, None, format);
    insert(&mut response, PROXY_STATUS, &proxy_status);
    finish(&mut response, rejection.retry_after);
    if rejection.closes() {
        insert(&mut response, CONNECTION, "close");
    }
    if rejection.challenges() {
        insert(&mut response, PROXY_AUTHENTICATE, CHALLENGE);
    }
    response
}

/// The parameters that name a parent proxy and the status that it answered with (RFC 9209 §2.1.2,
/// §2.1.5). A URL is ASCII without quotes.
fn next_hop(ParentFailure { parent, status, .. }: &ParentFailure) -> String {
    let received = status.map(|status| format!("; received-status={status}"));
    format!("; next-hop=\"{parent}\"{}", received.unwrap_or_default())
}

/// The response to bytes that are no request, as bytes: hyper cannot write it.
pub fn raw_rejection(rejection: &Rejection) -> Vec<u8> {
    let response = rejected_content(rejection, ErrorFormat::DEFAULT);
    let status = response.status();
    let title = rejection.problem.row().title;
    let mut bytes = format!("HTTP/1.1 {} {title}\r\n", status.as_u16()).into_bytes();
    for (name, value) in response.headers() {
        bytes.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    bytes.extend(b"\r\n");
    bytes.extend(response.into_body());
    bytes
}

/// The 403: the reason, the line and version of the file, and the remedy (RFC 9209 §2.3.3,
/// `http_request_denied`).
pub fn denied(denial: &Recorded<Denial>, format: ErrorFormat) -> Response<Body> {
    let mut sentence = denial.sentence();
    if !denial.is_in_log() {
        sentence.push_str(" The record of this denial could not be written.");
    }
    let json = ProblemJson::of(denial.problem, denial.status, &sentence).with_denial(denial);
    let mut response =
        problem(denial.problem, denial.status, &sentence, &json, Some(denial), format);
    insert(&mut response, PROXY_STATUS, &denial.proxy_status());
    if denial.is_in_log() {
        insert(&mut response, RECORD, &denial.record.id);
    }
    finish(&mut response, denial.retry_after);
    response.map(Body::own)
}

/// The robots.txt of the snapshot that decides, as the origin sent it. What was read of one that is
/// longer ends at the end of a line, as it does for the decision: half a rule would be another rule.
pub fn robots_txt(snapshot: &Snapshot, age: Duration) -> Response<Body> {
    let mut content = snapshot.body.clone();
    let mut part = String::new();
    if snapshot.cut {
        let last = content.iter().rposition(|byte| b"\r\n".contains(byte));
        content.truncate(last.map_or(0, |last| last + 1));
        part = format!(": its first {} bytes (robots.max_size)", content.len());
    }
    let length = content.len();
    let mut response = Response::new(Body::own(content));
    let headers = response.headers_mut();
    if let Some(content_type) = &snapshot.content_type {
        headers.insert(CONTENT_TYPE, content_type.clone());
    }
    headers.insert(AGE, HeaderValue::from(age.as_secs()));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    let status = format!("courtesy; details=\"robots.txt from the copy that decides{part}\"");
    insert(&mut response, PROXY_STATUS, &status);
    response
}

/// The 200 to a CONNECT (RFC 9110 §9.3.6): no content, and no headers about content.
pub fn connected() -> Response<Body> {
    Response::new(Body::empty())
}

/// The methods of this proxy, for `OPTIONS *` and an exhausted `Max-Forwards` (RFC 9110 §9.3.7).
pub fn options() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    insert(&mut response, ALLOW, "GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS");
    insert(&mut response, PROXY_STATUS, "courtesy");
    response
}

/// A TRACE that ends here is not echoed: it may carry credentials (RFC 9110 §9.3.8).
pub fn trace_ends_here() -> Response<Body> {
    let mut response = options();
    *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    response
}

/// A rejection of the connection itself, whose requests are all answered with it.
pub fn connection_rejected(rejection: &Rejection, head: &request::Parts) -> Response<Body> {
    with_close(rejected(rejection, ErrorFormat::of(head)))
}

/// The same response, as the last of its connection (RFC 9112 §9.6).
pub fn with_close(mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// A page of the proxy itself, or the certificate of its CA.
pub fn own_page(path: &str, authority: &Authority) -> Response<Body> {
    let (status, content_type, content) = match path {
        "/ca.pem" => (StatusCode::OK, "application/x-pem-file", Bytes::from(authority.bundle())),
        "/ca.der" => {
            let der = Bytes::copy_from_slice(authority.certificate().der());
            (StatusCode::OK, "application/pkix-cert", der)
        }
        path => {
            let (status, html) = page::own(path, &authority.certificate().fingerprint());
            (status, "text/html; charset=utf-8", Bytes::from(html))
        }
    };
    let mut response = Response::new(Body::own(content));
    *response.status_mut() = status;
    insert(&mut response, CONTENT_TYPE, content_type);
    insert(&mut response, PROXY_STATUS, "courtesy");
    finish(&mut response, None);
    response
}

fn problem(
    problem: Problem,
    status: StatusCode,
    detail: &str,
    json: &ProblemJson<'_>,
    denial: Option<&Recorded<Denial>>,
    format: ErrorFormat,
) -> Response<Bytes> {
    let ProblemType { title, remedy, .. } = problem.row();
    let (content_type, content) = match format.format {
        Format::Json => ("application/problem+json", json.json()),
        Format::Html => {
            let html = page::problem(problem, detail, &json.members(), denial);
            ("text/html; charset=utf-8", html.into_bytes())
        }
        Format::Text => {
            let text = format!("{title}\n\n{detail}\n\n{}\n", remedy);
            ("text/plain; charset=utf-8", text.into_bytes())
        }
    };
    let length = content.len();
    // RFC 9110 §9.3.2: the headers of a response to HEAD are those of a GET; the content is not
    // sent.
    let content = if format.is_head { Bytes::new() } else { Bytes::from(content) };
    let mut response = Response::new(content);
    *response.status_mut() = status;
    // Most clients show only this of an error. HTTP/2 has no reason phrase (RFC 9113 §8.3.2).
    response.extensions_mut().insert(ReasonPhrase::from_static(title.as_bytes()));
    insert(&mut response, CONTENT_TYPE, content_type);
    response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
    response
}

fn finish<B>(response: &mut Response<B>, retry_after: Option<Duration>) {
    insert(response, CACHE_CONTROL, "no-store");
    if let Some(wait) = retry_after {
        // Rounded up: a client that retries exactly then is not too early.
        let seconds = wait.as_millis().div_ceil(1000).max(1);
        insert(response, RETRY_AFTER, &seconds.to_string());
    }
}

fn insert<B>(response: &mut Response<B>, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

/// A problem, with members of the record if it is a denial. Members without a value are left out.
#[derive(Debug, Serialize)]
pub struct ProblemJson<'a> {
    r#type: String,
    title: &'static str,
    status: u16,
    detail: &'a str,
    remedy: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Reason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    robots: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a Group>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'a Rule>,
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<&'a str>,
}

/// The members of every problem.
const COMMON: [&str; 5] = ["type", "title", "status", "detail", "remedy"];

impl<'a> ProblemJson<'a> {
    /// A problem that is no denial.
    pub fn of(problem: Problem, status: StatusCode, detail: &'a str) -> Self {
        let row = problem.row();
        Self {
            r#type: problem.uri(),
            title: row.title,
            status: status.as_u16(),
            detail,
            remedy: row.remedy,
            url: None,
            agent: None,
            reason: None,
            robots: None,
            group: None,
            rule: None,
            record: None,
        }
    }

    /// The same, with the members of a denial.
    pub fn with_denial(self, denial: &'a Recorded<Denial>) -> Self {
        let record = &denial.record;
        Self {
            url: Some(&record.url),
            agent: record.agent.as_deref(),
            reason: Some(record.reason),
            robots: denial.robots.as_ref().map(|robots| &*robots.shown),
            group: record.group.as_ref(),
            rule: record.rule.as_ref(),
            record: denial.is_in_log().then_some(record.id.as_str()),
            ..self
        }
    }

    /// The JSON, for people too: one member a line.
    pub fn json(&self) -> Vec<u8> {
        let mut json = serde_json::to_vec_pretty(self).expect("it is made of plain values");
        json.push(b'\n');
        json
    }

    /// The members that not every problem has.
    pub fn members(&self) -> Map<String, Value> {
        let value = serde_json::to_value(self).expect("it is made of plain values");
        let Value::Object(all) = value else { unreachable!("a struct is an object") };
        all.into_iter().filter(|(name, _)| !COMMON.contains(&name.as_str())).collect()
    }
}

/// How an error is sent to the client of a request.
#[derive(Clone, Copy, Debug)]
pub struct ErrorFormat {
    pub format: Format,
    /// The request is a HEAD: no content is sent (RFC 9110 §9.3.2).
    pub is_head: bool,
}

impl ErrorFormat {
    /// The format for the request with this head.
    pub fn of(head: &request::Parts) -> Self {
        Self { format: preferred(&head.headers), is_head: head.method == Method::HEAD }
    }

    /// The format for a request that could not be read.
    pub const DEFAULT: Self = Self { format: Format::Json, is_head: false };
}

/// The formats that the proxy has for errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Json,
    Html,
    Text,
}

impl Format {
    /// The format of a media type, if there is one.
    fn of(media_type: &str) -> Option<Self> {
        let is = |name: &str| media_type.eq_ignore_ascii_case(name);
        if is("application/problem+json") || is("application/json") {
            Some(Self::Json)
        } else if is("text/html") || is("application/xhtml+xml") {
            Some(Self::Html)
        } else if is("text/plain") {
            Some(Self::Text)
        } else {
            None
        }
    }
}

/// The format that the client prefers (RFC 9110 §12.5.1). JSON if it names none of the three:
/// programs send `*/*`, browsers name HTML.
pub fn preferred(headers: &HeaderMap) -> Format {
    let mut best = (Format::Json, 0.0_f32);
    // The default of most programs: no preference.
    for value in headers.get_all(ACCEPT).iter().filter(|value| *value != "*/*") {
        for range in String::from_utf8_lossy(value.as_bytes()).split(',') {
            let mut parts = range.split(';').map(str::trim);
            let Some(format) = Format::of(parts.next().unwrap_or_default()) else { continue };
            let quality =
                parts.find_map(|part| part.strip_prefix("q=")).map_or(Ok(1.0), str::parse);
            if let Ok(quality) = quality
                && quality > best.1
            {
                best = (format, quality);
            }
        }
    }
    best.0
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use serde_json::json;

    use super::*;

    #[test]
    fn retry_after_is_rounded_up() {
        let mut response = Response::new(Body::empty());
        finish(&mut response, Some(Duration::from_millis(1001)));
        assert_eq!(response.headers()[RETRY_AFTER], "2");
    }

    #[test]
    fn a_problem_has_the_common_members_and_none_without_a_value() {
        let document =
            ProblemJson::of(Problem::Busy, StatusCode::SERVICE_UNAVAILABLE, "too \"many\"");
        let json: Map<String, Value> = serde_json::from_slice(&document.json()).unwrap();
        assert!(json.keys().eq(COMMON.iter()), "{json:?}");
        assert_eq!((&json["status"], &json["detail"]), (&json!(503), &json!("too \"many\"")));
        assert!(document.members().is_empty());
    }

    #[test]
    fn the_format_follows_accept() {
        for (accept, expected) in [
            ("", Format::Json),
            ("*/*", Format::Json),
            ("text/html,application/xhtml+xml,*/*;q=0.8", Format::Html),
            ("text/plain", Format::Text),
            ("text/html;q=0.5, application/json", Format::Json),
            ("text/html;q=0", Format::Json),
            ("text/html;q=x, text/plain;q=0.1", Format::Text),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(preferred(&headers), expected, "{accept}");
        }
    }
}
