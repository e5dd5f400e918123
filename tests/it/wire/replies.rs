//! Payloads of an origin: what it answers a GET of `/page` with, or a HEAD. Behind it the client
//! asks for `/second` by the same connection, and never gets a byte of the first answer.

use super::case::{bytes, proxy, send};
use super::recorder::{Recorder, Reply};
use super::strict::{self, End};

/// What the client gets.
#[derive(Clone, Copy, Debug)]
enum Gets {
    /// An answer with this status and body.
    Whole(u16, &'static str),
    /// 502 of the proxy's.
    Bad,
    /// An answer that visibly breaks off.
    Cut,
}
use Gets::{Bad, Cut, Whole};

/// The method, the answer, and whether the connection ends behind it.
type Reply1<'a> = (&'a str, &'a str, bool, Gets);

#[track_caller]
fn check(replies: &[Reply1<'_>]) {
    let proxy = proxy();
    let mut faults = Vec::new();
    for (method, reply, closes, gets) in replies {
        let raw = bytes(reply, ([0, 0, 0, 0], 0).into());
        let origin = Recorder::start(Reply::Raw { bytes: raw, closes: *closes });
        let asked = format!(
            "{method} http://{{o}}/page HTTP/1.1\r\nHost: x\r\n\r\nGET http://{{o}}/second HTTP/1.1\r\nHost: x\r\n\r\n"
        );
        let received = send(proxy.address(), &bytes(&asked, origin.address()), false);
        if let Err(fault) = judge(method, *gets, &received, &origin) {
            faults.push(format!(
                "{method} {reply:?}: {fault}\n  answered {}",
                received.escape_ascii()
            ));
        }
    }
    assert!(
        faults.is_empty(),
        "{} of {} answers:\n{}",
        faults.len(),
        replies.len(),
        faults.join("\n")
    );
}

fn judge(method: &str, gets: Gets, received: &[u8], origin: &Recorder) -> Result<(), String> {
    for bytes in origin.connections() {
        strict::requests(&bytes).map_err(|rule| format!("the origin got {rule}"))?;
    }
    let (answers, end) = strict::responses(received, &[method, "GET"])?;
    let firsts = origin.connections().concat();
    let sent = firsts.windows(6).filter(|window| *window == b"/page ").count();
    if sent != 1 {
        return Err(format!("{sent} requests where one was sent"));
    }
    match (gets, &answers[..]) {
        // Nothing at all is visibly no answer.
        (Cut, []) if end == End::Inside || received.is_empty() => return Ok(()),
        (Whole(status, body), [first, ..])
            if first.status() == status && (method == "HEAD" || first.body == body.as_bytes()) => {}
        (Bad, [first, ..]) if first.status() == 502 && !first.all("proxy-status").is_empty() => {}
        _ => return Err(format!("not {gets:?}, ending {end:?}")),
    }
    match &answers[1..] {
        [second] if second.body == b"GET /second" && end == End::Between => Ok(()),
        second => Err(format!("and then {second:?}")),
    }
}

const OK: &str = "HTTP/1.1 200 OK\r\n";

fn all(method: &'static str, replies: &[String], gets: Gets) {
    let both = [true, false]
        .into_iter()
        .flat_map(|closes| replies.iter().map(move |reply| (reply, closes)));
    check(&both.map(|(reply, closes)| (method, reply.as_str(), closes, gets)).collect::<Vec<_>>());
}

#[test]
fn d1_an_answer_whose_length_is_in_doubt_is_none() {
    let bad: Vec<String> = [
        "Content-Length: x",
        "Content-Length: -5",
        "Content-Length: +5",
        "Content-Length: 5,5",
        "Content-Length: 5, 6",
        "Content-Length: 0x5",
        "Content-Length: 5 5",
        "Content-Length:",
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: 99999999999999999999",
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: gzip",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: \u{b}chunked",
        "Transfer-Encoding: chunked,",
        "Content-Length: 5\r\n 6",
    ]
    .iter()
    .map(|fields| format!("{OK}{fields}\r\n\r\n5\r\nhello\r\n0\r\n\r\n"))
    .collect();
    all("GET", &bad, Bad);
    all(
        "GET",
        &["HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n".into()],
        Bad,
    );
}

#[test]
fn d4_b9_b10_an_answer_that_is_no_http_is_none() {
    let bad: Vec<String> = [
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 099 OK\r\n\r\n",
        "HTTP/2.0 200 OK\r\n\r\n",
        "HTTP/0.9 200 OK\r\n\r\n",
        "HTTP/1.1 abc OK\r\n\r\n",
        "HTTP/1.1 -20 OK\r\n\r\n",
        "HTTP/1.1  200 OK\r\n\r\n",
        "http/1.1 200 OK\r\n\r\n",
        "ICY 200 OK\r\n\r\n",
        "<html>hello</html>\r\n\r\n",
        "hello\r\n\r\n",
        "\0\0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: a\rb\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\n: a\r\n\r\n",
        "HTTP/1.1 200 O\0K\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\n\r\n",
    ]
    .map(str::to_owned)
    .into();
    all("GET", &bad, Bad);
    for cut in
        ["", "H", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"]
    {
        check(&[("GET", cut, true, Bad)]);
    }
}

#[test]
fn d2_an_answer_that_breaks_off_does_so_visibly() {
    let cut: Vec<String> = [
        "Content-Length: 6\r\n\r\nhello",
        "Content-Length: 6\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhel",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n",
        "Transfer-Encoding: chunked\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n",
        "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello!\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nhello\r\n0\r\n\r\n",
    ]
    .iter()
    .map(|rest| format!("{OK}{rest}"))
    .collect();
    check(&cut.iter().map(|reply| ("GET", reply.as_str(), true, Cut)).collect::<Vec<_>>());
}

#[test]
fn b8_c13_d10_answers_that_hold_are_passed_on() {
    let held = [
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false, Whole(200, "hello")),
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false, Whole(200, "")),
        ("HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello", false, Whole(200, "hello")),
        ("HTTP/1.1 200 \r\nContent-Length: 5\r\n\r\nhello", false, Whole(200, "hello")),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            false,
            Whole(200, "hello"),
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n2;x\r\nhe\r\n3\r\nllo\r\n0\r\nX: y\r\n\r\n",
            false,
            Whole(200, "hello"),
        ),
        ("HTTP/1.1 200 OK\r\n\r\nhello", true, Whole(200, "hello")),
        ("HTTP/1.0 200 OK\r\n\r\nhello", true, Whole(200, "hello")),
        ("HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", true, Whole(200, "hello")),
        (
            "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello",
            false,
            Whole(200, "hello"),
        ),
        (
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello",
            true,
            Whole(200, "hello"),
        ),
        ("HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\ngone", false, Whole(404, "gone")),
        ("HTTP/1.1 599 Odd\r\nContent-Length: 4\r\n\r\nbody", false, Whole(599, "body")),
        (
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            false,
            Whole(200, "hello"),
        ),
        (
            "HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            false,
            Whole(200, "hello"),
        ),
        (
            "HTTP/1.1 200 OK\r\nX-Latin: caf\u{e9}\r\nContent-Length: 5\r\n\r\nhello",
            false,
            Whole(200, "hello"),
        ),
    ];
    check(&held.map(|(reply, closes, gets)| ("GET", reply, closes, gets)));
    let flood = "HTTP/1.1 102 Processing\r\n\r\n".repeat(5000)
        + "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    check(&[("GET", &flood, false, Bad)]);
}

/// I2: bytes that no answer has are nobody's.
#[test]
fn d3_what_has_no_body_has_none_and_the_rest_is_nobodys() {
    let poison = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison";
    let behind = |head: &str| format!("{head}\r\n\r\n{poison}");
    for head in ["HTTP/1.1 204 No Content", "HTTP/1.1 204 No Content\r\nContent-Length: 50"] {
        all("GET", &[behind(head)], Whole(204, ""));
    }
    for head in ["HTTP/1.1 304 Not Modified", "HTTP/1.1 304 Not Modified\r\nContent-Length: 50"] {
        all("GET", &[behind(head)], Whole(304, ""));
    }
    for head in [
        "HTTP/1.1 200 OK\r\nContent-Length: 50",
        "HTTP/1.1 200 OK",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked",
    ] {
        all("HEAD", &[behind(head)], Whole(200, ""));
    }
    all("GET", &[behind("HTTP/1.1 200 OK\r\nContent-Length: 0")], Whole(200, ""));
    all(
        "GET",
        &[format!("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello{poison}")],
        Whole(200, "hello"),
    );
    all(
        "GET",
        &[format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n{poison}"
        )],
        Whole(200, "hello"),
    );
}
