//! Requests that nobody wrote: drawn at random, and sound ones with something changed. The proxy outlives
//! them, and whatever of them comes to an origin is one message to everybody who reads it.

use std::thread;

use crate::testkit::parties::{Client, Origin, Received};
use crate::testkit::processes::{Place, RULES, scale};

const CLIENTS: usize = 4;

/// What requests are made of.
const PIECES: [&str; 44] = [
    "GET ",
    "POST ",
    "HEAD ",
    "OPTIONS ",
    "CONNECT ",
    "get ",
    "G\u{e9}T ",
    " ",
    "\t",
    "\r\n",
    "\n",
    "\r",
    "\0",
    "\r\n\r\n",
    "http://",
    "HTTP://",
    "https://",
    "//",
    "AUTHORITY",
    "USER@",
    "/open",
    "/private/a",
    "/%70rivate/a",
    "/private%2fa",
    "?q",
    "#f",
    "*",
    " HTTP/1.1",
    " HTTP/1.0",
    " HTTP/2.0",
    "Host: AUTHORITY\r\n",
    "Host: x\r\n",
    "Content-Length: 5\r\n",
    "Content-Length: 0\r\n",
    "Content-Length : 5\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: gzip\r\n",
    "Connection: close, x\r\n",
    "Expect: 100-continue\r\n",
    "X: y\r\n z\r\n",
    "5\r\nhello\r\n",
    "0\r\n\r\n",
    "hello",
    SMUGGLED,
];

/// What a body brings along for whoever takes it for a request. The proxy does not: it has no absolute
/// URL.
const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: AUTHORITY\r\n\r\n";

/// Sound requests, of which something is changed; a port of five digits makes the lengths right.
const SOUND: [&str; 5] = [
    "GET http://AUTHORITY/open?a=b HTTP/1.1\r\nHost: AUTHORITY\r\nUser-Agent: ExampleBot/1.0\r\n\r\n",
    "POST http://AUTHORITY/open HTTP/1.1\r\nHost: AUTHORITY\r\nContent-Length: 49\r\n\r\nSMUGGLED",
    "POST http://AUTHORITY/open HTTP/1.1\r\nHost: AUTHORITY\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n\
     5;x=y\r\nhello\r\n31\r\nSMUGGLED\r\n0\r\nX: y\r\n\r\n",
    "GET http://AUTHORITY/private/a HTTP/1.1\r\nHost: AUTHORITY\r\nConnection: keep-alive, x\r\nX: y\r\n\r\n\
     GET http://AUTHORITY/open HTTP/1.1\r\nHost: AUTHORITY\r\n\r\n",
    "OPTIONS http://AUTHORITY HTTP/1.1\r\nHost: AUTHORITY\r\nMax-Forwards: 3\r\nVia: 1.0 other\r\n\r\n",
];

/// Bytes that some parser takes for something else.
const ODD: &[u8] = b"\r\n\t \0:;,\x0b\x0c\x7f\x80\xa0\xff+-_%/\\@#?09aFxX";

/// ShardedCounters that follow from the first (Steele, Lea, Flood: SplitMix).
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % end as u64) as usize
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// Pieces in any order, with or without a sound beginning, or nothing but bytes.
fn random(draw: &mut Draw) -> Vec<u8> {
    let mut bytes = match draw.below(4) {
        0 => return (0..draw.below(400)).map(|_| draw.below(256) as u8).collect(),
        1 => b"GET http://AUTHORITY/open HTTP/1.1\r\nHost: AUTHORITY\r\n".to_vec(),
        2 => b"POST http://AUTHORITY/open HTTP/1.1\r\nHost: AUTHORITY\r\n".to_vec(),
        _ => Vec::new(),
    };
    for _ in 0..draw.below(14) {
        bytes.extend(draw.of(&PIECES).bytes());
    }
    bytes
}

/// A sound request, one to four changes away from it.
fn mutated(draw: &mut Draw) -> Vec<u8> {
    let mut bytes = draw.of(&SOUND).as_bytes().to_vec();
    for _ in 0..=draw.below(4) {
        let at = draw.below(bytes.len());
        let end = (at + draw.below(20)).min(bytes.len());
        match draw.below(6) {
            0 => bytes[at] = draw.of(ODD),
            1 => bytes.insert(at, draw.of(ODD)),
            2 => drop(bytes.drain(at..end)),
            3 => {
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
            4 => drop(bytes.splice(at..at, draw.of(&PIECES).bytes())),
            _ => bytes.truncate(at.max(1)),
        }
        if bytes.is_empty() {
            return bytes;
        }
    }
    bytes
}

fn filled_in(bytes: &[u8], authority: &str) -> Vec<u8> {
    // As bytes of ISO 8859-1, so that each stays one.
    let text: String = bytes.iter().map(|byte| char::from(*byte)).collect();
    let text = text.replace("SMUGGLED", SMUGGLED).replace("AUTHORITY", authority);
    text.chars().map(|byte| u8::try_from(u32::from(byte)).expect("a byte")).collect()
}

#[test]
fn f20_no_request_whatever_is_ambiguous_to_an_origin() {
    let count = scale("COURTESY_TEST_REQUESTS", 3000);
    let seed = scale("COURTESY_TEST_SEED", 1);
    let origin = Origin::with_robots(RULES);
    let place = Place::new("[limits]\nheader_timeout = \"1s\"\nbody_idle_timeout = \"1s\"");
    let serve = place.serve();
    let authority = origin.authority();
    thread::scope(|scope| {
        for part in 0..CLIENTS {
            let (serve, authority) = (&serve, authority.as_str());
            scope.spawn(move || {
                for number in (part..count).step_by(CLIENTS) {
                    let mut draw = Draw((seed as u64) << 32 | number as u64);
                    let bytes =
                        if number % 3 == 0 { mutated(&mut draw) } else { random(&mut draw) };
                    let mut client = Client::connect(serve.address());
                    // It may have been refused before its end.
                    let _ = client.try_send(filled_in(&bytes, authority));
                    client.finish_sending();
                    client.read_rest();
                }
            });
        }
    });
    let requests = origin.log().requests.clone();
    let pages: Vec<_> = requests.iter().filter(|request| request.path() != "/robots.txt").collect();
    pages.iter().for_each(|request| assert_strict(request, &authority));
    println!("{count} requests, {} of them forwarded", pages.len());
    assert!(pages.len() > count / 50, "hardly any was forwarded: {}", pages.len());
    assert_eq!(serve.get(&origin.url("/open")).status, 200);
    let said = serve.stop();
    assert!(!said.contains("panicked"), "{said}");
}

/// One message, whoever reads it, and nothing that the rules close.
#[track_caller]
fn assert_strict(request: &Received, authority: &str) {
    let head = &request.head;
    let lines: Vec<&str> =
        head.strip_suffix("\r\n\r\n").expect("a whole head").split("\r\n").collect();
    let controls =
        |line: &str| line.bytes().any(|byte| byte < b' ' && byte != b'\t' || byte == 0x7f);
    assert!(!lines.iter().any(|line| controls(line)), "{head:?}");
    let words: Vec<&str> = lines[0].split(' ').collect();
    let [method, target, "HTTP/1.1"] = words[..] else { panic!("{head:?}") };
    assert!(is_token(method), "{head:?}");
    assert!(target.starts_with('/') || (method, target) == ("OPTIONS", "*"), "{head:?}");
    assert!(!target.contains("smuggled") && !target.contains('#'), "{head:?}");
    assert!(!target.replace("%70", "p").starts_with("/private/"), "the rules close it: {head:?}");
    for line in &lines[1..] {
        let name = line.split_once(':').map(|(name, _)| name);
        assert!(name.is_some_and(is_token), "{head:?}");
    }
    assert_eq!(request.fields("host"), [authority], "{head:?}");
    let (lengths, codings) =
        (request.fields("content-length"), request.fields("transfer-encoding"));
    assert!(lengths.len() + codings.len() <= 1, "{head:?}");
    assert!(
        lengths.iter().all(|length| length.bytes().all(|byte| byte.is_ascii_digit())),
        "{head:?}"
    );
    assert!(codings.iter().all(|coding| *coding == "chunked"), "{head:?}");
}

/// RFC 9110 §5.6.2.
fn is_token(text: &str) -> bool {
    let punctuation = b"!#$%&'*+-.^_`|~";
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || punctuation.contains(&byte))
}
