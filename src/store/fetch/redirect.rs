//! Resolves redirects (RFC 9309 §2.3.1.2, RFC 9110 §15.4). Pure.
//!
//! Follows them across authorities and between http and https, a bounded number of times, never in
//! a loop, and never to a host that parsers could read differently.

#[cfg(test)]
mod tests;

use http::header::LOCATION;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Response, StatusCode, Uri};
use percent_encoding::{AsciiSet, percent_encode};

use super::head::{self, Source};
use crate::audit::evidence::{Answer, Body, CaptureRecord, Failure};
use crate::egress::{self, ParentFailure};
use crate::policy::access::{AccessResult, Capture, Cause, NetworkFailure};
use crate::types::origin::{Origin, Scheme, UrlError, split_url};
use crate::types::sanitize;
use crate::types::timestamp::Timestamp;

/// One request of the chain.
#[derive(Clone, Debug)]
pub(super) struct Hop {
    pub origin: Origin,
    /// Path and query, in origin-form.
    pub target: Uri,
    /// The value of `Host`.
    pub host: HeaderValue,
    pub url: String,
}

/// The hops from the origin's own robots.txt to the current one.
#[derive(Debug)]
pub(super) struct Chain {
    hops: Vec<Hop>,
    /// One per hop with a response: all, or all but the last.
    answers: Vec<Answer>,
    limit: u8,
    /// What a parent proxy did in place of the last connection.
    parent: Option<Box<ParentFailure>>,
}

pub(super) fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

impl Chain {
    pub(super) fn new(origin: &Origin, limit: u8) -> Self {
        let first = Hop::new(origin.clone(), PathAndQuery::from_static("/robots.txt"));
        Self { hops: vec![first], answers: Vec::new(), limit, parent: None }
    }

    pub(super) fn here(&self) -> &Hop {
        &self.hops[self.hops.len() - 1]
    }

    /// How many redirects were followed.
    pub(super) fn hops(&self) -> u8 {
        u8::try_from(self.hops.len() - 1).unwrap_or(u8::MAX)
    }

    pub(super) fn url(&self) -> String {
        self.here().url.clone()
    }

    /// Records the response of the current hop, and its request.
    pub(super) fn answered<B>(
        &mut self,
        response: &Response<B>,
        source: &Source,
        request: Option<String>,
    ) {
        self.answers.push(head::answer(response, &self.here().url, source, request));
    }

    /// Records what a parent proxy did in place of a connection, if that is `error`.
    pub(super) fn parent_failed(&mut self, error: &egress::Error) {
        self.parent.clone_from(&error.parent);
    }

    /// The capture of the fetch.
    pub(super) fn capture(
        &self,
        at: Timestamp,
        result: &AccessResult,
        user_agent: &HeaderValue,
    ) -> Capture {
        let (body, failure) = match result {
            AccessResult::Successful { snapshot, .. } => {
                let bytes = snapshot.body.len() as u64;
                (
                    Some(Body {
                        cut: snapshot.cut,
                        bytes,
                        sha256: sanitize::hex(&snapshot.sha256),
                    }),
                    None,
                )
            }
            AccessResult::NotModified { .. } => (None, None),
            AccessResult::Without(cause) => (None, Some(self.failure(cause))),
        };
        let asked = self.hops[0].url.clone();
        let user_agent = user_agent.to_str().ok().map(str::to_owned);
        let answers = self.answers.clone();
        CaptureRecord { answers, asked, body, failure, fetched_at: at.millis(), user_agent }.seal()
    }

    fn failure(&self, cause: &Cause) -> Failure {
        let parent = self.parent.as_deref();
        Failure {
            parent_status: parent.and_then(|parent| parent.status),
            text: cause.to_string(),
            via: parent.map(|parent| parent.parent.clone()),
            word: cause.word().to_owned(),
        }
    }

    /// Follows the redirect in `headers`, or returns why it is refused.
    pub(super) fn follow(&mut self, status: StatusCode, headers: &HeaderMap) -> Result<(), Cause> {
        let Some(location) = headers.get(LOCATION).filter(|location| !location.is_empty()) else {
            return Err(Cause::RedirectWithoutLocation { code: status.as_u16() });
        };
        let hop = self
            .here()
            .resolve(location.as_bytes())
            .map_err(|error| Cause::failed(NetworkFailure::RedirectRefused, error.to_string()))?;
        if self.hops.iter().any(|seen| seen.url == hop.url) {
            return Err(Cause::RedirectLoop);
        }
        if self.hops() >= self.limit {
            return Err(Cause::TooManyRedirects { limit: self.limit });
        }
        self.hops.push(hop);
        Ok(())
    }
}

impl Hop {
    fn new(origin: Origin, target: PathAndQuery) -> Self {
        let url = format!("{origin}{target}");
        let host = HeaderValue::try_from(origin.authority())
            .expect("a normalised authority is a field value");
        Self { origin, target: Uri::from(target), host, url }
    }

    /// RFC 3986 §5: resolves a reference relative to this hop. The URL parser normalises the path,
    /// but the origin is parsed by our own parser: the other one would read `0x7f.1` as an address.
    fn resolve(&self, location: &[u8]) -> Result<Self, UrlError> {
        let location = ascii_behind_authority(location);
        let origin = if has_scheme(&location) {
            served(split_url(location.as_bytes())?.0)?
        } else if location.starts_with("//") {
            split_url(format!("{}:{location}", self.origin.scheme().as_str()).as_bytes())?.0
        } else {
            self.origin.clone()
        };
        let malformed = || UrlError::HostName(location.chars().take(120).collect());
        let joined = url::Url::parse(&self.url)
            .and_then(|base| base.join(&location))
            .map_err(|_| malformed())?;
        // The URL parser reads, for instance, a backslash as a slash: then the two parsers
        // disagree.
        if split_url(joined.as_str().as_bytes())?.0 != origin {
            return Err(malformed());
        }
        let target = match joined.query() {
            Some(query) => format!("{}?{query}", joined.path()),
            None => joined.path().to_owned(),
        };
        let target = PathAndQuery::try_from(target).map_err(|_| malformed())?;
        Ok(Self::new(origin, target))
    }
}

/// `location` with each byte of its path and query that is not ASCII percent-encoded (RFC 3986
/// §2.1): the site chose the bytes, in whatever character encoding. A host name is text, and stays
/// as it is.
fn ascii_behind_authority(location: &[u8]) -> String {
    let has_authority = |before: &[u8]| {
        before.is_empty() || before.ends_with(b":") && !before.iter().any(|it| b"/?#".contains(it))
    };
    let slashes = memchr::memmem::find(location, b"//");
    let authority = slashes.filter(|at| has_authority(&location[..*at])).map(|at| at + 2);
    let path = authority.map_or(0, |at| {
        let length = location[at..].iter().position(|byte| b"/?#\\".contains(byte));
        length.map_or(location.len(), |length| at + length)
    });
    let (before, behind) = location.split_at(path);
    let behind = percent_encode(behind, &AsciiSet::EMPTY);
    format!("{}{behind}", String::from_utf8_lossy(before))
}

/// RFC 3986 §3.1 and §4.2: a colon before the first slash ends a scheme.
fn has_scheme(reference: &str) -> bool {
    let end = reference.find(['/', '?', '#']).unwrap_or(reference.len());
    reference[..end].contains(':')
}

fn served(origin: Origin) -> Result<Origin, UrlError> {
    match origin.scheme() {
        Scheme::Http | Scheme::Https => Ok(origin),
        Scheme::Ftp => Err(UrlError::Scheme(Scheme::Ftp.as_str().into())),
    }
}
