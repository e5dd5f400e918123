//! The requests and responses of the admin listener, as its pages see them.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http::{Response, StatusCode, Uri};
use http_body_util::Full;

pub(super) type AdminResponse = Response<Full<Bytes>>;

/// A request to the admin listener.
pub(super) struct AdminRequest<'a> {
    pub uri: &'a Uri,
    pub headers: &'a HeaderMap,
    /// The request has the token, or none is required.
    pub is_authorized: bool,
}

/// Makes every response of the admin listener. None may be cached.
pub(super) fn respond(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> AdminResponse {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
