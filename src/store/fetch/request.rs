//! The requests of a fetch, and what the response to a conditional one means.

use http::header::{
    ACCEPT, ACCEPT_ENCODING, ETAG, HOST, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED,
    USER_AGENT,
};
use http::{HeaderValue, Request, Response, StatusCode};

use super::fetch_request::{Config, FetchRequest, Validators};
use super::redirect::Hop;
use crate::egress::RequestBody;

/// What a response says of the condition of its request (RFC 9110 §13.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConditionResult {
    /// The stored copy still holds.
    NotModified,
    /// It is about the condition, and says nothing of the file.
    AskAgain,
    /// It is a response as to any request.
    Other,
}

impl Validators {
    /// What `response`, to a request with these validators, says of them. Servers and firewalls that
    /// do not know a condition, or not this one, refuse it with 412 or 400.
    pub(super) fn answered_by<B>(&self, response: &Response<B>) -> ConditionResult {
        match response.status() {
            StatusCode::NOT_MODIFIED if self.select(response) => ConditionResult::NotModified,
            StatusCode::NOT_MODIFIED
            | StatusCode::PRECONDITION_FAILED
            | StatusCode::BAD_REQUEST => ConditionResult::AskAgain,
            _ => ConditionResult::Other,
        }
    }

    /// Whether a 304 is about the stored copy (RFC 9111 §4.3.4): its validators, if it has any, are
    /// those of the copy. Tags are compared weakly, as the server does (RFC 9110 §13.1.2).
    fn select<B>(&self, response: &Response<B>) -> bool {
        let opaque = |tag: &HeaderValue| {
            let tag = tag.as_bytes();
            tag.strip_prefix(b"W/").unwrap_or(tag).to_owned()
        };
        let headers = response.headers();
        match (&self.etag, headers.get(ETAG)) {
            (Some(own), Some(tag)) => opaque(own) == opaque(tag),
            _ => match (&self.last_modified, headers.get(LAST_MODIFIED)) {
                (Some(own), Some(date)) => own == date,
                _ => true,
            },
        }
    }
}

/// The request of one hop, conditional with `validators`.
pub(super) fn request(
    hop: &Hop,
    validators: Option<&Validators>,
    ask: &FetchRequest,
    config: &Config,
) -> Request<RequestBody> {
    let mut request = Request::new(RequestBody::empty());
    *request.uri_mut() = hop.target.clone();
    let headers = request.headers_mut();
    headers.insert(HOST, hop.host.clone());
    headers.insert(ACCEPT, HeaderValue::from_static("text/plain, */*;q=0.1"));
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip, identity"));
    headers.insert(USER_AGENT, user_agent(ask, config));
    if let Some(validators) = validators {
        headers.extend(validators.etag.clone().map(|etag| (IF_NONE_MATCH, etag)));
        headers.extend(validators.last_modified.clone().map(|date| (IF_MODIFIED_SINCE, date)));
    }
    request
}

/// The User-Agent that the site is shown.
pub(super) fn user_agent(ask: &FetchRequest, config: &Config) -> HeaderValue {
    ask.identity.user_agent(config.fetch_as.as_ref(), config.contact.as_deref())
}
