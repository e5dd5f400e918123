//! Where a redirect leads (RFC 9309 §2.3.1.2, RFC 9110 §15.4). Pure.
//!
//! Followed across authorities and between http and https, a bounded number of times, never in a
//! circle, and never to a host that two parsers could read differently.

use http::header::LOCATION;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, StatusCode, Uri};

use crate::origin::{Origin, Scheme, UrlError, split_url};
use crate::policy::access::{Cause, NetworkFailure};

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

/// The way from the origin's own robots.txt to the current hop.
#[derive(Debug)]
pub(super) struct Chain {
    hops: Vec<Hop>,
    limit: u8,
}

pub(super) fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

impl Chain {
    pub(super) fn new(origin: &Origin, limit: u8) -> Self {
        Self { hops: vec![Hop::new(origin.clone(), PathAndQuery::from_static("/robots.txt"))], limit }
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

    /// Goes where `headers` say, or says why not.
    pub(super) fn follow(&mut self, status: StatusCode, headers: &HeaderMap) -> Result<(), Cause> {
        let Some(location) = headers.get(LOCATION).filter(|location| !location.is_empty()) else {
            return Err(Cause::RedirectWithoutLocation { code: status.as_u16() });
        };
        let hop = self.here().resolve(location.as_bytes()).map_err(|error| Cause::Failed {
            failure: NetworkFailure::RedirectRefused,
            detail: error.to_string().into(),
        })?;
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
        let host =
            HeaderValue::try_from(origin.authority()).expect("a normalised authority is a field value");
        Self { origin, target: Uri::from(target), host, url }
    }

    /// RFC 3986 §5: a reference as seen from here. The URL parser normalises the path, but the
    /// origin is read by our own: the parser would make an address of `0x7f.1`.
    fn resolve(&self, location: &[u8]) -> Result<Self, UrlError> {
        let location = String::from_utf8_lossy(location);
        let origin = if has_scheme(&location) {
            served(split_url(location.as_bytes())?.0)?
        } else if location.starts_with("//") {
            split_url(format!("{}:{location}", self.origin.scheme().as_str()).as_bytes())?.0
        } else {
            self.origin.clone()
        };
        let malformed = || UrlError::HostName(location.chars().take(120).collect());
        let joined =
            url::Url::parse(&self.url).and_then(|base| base.join(&location)).map_err(|_| malformed())?;
        // A backslash, for one, is a slash to the URL parser: then the two do not agree.
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
