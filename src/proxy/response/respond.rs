//! Every response that the proxy makes itself: denials, errors, the cached robots.txt, the proxy's
//! own pages. Each error is a problem (RFC 9457) with a `Proxy-Status` (RFC 9209), as JSON, HTML or
//! text by `Accept`.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    AGE, ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue,
    PROXY_AUTHENTICATE, RETRY_AFTER,
};
use http::{HeaderMap, Response, StatusCode, request};
use hyper::ext::ReasonPhrase;
use tracing::debug;

use super::page;
use super::problem_json::ProblemJson;
use crate::ca::Authority;
use crate::egress::ParentFailure;
use crate::pace::Waited;
use crate::policy::access::Snapshot;
use crate::proxy::connection::state::body::Body;
use crate::proxy::outcome::denial::Denial;
use crate::proxy::outcome::recorded::Recorded;
use crate::proxy::outcome::refusal::Refusal;
use crate::proxy::outcome::rejection::Rejection;
use crate::proxy::request::header_set::PROXY_STATUS;
use crate::proxy::request::negotiate::{ErrorFormat, Format};
use crate::types::problem::Problem;
use crate::types::problem::ProblemType;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_rounded_up() {
        let mut response = Response::new(Body::empty());
        finish(&mut response, Some(Duration::from_millis(1001)));
        assert_eq!(response.headers()[RETRY_AFTER], "2");
    }
}
