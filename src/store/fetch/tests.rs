//! Whole fetches over scripted responses; integration tests do the same over sockets.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use http::header::{HOST, IF_MODIFIED_SINCE, IF_NONE_MATCH};
use http_body::Frame;

use super::*;
use crate::audit::evidence::CaptureRecord;
use crate::runtime::clock::ManualClock;
use crate::types::ClientKey;
use crate::types::origin::split_url;
use crate::types::timestamp::Timestamp;

/// Chunks, and how the body continues after them.
struct Script(VecDeque<Bytes>, End);

#[derive(Clone, Copy)]
enum End {
    Complete,
    Fails(io::ErrorKind),
    Never,
}

impl HttpBody for Script {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match (self.0.pop_front(), self.1) {
            (Some(chunk), _) => Poll::Ready(Some(Ok(Frame::data(chunk)))),
            (None, End::Complete) => Poll::Ready(None),
            (None, End::Fails(kind)) => Poll::Ready(Some(Err(kind.into()))),
            (None, End::Never) => Poll::Pending,
        }
    }
}

const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

type Answer = Result<Response<Script>, egress::Error>;

fn answer(status: u16, fields: &[(&'static str, &str)], body: &[&[u8]], end: End) -> Answer {
    let mut response = Response::builder().status(status);
    for (name, value) in fields {
        response = response.header(*name, *value);
    }
    let chunks = body.iter().map(|chunk| Bytes::copy_from_slice(chunk)).collect();
    Ok(response.body(Script(chunks, end)).expect("a valid response"))
}

fn file(body: &[u8]) -> Answer {
    answer(200, &[], &[body], End::Complete)
}

fn to(location: &str) -> Answer {
    answer(302, &[("location", location)], &[], End::Complete)
}

fn refused(failure: Failure) -> Answer {
    Err(egress::Error::new(failure, "as scripted"))
}

fn ask() -> FetchRequest {
    FetchRequest {
        origin: split_url(b"http://example.com").expect("a URL").0,
        identity: FetchIdentity::of_agent(Some("ExampleBot")),
        validators: None,
        redirects_max: 5,
        client: ClientKey::Proxy,
        progress: Arc::default(),
    }
}

/// Fetches with one scripted response after the other; also returns the requests.
async fn run(
    ask: FetchRequest,
    answers: Vec<Answer>,
) -> (Result<CompletedFetch, NotSent>, Vec<(Origin, Request<RequestBody>)>) {
    let config = Config { timeout: Duration::from_millis(50), max_size: 100, ..Config::default() };
    let clock = ManualClock::starting_at(Timestamp::from_millis(1_790_000_000_000));
    let answers = Mutex::new(VecDeque::from(answers));
    let asked = Mutex::new(Vec::new());
    let send = |origin, request| {
        asked.lock().expect("no panic").push((origin, request));
        let answer =
            answers.lock().expect("no panic").pop_front().expect("no more requests than answers");
        async { answer.map(|response| (response, Source { peer: Some(PEER), via: None })) }
    };
    let fetched = fetch(ask, Arc::new(config), clock, send).await;
    (fetched, asked.into_inner().expect("no panic"))
}

async fn word(answers: Vec<Answer>) -> &'static str {
    run(ask(), answers).await.0.expect("it was not refused").result.word()
}

async fn snapshot(answers: Vec<Answer>) -> Arc<crate::policy::access::Snapshot> {
    match run(ask(), answers).await.0.expect("it was not refused").result {
        AccessResult::Successful { snapshot, .. } => snapshot,
        other => panic!("{other}"),
    }
}

/// Body and header values are slices of the connection's read buffer.
#[tokio::test]
async fn what_is_remembered_of_a_file_does_not_keep_the_buffer_it_was_read_into() {
    let buffer = Bytes::from(vec![b'a'; 8192]);
    let value = || HeaderValue::from_maybe_shared(buffer.slice(..10)).expect("a field value");
    let response = Response::builder()
        .header("content-type", value())
        .header("etag", value())
        .header("last-modified", value());
    let body = Script([buffer.slice(100..200)].into(), End::Complete);
    let snapshot = snapshot(vec![Ok(response.body(body).expect("a valid response"))]).await;
    assert_eq!(
        (snapshot.body.len(), snapshot.etag.as_ref().map(HeaderValue::len)),
        (100, Some(10))
    );
    assert!(buffer.is_unique(), "something shares it");
}

#[tokio::test]
async fn the_request_says_who_comes_and_carries_nothing_else() {
    let (_, asked) = run(ask(), vec![file(b"")]).await;
    let (origin, request) = &asked[0];
    assert_eq!(
        (origin.to_string().as_str(), request.uri().to_string().as_str()),
        ("http://example.com", "/robots.txt")
    );
    let fields: Vec<_> = request
        .headers()
        .iter()
        .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
        .collect();
    assert_eq!(
        fields,
        [
            ("host", "example.com"),
            ("accept", "text/plain, */*;q=0.1"),
            ("accept-encoding", "gzip, identity"),
            ("user-agent", concat!("ExampleBot courtesy/", env!("CARGO_PKG_VERSION"))),
        ]
    );
}

#[tokio::test]
async fn a_file_is_kept_with_its_evidence() {
    let fields =
        [("content-type", "text/html"), ("etag", "\"1\""), ("cache-control", "max-age=600")];
    let (fetched, _) = run(
        ask(),
        vec![answer(200, &fields, &[b"user-agent: *\n", b"disallow: /\n"], End::Complete)],
    )
    .await;
    let fetched = fetched.expect("it was not refused");
    let AccessResult::Successful { snapshot, freshness } = fetched.result else {
        panic!("{}", fetched.result)
    };
    assert_eq!(&snapshot.body[..], b"user-agent: *\ndisallow: /\n");
    assert_eq!(snapshot.sha256[..4], [0x76, 0x1d, 0x3c, 0xb8]);
    assert_eq!((snapshot.cut, snapshot.status, snapshot.hops), (false, 200, 0));
    assert_eq!(snapshot.etag, Some(HeaderValue::from_static("\"1\"")));
    assert_eq!(snapshot.content_type, Some(HeaderValue::from_static("text/html")));
    assert_eq!(freshness.max_age, Some(Duration::from_secs(600)));
}

#[tokio::test]
async fn section_2_3_1_1_any_2xx_is_a_file_if_an_empty_one() {
    for status in [200, 203, 204, 299] {
        assert_eq!(
            word(vec![answer(status, &[], &[], End::Complete)]).await,
            "successful",
            "{status}"
        );
    }
}

/// RFC 9110 §15.3.7: no `Range` was sent, so this is a partial file.
#[tokio::test]
async fn a_part_of_a_file_is_not_the_file() {
    for range in ["bytes 0-13/40", "bytes */40", "bytes 0-39/40"] {
        let part = answer(206, &[("content-range", range)], &[b"user-agent: *\n"], End::Complete);
        let (fetched, asked) = run(ask(), vec![part]).await;
        let result = fetched.expect("it was not refused").result;
        assert_eq!(
            result,
            AccessResult::Without(Cause::Status { code: 206, retry_after: None }),
            "{range}"
        );
        assert!(!asked[0].1.headers().contains_key("range"));
    }
}

#[tokio::test]
async fn section_2_3_1_2_redirects_are_followed_across_authorities() {
    let answers =
        vec![to("https://www.example.com/robots.txt"), to("//cdn.example:8443/r?v=1"), file(b"x")];
    let (fetched, asked) = run(ask(), answers).await;
    let fetched = fetched.expect("it was not refused");
    assert_eq!((fetched.url.as_str(), fetched.hops), ("https://cdn.example:8443/r?v=1", 2));
    let hosts: Vec<_> =
        asked.iter().map(|(_, request)| request.headers()[HOST].to_str().unwrap()).collect();
    assert_eq!(hosts, ["example.com", "www.example.com", "cdn.example:8443"]);
}

#[tokio::test]
async fn section_2_3_1_2_redirects_have_an_end() {
    assert_eq!(
        word((1..=6).map(|hop| to(&format!("/{hop}"))).collect()).await,
        "too_many_redirects"
    );
    assert_eq!(word(vec![to("/a"), to("/robots.txt")]).await, "redirect_loop");
    assert_eq!(word(vec![answer(301, &[], &[], End::Complete)]).await, "redirect_without_location");
    assert_eq!(word(vec![to("ftp://example.com/robots.txt")]).await, "redirect_refused");
    assert_eq!(word(vec![answer(300, &[("location", "/a")], &[], End::Complete)]).await, "status");
}

#[tokio::test]
async fn a_file_that_does_not_arrive_whole_is_a_failure() {
    for (kind, expected) in [
        (io::ErrorKind::ConnectionReset, "cut_short"),
        (io::ErrorKind::UnexpectedEof, "cut_short"),
        (io::ErrorKind::InvalidInput, "invalid_response"),
        (io::ErrorKind::TimedOut, "timeout"),
    ] {
        let broken = answer(200, &[], &[b"user-agent: *\n"], End::Fails(kind));
        assert_eq!(word(vec![broken]).await, expected, "{kind:?}");
    }
    assert_eq!(word(vec![answer(200, &[], &[b"user-agent: *\n"], End::Never)]).await, "timeout");
    assert_eq!(
        word(vec![answer(200, &[("content-encoding", "gzip")], &[b"\x1f\x8b"], End::Complete)])
            .await,
        "undecodable"
    );
    assert_eq!(
        word(vec![answer(200, &[("content-encoding", "br")], &[b"x"], End::Complete)]).await,
        "undecodable"
    );
}

#[tokio::test]
async fn section_2_5_what_is_beyond_the_limit_is_not_downloaded() {
    // The body never ends, and need not. One byte more is kept, to see where lines end.
    let snapshot = snapshot(vec![answer(200, &[], &[&[b'x'; 80], &[b'y'; 80]], End::Never)]).await;
    assert_eq!((snapshot.cut, snapshot.body.len()), (true, 101));
}

#[tokio::test]
async fn a_status_is_told_with_its_retry_after() {
    let (fetched, _) =
        run(ask(), vec![answer(503, &[("retry-after", "120")], &[], End::Never)]).await;
    let expected = Cause::Status { code: 503, retry_after: Some(Duration::from_secs(120)) };
    assert_eq!(fetched.expect("it was not refused").result, AccessResult::Without(expected));
}

#[tokio::test]
async fn a_refresh_asks_with_the_validators_of_that_url_only() {
    let validators = Validators {
        url: "http://example.com/robots.txt".into(),
        etag: Some(HeaderValue::from_static("\"1\"")),
        last_modified: Some(HeaderValue::from_static("Sun, 06 Nov 1994 08:49:37 GMT")),
    };
    let conditional = FetchRequest { validators: Some(validators), ..ask() };
    let (fetched, asked) =
        run(conditional.clone(), vec![answer(304, &[], &[], End::Complete)]).await;
    assert_eq!(fetched.expect("it was not refused").result.word(), "not_modified");
    assert_eq!(asked[0].1.headers()[IF_NONE_MATCH], "\"1\"");
    assert!(asked[0].1.headers().contains_key(IF_MODIFIED_SINCE));
    let (_, asked) = run(conditional, vec![to("/other"), file(b"")]).await;
    assert!(!asked[1].1.headers().contains_key(IF_NONE_MATCH));
    assert_eq!(word(vec![answer(304, &[], &[], End::Complete)]).await, "status", "not asked for");
}

/// What answers a conditional request, what is made of it, and which RFC or whose habit that is.
#[tokio::test]
async fn a_response_about_the_condition_is_none_about_the_file() {
    const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const LATER: &str = "Mon, 07 Nov 1994 08:49:37 GMT";
    let validators = |etag: Option<&'static str>, date: Option<&'static str>| Validators {
        url: "http://example.com/robots.txt".into(),
        etag: etag.map(HeaderValue::from_static),
        last_modified: date.map(HeaderValue::from_static),
    };
    let tag = || validators(Some("\"1\""), None);
    let both = || validators(Some("\"1\""), Some(DATE));
    let date = || validators(None, Some(DATE));
    for (name, validators, status, fields, is_not_modified) in [
        ("304 alone (RFC 9110 §15.4.5)", both(), 304, &[][..], true),
        ("its tag", tag(), 304, &[("etag", "\"1\"")], true),
        ("its tag, weak: compression", tag(), 304, &[("etag", "W/\"1\"")], true),
        ("its date", date(), 304, &[("last-modified", DATE)], true),
        (
            "its tag, another date",
            both(),
            304,
            &[("etag", "\"1\""), ("last-modified", LATER)],
            true,
        ),
        ("a tag that it had not", date(), 304, &[("etag", "\"1\""), ("last-modified", DATE)], true),
        ("another tag (RFC 9111 §4.3.4)", tag(), 304, &[("etag", "\"2\"")], false),
        (
            "another tag, its date",
            both(),
            304,
            &[("etag", "\"2\""), ("last-modified", DATE)],
            false,
        ),
        ("another date: an older file put back", date(), 304, &[("last-modified", LATER)], false),
        ("412 (RFC 9110 §15.5.13)", both(), 412, &[], false),
        ("400: a firewall", both(), 400, &[], false),
    ] {
        let ask = FetchRequest { validators: Some(validators), ..ask() };
        let conditional = || answer(status, fields, &[], End::Complete);
        let (fetched, asked) = run(ask.clone(), vec![conditional(), file(b"new")]).await;
        let fetched = fetched.expect("it was not refused");
        let expected = if is_not_modified { "not_modified" } else { "successful" };
        assert_eq!(fetched.result.word(), expected, "{name}");
        assert_eq!((asked.len(), fetched.hops), (if is_not_modified { 1 } else { 2 }, 0), "{name}");
        if is_not_modified {
            continue;
        }
        let again = asked[1].1.headers();
        assert!(!again.contains_key(IF_NONE_MATCH) && !again.contains_key(IF_MODIFIED_SINCE));
        // Without a condition it is about the file, and not asked a third time.
        let (fetched, _) = run(ask, vec![conditional(), conditional()]).await;
        assert_eq!(fetched.expect("it was not refused").result.word(), "status", "{name}");
    }
    // Another status is about the file.
    for status in [404, 403, 410, 416, 428, 500] {
        let ask = FetchRequest { validators: Some(both()), ..ask() };
        let (fetched, _) = run(ask, vec![answer(status, &[], &[], End::Complete)]).await;
        assert_eq!(fetched.expect("it was not refused").result.word(), "status", "{status}");
    }
}

#[tokio::test]
async fn an_origin_that_may_not_be_contacted_is_no_result_about_its_file() {
    for failure in
        [Failure::AddressProhibited, Failure::ConnectionLimit, Failure::NoRoute, Failure::Exhausted]
    {
        let (fetched, _) = run(ask(), vec![refused(failure)]).await;
        assert_eq!(fetched.expect_err("it is refused").0.failure, failure);
    }
    // A hop that may not be contacted is a result: the site chose it.
    assert_eq!(
        word(vec![to("http://10.0.0.1/"), refused(Failure::AddressProhibited)]).await,
        "redirect_refused"
    );
    assert_eq!(word(vec![refused(Failure::Dns)]).await, "dns_error");
    assert_eq!(word(vec![refused(Failure::TlsCertificate)]).await, "tls_error");
}

/// The captured fetch: URL and status of each response, then the outcome.
async fn captured(
    ask: FetchRequest,
    answers: Vec<Answer>,
) -> (Vec<(String, u16)>, Option<String>, Option<u64>) {
    let fetched = run(ask, answers).await.0.expect("it was not refused");
    let record: CaptureRecord = serde_json::from_slice(&fetched.capture.json).expect("a capture");
    assert_eq!(record.seal(), fetched.capture, "what is read back is what was written");
    assert_eq!(
        (&*record.asked, record.fetched_at),
        ("http://example.com/robots.txt", 1_790_000_000_000)
    );
    assert!(record.answers.iter().all(|answer| answer.peer == Some(PEER) && !answer.head_cut));
    let answers = record.answers.into_iter().map(|answer| (answer.url, answer.status)).collect();
    (answers, record.failure.map(|failure| failure.word), record.body.map(|body| body.bytes))
}

#[tokio::test]
async fn every_attempt_is_written_down_with_every_answer_that_came() {
    let url = |path: &str| format!("http://example.com{path}");
    let hops = || vec![(url("/robots.txt"), 302), (url("/a"), 200)];
    let failed = |word: &str| Some(word.to_owned());
    assert_eq!(captured(ask(), vec![to("/a"), file(b"x")]).await, (hops(), None, Some(1)));
    let stalls = answer(200, &[], &[b"x"], End::Never);
    assert_eq!(captured(ask(), vec![to("/a"), stalls]).await, (hops(), failed("timeout"), None));
    let first = || vec![(url("/robots.txt"), 302)];
    let reset = vec![to("/a"), refused(Failure::ConnectionTerminated)];
    assert_eq!(captured(ask(), reset).await, (first(), failed("cut_short"), None));
    assert_eq!(
        captured(ask(), vec![to("ftp://x/")]).await,
        (first(), failed("redirect_refused"), None)
    );
    assert_eq!(
        captured(ask(), vec![refused(Failure::Dns)]).await,
        (vec![], failed("dns_error"), None)
    );
    let gone = answer(404, &[], &[], End::Complete);
    assert_eq!(
        captured(ask(), vec![gone]).await,
        (vec![(url("/robots.txt"), 404)], failed("status"), None)
    );
    let etag = Some(HeaderValue::from_static("\"1\""));
    let validators = Validators { url: url("/robots.txt"), etag, last_modified: None };
    let not_modified = answer(304, &[], &[], End::Complete);
    let refresh =
        captured(FetchRequest { validators: Some(validators), ..ask() }, vec![not_modified]).await;
    assert_eq!(refresh, (vec![(url("/robots.txt"), 304)], None, None));
}

#[tokio::test]
async fn each_answer_is_written_down_with_the_request_that_was_sent() {
    let etag = Some(HeaderValue::from_static("\"1\""));
    let url = "http://example.com/robots.txt".into();
    let ask =
        FetchRequest { validators: Some(Validators { url, etag, last_modified: None }), ..ask() };
    let fetched = run(ask, vec![to("/a?b"), file(b"x")]).await.0.expect("it was not refused");
    let record: CaptureRecord = serde_json::from_slice(&fetched.capture.json).expect("a capture");
    let sent: Vec<_> =
        record.answers.into_iter().map(|answer| answer.request.expect("it is kept")).collect();
    let fields = concat!(
        "host: example.com\r\naccept: text/plain, */*;q=0.1\r\naccept-encoding: gzip, identity\r\n",
        "user-agent: ExampleBot courtesy/",
        env!("CARGO_PKG_VERSION"),
        "\r\n"
    );
    let first = format!("GET /robots.txt HTTP/1.1\r\n{fields}if-none-match: \"1\"\r\n");
    assert_eq!(sent, [first, format!("GET /a?b HTTP/1.1\r\n{fields}")]);
}
