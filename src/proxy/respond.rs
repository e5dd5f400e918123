//! Every response that the proxy makes itself, and nothing else: denials, errors, the cached
//! robots.txt, the proxy's own pages. Each error is a problem (RFC 9457) with a `Proxy-Status`
//! (RFC 9209), as JSON, HTML or text by `Accept`.

use std::time::Duration;

use bytes::Bytes;
use http::header::{
    AGE, ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue,
    PROXY_AUTHENTICATE, RETRY_AFTER,
};
use http::{Response, StatusCode};
use hyper::ext::ReasonPhrase;

use super::body::Body;
use super::document::Document;
use super::form::{Asked, Form};
use super::gate::Denial;
use super::names::PROXY_STATUS;
use super::page;
use super::problem::Problem;
use super::refusal::Refusal;
use crate::ca::Authority;
use crate::policy::access::Snapshot;
use crate::policy::reason::ProblemType;

/// How a client is to say who it is (RFC 7617 §2, §2.1; RFC 9110 §15.5.8).
const CHALLENGE: &str = "Basic realm=\"courtesy\", charset=\"UTF-8\"";

const RECORD: HeaderName = HeaderName::from_static("courtesy-record");

/// The answer to a refused request.
pub fn refused(refusal: &Refusal, asked: &Asked) -> Response<Body> {
    let proxy_status = format!("courtesy; error={}", refusal.proxy_error);
    let document = Document::of(refusal.problem, refusal.status, &refusal.detail);
    let mut response =
        problem(refusal.problem, refusal.status, &refusal.detail, &document, None, asked);
    insert(&mut response, PROXY_STATUS, &proxy_status);
    finish(&mut response, refusal.retry_after);
    if refusal.closes() {
        insert(&mut response, CONNECTION, "close");
    }
    if refusal.challenges() {
        insert(&mut response, PROXY_AUTHENTICATE, CHALLENGE);
    }
    response
}

/// The answer to bytes that are no request, as it goes on the wire: nobody else can write it.
pub fn raw_refusal(refusal: &Refusal) -> Vec<u8> {
    let response = refused(refusal, &Asked::UNREADABLE);
    let status = response.status();
    let title = refusal.problem.row().title;
    let mut bytes = format!("HTTP/1.1 {} {title}\r\n", status.as_u16()).into_bytes();
    for (name, value) in response.headers() {
        bytes.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    bytes.extend(b"\r\n");
    bytes.extend(response.into_body().into_own());
    bytes
}

/// The 403: why, from which line of which version of the file, and what to do (RFC 9209 §2.3.3,
/// `http_request_denied`).
pub fn denied(denial: &Denial, asked: &Asked) -> Response<Body> {
    let (record, mut sentence) = (&denial.record, denial.sentence());
    if !denial.is_recorded {
        sentence.push_str(" The record of this denial could not be written.");
    }
    let document = Document::of(denial.problem, denial.status, &sentence).denied(denial);
    let mut response =
        problem(denial.problem, denial.status, &sentence, &document, Some(denial), asked);
    insert(&mut response, PROXY_STATUS, &denial.proxy_status());
    if denial.is_recorded {
        insert(&mut response, RECORD, &record.id);
    }
    finish(&mut response, denial.retry_after);
    response
}

/// The robots.txt from the very snapshot that decides, as the origin sent it.
pub fn robots_txt(snapshot: &Snapshot, age: Duration) -> Response<Body> {
    let mut response = Response::new(Body::own(snapshot.body.clone()));
    let fields = response.headers_mut();
    if let Some(content_type) = &snapshot.content_type {
        fields.insert(CONTENT_TYPE, content_type.clone());
    }
    fields.insert(AGE, HeaderValue::from(age.as_secs()));
    fields.insert(CONTENT_LENGTH, HeaderValue::from(snapshot.body.len()));
    insert(
        &mut response,
        PROXY_STATUS,
        "courtesy; details=\"robots.txt from the copy that decides\"",
    );
    response
}

/// The connection is made (RFC 9110 §9.3.6): no content, and no fields about any.
pub fn connected() -> Response<Body> {
    Response::new(Body::empty())
}

/// What this proxy can do, for `OPTIONS *` and an exhausted `Max-Forwards` (RFC 9110 §9.3.7).
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
    document: &Document<'_>,
    denial: Option<&Denial>,
    asked: &Asked,
) -> Response<Body> {
    let ProblemType { title, remedy, .. } = problem.row();
    let (content_type, content) = match asked.form {
        Form::Json => ("application/problem+json", document.json()),
        Form::Html => {
            let html = page::problem(problem, detail, &document.members(), denial);
            ("text/html; charset=utf-8", html.into_bytes())
        }
        Form::Text => {
            let text = format!("{title}\n\n{detail}\n\n{}\n", remedy);
            ("text/plain; charset=utf-8", text.into_bytes())
        }
    };
    let length = content.len();
    // RFC 9110 §9.3.2: the fields of a response to HEAD are those of a GET; its content is not sent.
    let content = if asked.only_head { Bytes::new() } else { Bytes::from(content) };
    let mut response = Response::new(Body::own(content));
    *response.status_mut() = status;
    // Most clients print nothing else of an error. HTTP/2 has none (RFC 9113 §8.3.2).
    response.extensions_mut().insert(ReasonPhrase::from_static(title.as_bytes()));
    insert(&mut response, CONTENT_TYPE, content_type);
    response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
    response
}

fn finish(response: &mut Response<Body>, retry_after: Option<Duration>) {
    insert(response, CACHE_CONTROL, "no-store");
    if let Some(wait) = retry_after {
        // Rounded up: a client that comes back exactly then is not too early.
        let seconds = wait.as_millis().div_ceil(1000).max(1);
        insert(response, RETRY_AFTER, &seconds.to_string());
    }
}

fn insert(response: &mut Response<Body>, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retry_is_never_asked_for_too_early() {
        let mut response = Response::new(Body::empty());
        finish(&mut response, Some(Duration::from_millis(1001)));
        assert_eq!(response.headers()[RETRY_AFTER], "2");
    }
}
