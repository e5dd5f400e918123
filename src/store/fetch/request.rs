//! The requests of a fetch.

use http::header::{ACCEPT, ACCEPT_ENCODING, HOST, IF_MODIFIED_SINCE, IF_NONE_MATCH, USER_AGENT};
use http::{HeaderValue, Request};

use super::fetch_request::{Config, FetchRequest};
use super::redirect::Hop;
use crate::egress::RequestBody;

/// The request of one hop.
pub(super) fn request(hop: &Hop, ask: &FetchRequest, config: &Config) -> Request<RequestBody> {
    let mut request = Request::new(RequestBody::empty());
    *request.uri_mut() = hop.target.clone();
    let headers = request.headers_mut();
    headers.insert(HOST, hop.host.clone());
    headers.insert(ACCEPT, HeaderValue::from_static("text/plain, */*;q=0.1"));
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip, identity"));
    headers.insert(USER_AGENT, user_agent(ask, config));
    // Validators belong to one URL: elsewhere the same tag may name another file.
    if let Some(validators) = ask.validators.as_ref().filter(|validators| validators.url == hop.url)
    {
        headers.extend(validators.etag.clone().map(|etag| (IF_NONE_MATCH, etag)));
        headers.extend(validators.last_modified.clone().map(|date| (IF_MODIFIED_SINCE, date)));
    }
    request
}

/// The User-Agent that the site is shown.
pub(super) fn user_agent(ask: &FetchRequest, config: &Config) -> HeaderValue {
    ask.identity.user_agent(config.fetch_as.as_ref(), config.contact.as_deref())
}

/// Whether a 304 may answer it (RFC 9110 §13.1).
pub(super) fn is_conditional(request: &Request<RequestBody>) -> bool {
    [IF_NONE_MATCH, IF_MODIFIED_SINCE].iter().any(|field| request.headers().contains_key(field))
}
