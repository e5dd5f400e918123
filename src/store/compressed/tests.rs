//! What is compressed comes back as it was, whatever it is; and it is small.

use std::sync::LazyLock;

use http::HeaderValue;
use proptest::prelude::*;
use sha2::{Digest as _, Sha256};

use super::*;
use crate::audit::evidence::{Answer, Body, CaptureRecord};
use crate::policy::access::{
    AccessResult, Capture, Cause, Fetched, Freshness, NetworkFailure, Snapshot,
};
use crate::policy::profile::Profile;
use crate::robots::{Dialect, RobotsTxt};
use crate::store::fetch::FetchIdentity;
use crate::types::origin::split_url;
use crate::types::timestamp::Timestamp;

const URL: &str = "https://www.example.com/robots.txt";
const AT: Timestamp = Timestamp::from_millis(1_790_000_000_000);

const FILES: [&str; 4] = [
    "",
    "User-agent: *\nDisallow: /wp-admin/\nAllow: /wp-admin/admin-ajax.php\n\n\
     Sitemap: https://www.example.com/wp-sitemap.xml\n",
    "User-agent: *\r\nCrawl-delay: 20\r\nDisallow: /cgi-bin/\r\nDisallow: /search\r\nDisallow: /*?sort=\r\n",
    "# Of our own making: \u{fc}\nUser-agent: GPTBot\nDisallow: /\n\nUser-agent: *\nDisallow: /warehouse/17/\n",
];

static PROFILES: LazyLock<Vec<Arc<Profile>>> = LazyLock::new(|| {
    let names = ["rfc9309", "google", "conservative", "archival"];
    names.iter().map(|name| Arc::new(Profile::named(name).expect("the profile exists"))).collect()
});

impl Compressed {
    /// With half of its facts, as it can never be.
    pub(in crate::store) fn broken(&self) -> Self {
        Self { facts: self.facts[..self.facts.len() / 2].into(), ..self.clone() }
    }
}

fn origin() -> Origin {
    split_url(URL.as_bytes()).expect("a URL").0
}

fn read(snapshot: &Snapshot, dialect: &Dialect) -> Arc<RobotsTxt> {
    Arc::new(RobotsTxt::parse(&snapshot.body, dialect))
}

fn good(body: &[u8], head: &str) -> Fetched {
    let sha256: [u8; 32] = Sha256::digest(body).into();
    let capture = capture(head, &hex(&sha256), body.len());
    let snapshot = Snapshot {
        body: Bytes::copy_from_slice(body),
        sha256,
        cut: body.len() % 2 == 1,
        status: 200,
        url: URL.into(),
        hops: 3,
        fetched_at: AT,
        content_type: Some(HeaderValue::from_bytes(b"text/plain; \xe9").expect("a value")),
        etag: (!head.is_empty()).then_some(HeaderValue::from_static("W/\"5f2a1c\"")),
        last_modified: None,
        capture: capture.clone(),
    };
    let result =
        AccessResult::Successful { snapshot: Arc::new(snapshot), freshness: Freshness::default() };
    fetched(0, result, capture)
}

fn fetched(hours: u64, result: AccessResult, capture: Capture) -> Fetched {
    let at = Timestamp::from_millis(AT.millis() + hours * 3_600_000);
    Fetched { at, url: URL.into(), hops: 1, result, capture }
}

fn without(hours: u64, cause: Cause) -> Fetched {
    let capture =
        if hours.is_multiple_of(2) { Capture::none() } else { capture(&cause.to_string(), "", 0) };
    fetched(hours, AccessResult::Without(cause), capture)
}

fn capture(head: &str, sha256: &str, bytes: usize) -> Capture {
    let answer = Answer {
        head: format!("HTTP/1.1 200 OK\r\nDate: Mon, 12 Oct 2026 11:09:08 GMT\r\n{head}\r\n"),
        head_cut: false,
        peer: "2001:db8::7".parse().ok(),
        request: Some(
            "GET /robots.txt HTTP/1.1\r\nhost: example.com\r\nuser-agent: courtesy/1\r\n".into(),
        ),
        status: 200,
        url: URL.into(),
    };
    let body = Body { cut: false, bytes: bytes as u64, sha256: sha256.into() };
    let asked = "http://example.com/robots.txt".into();
    let at = AT.millis();
    CaptureRecord {
        answers: vec![answer],
        asked,
        body: Some(body),
        failure: None,
        fetched_at: at,
        user_agent: None,
    }
    .seal()
}

/// What one attempt after the other makes of an origin that all profiles ask about.
fn entry(attempts: Vec<Fetched>) -> Entry {
    let learn = |known: Option<Entry>, fetched| {
        let asked = PROFILES.iter().fold(known, |known, profile| {
            known.map(|entry| entry.with_profile(profile, 0.5, &read))
        });
        Some(Entry::after(
            asked.as_ref(),
            &PROFILES[0],
            &FetchIdentity::of_agent(None),
            fetched,
            0.5,
            &read,
        ))
    };
    attempts.into_iter().fold(None, learn).expect("there was an attempt")
}

/// Packs and unpacks; gives how many bytes the compressed is.
#[track_caller]
fn comes_back(entry: &Entry) -> usize {
    let mut packer = Compressor::default();
    let (origin, kept) = (origin(), entry.persist());
    for entry in [entry, &entry.with_site(!entry.site_up).expect("it is news")] {
        let kept = entry.persist();
        let compressed = packer.compress(&origin, entry, None).expect("it is compressed");
        assert_eq!(compressed.open(&origin, |_| None).as_ref(), Some(&kept));
        let again =
            packer.compress(&origin, entry, compressed.file.clone()).expect("it is compressed");
        assert_eq!(again.facts, compressed.facts);
        let (persisted, blobs) = again.open(&origin, |_| None).expect("it is unpacked");
        let restored =
            Entry::restore(persisted, &blobs, &PROFILES, 0.5, &read).expect("it is restored");
        assert_eq!(restored.persist(), kept);
        assert!(compressed.broken().open(&origin, |_| None).is_none());
    }
    let compressed = packer.compress(&origin, entry, None).expect("it is compressed");
    assert!(compressed.bytes() > kept.1.values().map(Bytes::len).sum());
    compressed.compressed_bytes() + compressed.file.map_or(0, |file| file.compressed_bytes())
}

fn causes() -> Vec<Cause> {
    let failed =
        NetworkFailure::ALL.map(|failure| Cause::Failed { failure, detail: "the \u{2713}".into() });
    let retry_after = Some(std::time::Duration::from_millis(1500));
    let status = [401, 404, 429, 503].map(|code| Cause::Status { code, retry_after });
    let redirects = [Cause::TooManyRedirects { limit: 5 }, Cause::RedirectLoop];
    let redirects = redirects.into_iter().chain([Cause::RedirectWithoutLocation { code: 301 }]);
    failed.into_iter().chain(status).chain(redirects).collect()
}

#[test]
fn files_come_back_confirmed_or_not() {
    for file in FILES {
        let good = || good(file.as_bytes(), "Server: nginx\r\n");
        comes_back(&entry(vec![good()]));
        let confirmed = AccessResult::NotModified {
            freshness: Freshness {
                max_age: Some(std::time::Duration::from_secs(9)),
                ..Freshness::default()
            },
        };
        comes_back(&entry(vec![good(), fetched(1, confirmed, capture("Age: 1\r\n", "", 0))]));
    }
}

#[test]
fn outages_and_absences_come_back_with_a_copy_or_without() {
    for cause in causes() {
        for hours in [1, 2, 800] {
            comes_back(&entry(vec![without(hours, cause.clone())]));
            let again = [hours, hours + 3].map(|hours| without(hours, cause.clone()));
            comes_back(&entry(
                [good(b"user-agent: *\ndisallow: /\n", "")].into_iter().chain(again).collect(),
            ));
        }
    }
}

proptest! {
    #[test]
    fn bytes_of_all_kinds_come_back(
        body in prop::collection::vec(any::<u8>(), 0..3000),
        head in "\\PC{0,300}",
        times in 0..5_usize,
    ) {
        let body = body.repeat(times);
        comes_back(&entry(vec![good(&body, &head), without(1, Cause::RedirectLoop)]));
    }
}

#[test]
fn what_is_ordinary_takes_a_quarter_or_less() {
    let head = "Server: nginx\r\nContent-Type: text/plain\r\nConnection: keep-alive\r\n\
                Last-Modified: Wed, 21 Oct 2026 07:28:00 GMT\r\nCache-Control: max-age=86400\r\n";
    for file in FILES {
        let entry = entry(vec![good(file.as_bytes(), head)]);
        let (persisted, blobs) = entry.persist();
        let plain = facts::write(persisted, &blobs).expect("it is written").len() + file.len();
        let compressed = comes_back(&entry);
        assert!(compressed * 4 < plain, "{compressed} of {plain}");
    }
}

/// Beside the same without the dictionaries.
#[test]
fn the_dictionaries_help() {
    let mut deflater = Deflater::default();
    let mut lengths = |text: &[u8], dictionary: &[u8]| {
        [b"", dictionary]
            .map(|dictionary| deflater.deflate(text, dictionary).expect("it is deflated").len())
    };
    for file in &FILES[1..] {
        let [without, with] = lengths(file.as_bytes(), file::DICTIONARY);
        assert!(with * 4 < without * 3, "{file}: {with} instead of {without}");
    }
    for cause in causes() {
        let (persisted, blobs) = entry(vec![without(1, cause)]).persist();
        let text = facts::write(persisted, &blobs).expect("it is written");
        let [without, with] = lengths(&text, &dictionary(&origin(), None));
        assert!(with * 2 < without, "{with} instead of {without}");
    }
}

/// A member that is renamed has to be renamed there, too.
#[test]
fn the_dictionary_knows_the_words_of_what_is_packed() {
    let known = String::from_utf8_lossy(DICTIONARY);
    let failure = Cause::Failed { failure: NetworkFailure::Dns, detail: "".into() };
    let absence = Cause::Status { code: 404, retry_after: None };
    for attempts in [vec![good(b"", "")], vec![without(1, failure)], vec![without(1, absence)]] {
        let (persisted, blobs) = entry(attempts).persist();
        let text = facts::write(persisted, &blobs).expect("it is written");
        let text = String::from_utf8_lossy(&text).replace(":{", ":").replace(":[", ":");
        for member in text.split([',', '{', '}']).filter_map(|member| member.split_once("\":")) {
            let name = format!("{}\":", member.0);
            assert!(name.starts_with('"') && known.contains(&name), "{name}");
        }
    }
}
