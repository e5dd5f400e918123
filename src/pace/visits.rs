//! Visits: a document that a browser asked for, and what it loads for that. Sites that ask for a
//! delay mean pages; without visits a page of many pictures would take minutes.

use std::collections::HashMap;

use http::header::{
    ACCEPT, HeaderMap, HeaderName, HeaderValue, REFERER, UPGRADE_INSECURE_REQUESTS,
};

use super::limits::{VISIT_LENGTH, VISIT_REQUESTS_MAX, VISITS_MAX};
use super::tick::Tick;
use crate::runtime::lock::Lock;
use crate::types::client_key::ClientKey;
use crate::types::origin::Scheme;

/// What a browser asks for (Fetch Metadata, §2.1).
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// The role of a request in a visit, by its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// A document that a browser shows: its start begins a visit.
    Document,
    /// What may be of a visit, if its client has one.
    Subresource,
    /// Any other request.
    None,
}

/// The visits of all clients.
#[derive(Debug, Default)]
pub(super) struct Visits(Lock<HashMap<ClientKey, State>>);

#[derive(Clone, Copy, Debug)]
struct State {
    until: Tick,
    left: u32,
}

impl Visit {
    /// By the header of a request to an origin of `scheme`. Browsers send no Fetch Metadata to an
    /// origin of plain http, but ask for a secure one.
    pub fn of(headers: &HeaderMap, scheme: Scheme) -> Self {
        if let Some(dest) = headers.get(&SEC_FETCH_DEST) {
            return match dest.as_bytes() {
                b"document" => Self::Document,
                _ => Self::Subresource,
            };
        }
        let asks_for_secure =
            headers.get(UPGRADE_INSECURE_REQUESTS).is_some_and(|value| value.as_bytes() == b"1");
        if asks_for_secure && scheme == Scheme::Http {
            return Self::Document;
        }
        let is_html = |value: &HeaderValue| {
            value.as_bytes().windows(9).any(|part| part.eq_ignore_ascii_case(b"text/html"))
        };
        let is_page = || headers.get_all(ACCEPT).iter().any(is_html);
        if headers.contains_key(REFERER) && !is_page() { Self::Subresource } else { Self::None }
    }
}

impl Visits {
    /// Begins a visit of `client`, in place of the one before.
    pub(super) fn begin(&self, client: &ClientKey, now: Tick) {
        let mut visits = self.0.lock();
        if visits.len() >= VISITS_MAX {
            visits.retain(|_, visit| now < visit.until);
        }
        if visits.len() < VISITS_MAX || visits.contains_key(client) {
            let state = State { until: now + VISIT_LENGTH, left: VISIT_REQUESTS_MAX };
            visits.insert(client.clone(), state);
        }
    }

    /// Counts one request of the visit of `client`; whether there is one, and it has room.
    pub(super) fn count(&self, client: &ClientKey, now: Tick) -> bool {
        let mut visits = self.0.lock();
        let Some(visit) = visits.get_mut(client).filter(|visit| now < visit.until) else {
            return false;
        };
        visit.left = visit.left.saturating_sub(1);
        let is_last = visit.left == 0;
        if is_last {
            visits.remove(client);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn of(fields: &[(&'static str, &'static str)], scheme: Scheme) -> Visit {
        let field = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        Visit::of(&fields.iter().map(field).collect(), scheme)
    }

    #[test]
    fn a_browser_shows_a_document_and_loads_the_rest_for_it() {
        let referer = ("referer", "http://a/");
        for (fields, scheme, expected) in [
            (&[("sec-fetch-dest", "document")][..], Scheme::Https, Visit::Document),
            (&[("sec-fetch-dest", "image")], Scheme::Https, Visit::Subresource),
            (&[("sec-fetch-dest", "iframe"), referer], Scheme::Https, Visit::Subresource),
            (&[("upgrade-insecure-requests", "1")], Scheme::Http, Visit::Document),
            (&[("upgrade-insecure-requests", "1")], Scheme::Https, Visit::None),
            (&[("upgrade-insecure-requests", "0")], Scheme::Http, Visit::None),
            (&[referer, ("accept", "image/*")], Scheme::Http, Visit::Subresource),
            (&[referer], Scheme::Http, Visit::Subresource),
            (&[referer, ("accept", "text/html,*/*")], Scheme::Http, Visit::None),
            (&[("accept", "*/*")], Scheme::Http, Visit::None),
        ] {
            assert_eq!(of(fields, scheme), expected, "{fields:?}");
        }
    }

    #[test]
    fn a_visit_has_an_end_and_a_number_of_requests() {
        let (visits, client) = (Visits::default(), ClientKey::User("a".into()));
        let at = |seconds: u64| Tick::from_micros(seconds * 1_000_000);
        assert!(!visits.count(&client, at(0)));
        visits.begin(&client, at(1));
        assert!(visits.count(&client, at(30)) && !visits.count(&client, at(31)));
        assert!(!visits.count(&ClientKey::Proxy, at(1)));
        visits.begin(&client, at(40));
        let counted = (0..1000).filter(|_| visits.count(&client, at(41))).count();
        assert_eq!(counted, VISIT_REQUESTS_MAX as usize);
        assert!(Duration::from_secs(30) == VISIT_LENGTH);
    }
}
