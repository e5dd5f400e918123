//! What answers a fetch of a robots.txt: its content codings, redirects, conditions and size.

use std::io::Write;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::testkit::parties::h2_origin::{END_STREAM, data, head_with, whole};
use crate::testkit::parties::{H2Origin, Origin, Proxy, Script, answer, ok_with};

const RULES: &str = "User-agent: *\nDisallow: /page\n";
const DAY: Duration = Duration::from_hours(25);

fn gzip(plain: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(plain.as_bytes()).expect("memory takes all");
    encoder.finish().expect("memory takes all")
}

/// The table of `store/fetch/decode/tests.rs`, one of each kind, as it crosses a wire.
#[test]
fn a_file_is_read_by_its_bytes_whatever_its_coding_is_called() {
    let packed = gzip(RULES);
    for (name, coding, body, reason) in [
        ("no coding", "none", RULES.into(), "disallow_rule"),
        ("an empty element", "gzip,", packed.clone(), "disallow_rule"),
        ("gzip over text", "gzip", RULES.into(), "disallow_rule"),
        ("a newline behind", "gzip", [&packed[..], b"\n"].concat(), "disallow_rule"),
        ("gzip without a label", "identity", packed.clone(), "disallow_rule"),
        ("gzip that is cut", "gzip", packed[..packed.len() - 1].into(), "robots_unreachable"),
        ("a coding not asked for", "br", RULES.into(), "robots_unreachable"),
        ("zstd without a label", "", b"\x28\xb5\x2f\xfd\x04\x00".into(), "robots_unreachable"),
    ] {
        let fields = format!("Content-Encoding: {coding}\r\n");
        let script = Script::default().send(answer(200, &fields, &body));
        let origin = Origin::start().on("/robots.txt", script);
        let proxy = Proxy::start();
        assert_eq!(proxy.get(&origin.url("/page")).reason(), reason, "{name}");

        let of_robots =
            vec![head_with(200, &[("content-encoding", coding)], 0), data(&body, END_STREAM)];
        let origin = H2Origin::start(vec![of_robots, whole(200, "page")]);
        let proxy = Proxy::before_ports(&[origin.address().port()], |_| {});
        let page = proxy.https(&origin.authority()).get("/page");
        assert_eq!(page.reason(), reason, "{name}, over HTTP/2");
    }
}

/// A site's redirect in Latin-1 leads to the file that the site means.
#[test]
fn a_redirect_of_bytes_beyond_ascii_is_followed_byte_by_byte() {
    let to =
        [b"HTTP/1.1 302 Found\r\nLocation: /caf\xe9.txt\r\nContent-Length: 0\r\n\r\n".as_slice()];
    let origin = Origin::start()
        .on("/robots.txt", Script::default().send(to.concat()))
        .on("/caf%E9.txt", ok_with("", RULES));
    let proxy = Proxy::start();
    assert_eq!(proxy.get(&origin.url("/page")).reason(), "disallow_rule");
    assert_eq!(origin.request_lines(), ["GET /robots.txt", "GET /caf%E9.txt"]);
}

/// A condition that a site refuses is no word about its file: the copy neither goes nor stays for it.
#[test]
fn a_refused_condition_is_asked_again_without_one() {
    const NEW: &str = "User-agent: *\nDisallow: /other\n";
    for (name, refusal) in [
        ("412 (RFC 9110 §15.5.13)", answer(412, "", "")),
        ("400: a firewall", answer(400, "", "")),
        (
            "304 with another tag (RFC 9111 §4.3.4)",
            b"HTTP/1.1 304 Not Modified\r\nETag: \"2\"\r\n\r\n".to_vec(),
        ),
    ] {
        let origin = Origin::start()
            .on("/robots.txt", ok_with("ETag: \"1\"\r\n", RULES))
            .then("/robots.txt", Script::default().send(&refusal))
            .then("/robots.txt", ok_with("ETag: \"2\"\r\n", NEW));
        let proxy = Proxy::start();
        assert_eq!(proxy.get(&origin.url("/page")).reason(), "disallow_rule", "{name}");
        proxy.clock.advance(DAY);
        assert_eq!(proxy.get(&origin.url("/page")).status(), 200, "{name}");
        assert_eq!(proxy.get(&origin.url("/other")).reason(), "disallow_rule", "{name}");
        let conditions: Vec<_> = {
            let log = origin.log();
            let of_robots = log.requests.iter().filter(|it| it.path() == "/robots.txt");
            of_robots.map(|it| it.field("if-none-match").map(str::to_owned)).collect()
        };
        assert_eq!(conditions, [None, Some("\"1\"".to_owned()), None], "{name}");
    }
}

/// A crawler that asks for a robots.txt gets what decides: whole, or up to the end of a line.
#[test]
fn a_file_over_the_bound_is_served_up_to_the_end_of_a_line() {
    const BOUND: usize = 500 << 10;
    let line = "Disallow: /private/directory/\n";
    for (name, end_of_line) in [("LF", "\n"), ("CRLF", "\r\n"), ("CR", "\r")] {
        let line = line.replace('\n', end_of_line);
        let file = format!("User-agent: *{end_of_line}{}", line.repeat(BOUND / line.len() + 100));
        let origin = Origin::with_robots(&file);
        let proxy = Proxy::start();
        let served = proxy.get(&origin.url("/robots.txt"));
        let text = served.text();
        assert!(file.starts_with(&text) && text.ends_with(&line), "{name}: {} bytes", text.len());
        assert!(text.len() > BOUND - 2 * line.len() && text.len() <= BOUND + 1, "{name}");
        let told = served.field("proxy-status").unwrap_or_default();
        let part = format!("its first {} bytes (robots.max_size)", text.len());
        assert!(told.contains(&part), "{name}: {told}");
        let head = proxy.exchange("HEAD", &origin.url("/robots.txt"), "");
        assert_eq!(head.field("content-length"), Some(text.len().to_string().as_str()), "{name}");
    }
    let origin = Origin::with_robots(RULES);
    let whole = Proxy::start().get(&origin.url("/robots.txt"));
    assert_eq!(whole.text(), RULES);
    assert!(!whole.field("proxy-status").unwrap_or_default().contains("its first"));
}
