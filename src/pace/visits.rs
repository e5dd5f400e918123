//! Visits: a document that a browser asked for, and what it loads for that. Sites that ask for a
//! delay mean pages; without visits a page of many pictures would take minutes.
//!
//! What a client says of its requests is not believed alone, since a crawler can say it, too. A visit
//! begins with a document that took its turn, and that the origin answered as one. At each other
//! origin its first request takes a turn, for which the others wait. So each start at an origin
//! brings a bounded number of requests without a delay, in a bounded time.

use foldhash::HashMap;
use http::StatusCode;
use http::header::{
    ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, REFERER, UPGRADE_INSECURE_REQUESTS,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::config::{
    VISIT_LENGTH, VISIT_ORIGINS_MAX, VISIT_REQUESTS_MAX, VISITED_ORIGINS_MAX,
    VISITS_PER_CLIENT_MAX, fair_share,
};
use super::tick::Tick;
use crate::runtime::lock::Lock;
use crate::types::ClientKey;
use crate::types::origin::{Origin, Scheme, split_url};

/// What a browser asks for (Fetch Metadata, §2.1).
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// The role of a request in a visit, by its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit<'a> {
    /// A document that a browser shows: it may begin a visit.
    Document,
    /// What may be of a visit, if its client has one, with its `Referer`: that names the document,
    /// or what the document has loaded (Referrer Policy, §3).
    Subresource(Option<&'a HeaderValue>),
    /// Any other request.
    None,
}

/// The visits of all clients.
#[derive(Debug, Default)]
pub(super) struct Visits(Lock<Table>);

#[derive(Debug, Default)]
struct Table {
    /// Those of each client, the oldest first. No list is empty.
    clients: HashMap<ClientKey, Vec<ClientVisit>>,
    /// The origins of all visits.
    origins: usize,
    /// Visits so far: the number of the last.
    count: u64,
}

/// One visit of a client.
#[derive(Debug)]
struct ClientVisit {
    number: u64,
    /// The lanes at which it has taken a start, or is about to: that of the document first.
    origins: Vec<(Origin, Access)>,
}

/// What the requests of a visit may at an origin.
#[derive(Debug)]
enum Access {
    /// The first request waits for its start; the others wait for that, until this is dropped.
    Waits { started: CancellationToken, _end: DropGuard, followers: u32 },
    /// They start without a delay, until then, and no more than are left.
    Open { until: Tick, left: u32 },
}

/// The place of a request among those of its client's visits.
#[derive(Debug)]
pub(super) enum VisitPlace {
    /// Of none: it is a page.
    None,
    /// Without a delay.
    Open,
    /// The first of the visit of this number at its origin: it takes a start.
    First(u64),
    /// It waits for the first one.
    Follows(CancellationToken),
}

impl<'a> Visit<'a> {
    /// By the header of a request to an origin of `scheme`. Browsers send no Fetch Metadata to an
    /// origin of plain http, but ask for a secure one.
    pub fn of(headers: &'a HeaderMap, scheme: Scheme) -> Self {
        let subresource = || Self::Subresource(headers.get(REFERER));
        if let Some(dest) = headers.get(&SEC_FETCH_DEST) {
            return match dest.as_bytes() {
                b"document" => Self::Document,
                _ => subresource(),
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
        if headers.contains_key(REFERER) && !is_page() { subresource() } else { Self::None }
    }
}

/// Whether a response is a document that a browser shows: 2xx, and HTML by its Content-Type.
pub(super) fn is_document(status: StatusCode, headers: &HeaderMap) -> bool {
    let is_html = |value: &HeaderValue| {
        let media_type = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
        [&b"text/html"[..], b"application/xhtml+xml"]
            .iter()
            .any(|html| media_type.trim_ascii().eq_ignore_ascii_case(html))
    };
    status.is_success() && headers.get(CONTENT_TYPE).is_some_and(is_html)
}

impl Visits {
    /// Begins a visit of `client` with a document of `origin`, which has taken its start there.
    pub(super) fn begin(&self, client: &ClientKey, origin: &Origin, now: Tick) {
        let mut table = self.0.lock();
        if table.origins >= VISITED_ORIGINS_MAX {
            table.make_room(now);
        }
        table.count += 1;
        let number = table.count;
        let access = Access::Open { until: now + VISIT_LENGTH, left: VISIT_REQUESTS_MAX };
        let visits = table.clients.entry(client.clone()).or_default();
        let before = visits.iter().map(|visit| visit.origins.len()).sum::<usize>();
        visits.retain(|visit| !visit.is_over(now));
        if visits.len() >= VISITS_PER_CLIENT_MAX {
            visits.remove(0);
        }
        visits.push(ClientVisit { number, origins: vec![(origin.lane().into_owned(), access)] });
        let after = visits.iter().map(|visit| visit.origins.len()).sum::<usize>();
        table.origins = table.origins + after - before;
    }

    /// The place of a request of `client` to `origin`, which counts from now on.
    pub(super) fn join(
        &self,
        client: &ClientKey,
        referer: Option<&HeaderValue>,
        origin: &Origin,
        now: Tick,
    ) -> VisitPlace {
        let mut table = self.0.lock();
        let Table { clients, origins, .. } = &mut *table;
        let Some(visits) = clients.get_mut(client) else { return VisitPlace::None };
        let referer = referer.and_then(|it| split_url(it.as_bytes()).ok()).map(|(from, _)| from);
        let (origin, referer) = (origin.lane(), referer.as_ref().map(Origin::lane));
        let is_of = |visit: &ClientVisit| {
            !visit.is_over(now) && referer.as_ref().is_none_or(|from| visit.access(from).is_some())
        };
        let mut new = None;
        for (at, visit) in visits.iter_mut().enumerate().rev().filter(|(_, visit)| is_of(visit)) {
            let has_room = visit.origins.len() < VISIT_ORIGINS_MAX;
            match visit.access_mut(&origin) {
                Some(Access::Open { until, left }) if now < *until && *left > 0 => {
                    *left -= 1;
                    return VisitPlace::Open;
                }
                Some(Access::Waits { started, followers, .. })
                    if *followers < VISIT_REQUESTS_MAX =>
                {
                    *followers += 1;
                    return VisitPlace::Follows(started.clone());
                }
                None if has_room => new = new.or(Some(at)),
                _ => {}
            }
        }
        let Some(visit) = new.map(|at| &mut visits[at]) else { return VisitPlace::None };
        let started = CancellationToken::new();
        let end = started.clone().drop_guard();
        let access = Access::Waits { started, _end: end, followers: 0 };
        visit.origins.push((origin.into_owned(), access));
        *origins += 1;
        VisitPlace::First(visit.number)
    }

    /// The first request of that visit of `client` at `origin` has taken its start; without
    /// `now` it will take none, and another one is the first.
    pub(super) fn open(&self, client: &ClientKey, number: u64, origin: &Origin, now: Option<Tick>) {
        let mut table = self.0.lock();
        let Table { clients, origins, .. } = &mut *table;
        let mut visits = clients.get_mut(client).into_iter().flatten();
        let Some(visit) = visits.find(|visit| visit.number == number) else { return };
        let origin = origin.lane();
        let Some(at) = visit.origins.iter().position(|(lane, _)| *lane == *origin) else { return };
        match now {
            Some(now) => {
                let left = VISIT_REQUESTS_MAX - 1;
                visit.origins[at].1 = Access::Open { until: now + VISIT_LENGTH, left };
            }
            None => {
                visit.origins.swap_remove(at);
                *origins -= 1;
            }
        }
    }
}

impl ClientVisit {
    fn access(&self, lane: &Origin) -> Option<&Access> {
        self.origins.iter().find(|(origin, _)| origin == lane).map(|(_, access)| access)
    }

    fn access_mut(&mut self, lane: &Origin) -> Option<&mut Access> {
        self.origins.iter_mut().find(|(origin, _)| origin == lane).map(|(_, access)| access)
    }

    fn is_over(&self, now: Tick) -> bool {
        self.origins.iter().all(|(_, access)| match access {
            Access::Waits { .. } => false,
            Access::Open { until, .. } => *until <= now,
        })
    }
}

impl Table {
    /// Forgets the visits that are over; then, of the clients with most origins in theirs, the
    /// oldest.
    fn make_room(&mut self, now: Tick) {
        self.clients.values_mut().for_each(|visits| visits.retain(|visit| !visit.is_over(now)));
        let size = |visits: &[ClientVisit]| visits.iter().map(|visit| visit.origins.len()).sum();
        let sizes: Vec<usize> = self.clients.values().map(|visits| size(visits)).collect();
        let share = fair_share(sizes, VISITED_ORIGINS_MAX - VISITED_ORIGINS_MAX / 8);
        for visits in self.clients.values_mut() {
            let mut left: usize = size(visits);
            visits.retain(|visit| {
                let is_kept = left <= share;
                left -= if is_kept { 0 } else { visit.origins.len() };
                is_kept
            });
        }
        self.clients.retain(|_, visits| !visits.is_empty());
        self.origins = self.clients.values().map(|visits| size(visits)).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let field = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        fields.iter().map(field).collect()
    }

    #[test]
    fn a_browser_shows_a_document_and_loads_the_rest_for_it() {
        const ANY: Visit<'_> = Visit::Subresource(None);
        let value = HeaderValue::from_static("http://a/");
        let referred = Visit::Subresource(Some(&value));
        let referer = ("referer", "http://a/");
        for (fields, scheme, expected) in [
            (&[("sec-fetch-dest", "document")][..], Scheme::Https, Visit::Document),
            (&[("sec-fetch-dest", "image")], Scheme::Https, ANY),
            (&[("sec-fetch-dest", "iframe"), referer], Scheme::Https, referred),
            (&[("upgrade-insecure-requests", "1")], Scheme::Http, Visit::Document),
            (&[("upgrade-insecure-requests", "1")], Scheme::Https, Visit::None),
            (&[("upgrade-insecure-requests", "0")], Scheme::Http, Visit::None),
            (&[referer, ("accept", "image/*")], Scheme::Http, referred),
            (&[referer], Scheme::Http, referred),
            (&[referer, ("accept", "text/html,*/*")], Scheme::Http, Visit::None),
            (&[("accept", "*/*")], Scheme::Http, Visit::None),
        ] {
            assert_eq!(Visit::of(&headers(fields), scheme), expected, "{fields:?}");
        }
    }

    #[test]
    fn a_document_is_html_that_is_there() {
        for (status, content_type, expected) in [
            (200, Some("text/html"), true),
            (200, Some("Text/HTML; charset=utf-8"), true),
            (203, Some("application/xhtml+xml"), true),
            (404, Some("text/html"), false),
            (302, Some("text/html"), false),
            (304, None, false),
            (200, Some("text/plain; a=text/html"), false),
            (200, Some("image/png"), false),
            (200, None, false),
        ] {
            let fields: Vec<_> = content_type.map(|it| ("content-type", it)).into_iter().collect();
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(is_document(status, &headers(&fields)), expected, "{content_type:?}");
        }
    }

    fn origin(name: &str) -> Origin {
        Origin::from_authority(Scheme::Https, name).unwrap()
    }

    fn client(name: &str) -> ClientKey {
        ClientKey::User(name.into())
    }

    fn at(seconds: u64) -> Tick {
        Tick::from_micros(seconds * 1_000_000)
    }

    impl Visits {
        /// The place of a request of the client `a`, in a word.
        fn place(&self, referer: &'static str, to: &str, now: u64) -> &'static str {
            let referer = (!referer.is_empty()).then(|| HeaderValue::from_static(referer));
            match self.join(&client("a"), referer.as_ref(), &origin(to), at(now)) {
                VisitPlace::None => "page",
                VisitPlace::Open => "open",
                VisitPlace::First(_) => "first",
                VisitPlace::Follows(_) => "follows",
            }
        }

        fn open_last(&self, to: &str, now: u64) {
            let number = self.0.lock().count;
            self.open(&client("a"), number, &origin(to), Some(at(now)));
        }
    }

    /// (what happens, the place of the request then)
    #[test]
    fn p7_at_each_origin_of_a_visit_one_request_takes_a_start() {
        let visits = Visits::default();
        assert_eq!(visits.place("", "site.example", 1), "page", "there is no visit");
        visits.begin(&client("a"), &origin("site.example"), at(1));
        visits.begin(&client("b"), &origin("b.example"), at(1));
        for (name, referer, to, now, expected) in [
            ("at its origin", "https://site.example/page", "site.example", 2, "open"),
            ("without a Referer", "", "site.example", 2, "open"),
            ("by plain http", "http://site.example/", "site.example", 2, "open"),
            ("of no document", "https://made.up/", "site.example", 2, "page"),
            ("of another client's", "https://b.example/", "site.example", 2, "page"),
            ("of no URL", "about:client", "site.example", 2, "open"),
            ("of another origin", "https://site.example/", "cdn.example", 3, "first"),
            ("while that waits", "https://site.example/", "cdn.example", 3, "follows"),
            ("for long", "https://site.example/", "cdn.example", 90, "follows"),
        ] {
            assert_eq!(visits.place(referer, to, now), expected, "{name}");
        }
        visits.0.lock().count = 1;
        visits.open_last("cdn.example", 90);
        for (name, referer, to, now, expected) in [
            ("what follows", "https://site.example/", "cdn.example", 90, "open"),
            ("of a style sheet", "https://cdn.example/a.css", "cdn.example", 119, "open"),
            ("of its font", "https://cdn.example/a.css", "font.example", 119, "first"),
            ("its own time is over", "", "site.example", 90, "page"),
            ("the time there is over", "", "cdn.example", 120, "page"),
        ] {
            assert_eq!(visits.place(referer, to, now), expected, "{name}");
        }
    }

    #[test]
    fn p7_a_visit_has_a_number_of_requests_at_each_origin() {
        let visits = Visits::default();
        visits.begin(&client("a"), &origin("site.example"), at(1));
        let open = |to: &str| (0..1000).filter(|_| visits.place("", to, 2) == "open").count();
        assert_eq!(open("site.example"), VISIT_REQUESTS_MAX as usize);
        assert_eq!(visits.place("", "cdn.example", 2), "first");
        let follow = (0..1000).filter(|_| visits.place("", "cdn.example", 2) == "follows").count();
        assert_eq!(follow, VISIT_REQUESTS_MAX as usize);
        visits.open_last("cdn.example", 2);
        assert_eq!(open("cdn.example"), VISIT_REQUESTS_MAX as usize - 1, "and the first");
        let firsts = (0..1000).filter(|n| visits.place("", &format!("{n}.example"), 2) == "first");
        assert_eq!(firsts.count(), VISIT_ORIGINS_MAX - 2);
    }

    #[test]
    fn p7_if_the_first_takes_no_start_another_is_the_first() {
        let visits = Visits::default();
        visits.begin(&client("a"), &origin("site.example"), at(1));
        assert_eq!(visits.place("", "cdn.example", 2), "first");
        let place = visits.join(&client("a"), None, &origin("cdn.example"), at(2));
        let VisitPlace::Follows(started) = place else { panic!("{place:?}") };
        assert!(!started.is_cancelled());
        visits.open(&client("a"), 1, &origin("cdn.example"), None);
        assert!(started.is_cancelled(), "it looks again");
        assert_eq!(visits.place("", "cdn.example", 2), "first");
    }

    #[test]
    fn p7_visits_of_one_client_push_out_none_of_another() {
        let visits = Visits::default();
        visits.begin(&client("a"), &origin("site.example"), at(1));
        for number in 0..VISITED_ORIGINS_MAX + 4096 {
            let client = client(&(number % 300).to_string());
            visits.begin(&client, &origin("evil.example"), at(1));
        }
        let table = visits.0.lock();
        let origins = table.clients.values().flatten().map(|visit| visit.origins.len());
        assert_eq!(origins.sum::<usize>(), table.origins);
        assert!(table.origins <= VISITED_ORIGINS_MAX);
        drop(table);
        assert_eq!(visits.place("", "site.example", 2), "open");
    }
}
