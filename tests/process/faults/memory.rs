//! Origins that want the proxy's memory: files without end, files that unfold without end, and a great
//! many of them. What they take is bounded, and everybody gets an answer.

use std::io::Write;
use std::net::Ipv4Addr;
use std::thread;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::testkit::parties::{Client, Origin, Script, answer};
use crate::testkit::processes::{Crawler, Place, RULES, Robots, Serve, Site, scale, until};

const MIB: usize = 1 << 20;

/// Files without end, in the three framings that there are, and one that comes slowly.
fn without_end(number: usize) -> Script {
    let comment = vec![b'#'; 64 << 10];
    let head = "HTTP/1.1 200 OK\r\n";
    let begun = format!("{RULES}#");
    match number % 4 {
        0 => Script::default()
            .send(format!("{head}Content-Length: 99999999999\r\n\r\n{begun}"))
            .endless(comment),
        1 => Script::default().send(format!("{head}\r\n{begun}")).endless(comment),
        2 => {
            let chunk = [format!("{:x}\r\n", comment.len()).as_bytes(), &comment, b"\r\n"].concat();
            let head =
                format!("{head}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{begun}\r\n", begun.len());
            Script::default().send(head).endless(chunk)
        }
        _ => Script::default()
            .send(format!("{head}\r\n{begun}"))
            .drip(comment, Duration::from_millis(250)),
    }
}

/// 256 MiB of comment behind the rules, in members of one gzip file (RFC 1952 §2.2).
fn bomb() -> Script {
    let gzip = |bytes: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).expect("memory");
        encoder.finish().expect("memory")
    };
    let file = [gzip(RULES.as_bytes()), gzip(&vec![b'#'; MIB]).repeat(256)].concat();
    assert!(file.len() < 500 << 10, "it is within the limit as it comes");
    Script::default().send(answer(200, "Content-Encoding: gzip\r\n", file))
}

/// The names under which an origin is so many hostile ones.
fn names(kind: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{kind}{number}")).collect()
}

fn hostile(files: &[String], bombs: &[String]) -> Origin {
    let mut origin = Origin::start();
    for (number, name) in files.iter().enumerate() {
        origin = origin.on(&format!("{name}/robots.txt"), without_end(number));
    }
    let bomb = bomb();
    for name in bombs {
        origin = origin.on(&format!("{name}/robots.txt"), bomb.clone());
    }
    origin
}

/// The most bytes of it that ever were in memory.
fn peak(serve: &Serve) -> usize {
    serve.memory("VmHWM")
}

/// Asks for what the rules close at each, all at one time; what was answered.
fn ask_at_once(serve: &Serve, origin: &Origin, names: &[String]) -> Vec<(u16, String)> {
    thread::scope(|scope| {
        let asking: Vec<_> = names
            .iter()
            .map(|name| {
                scope.spawn(move || {
                    let response =
                        Client::connect(serve.address()).get(&origin.named(name, "/private/a"));
                    (response.status(), response.reason())
                })
            })
            .collect();
        asking.into_iter().map(|client| client.join().expect("an answer")).collect()
    })
}

/// What the drip never brings to its end is unreachable; of the others the first part counts.
#[track_caller]
fn assert_decided(answers: &[(u16, String)]) {
    for (number, (status, reason)) in answers.iter().enumerate() {
        let expected = if number % 4 == 3 { "robots_unreachable" } else { "disallow_rule" };
        assert_eq!((*status, reason.as_str()), (403, expected), "{number}");
    }
}

#[test]
fn f2_twenty_files_without_end_at_once_cost_less_than_64_mib() {
    let files = names("file", 20);
    let origin = hostile(&files, &[]);
    let place = Place::new("[robots]\nfetch_timeout = \"5s\"");
    let serve = place.serve();
    let before = serve.resident();
    assert_decided(&ask_at_once(&serve, &origin, &files));
    let grown = peak(&serve) - before;
    println!("{} KiB more", grown >> 10);
    assert!(grown <= 64 * MIB, "{} MiB more", grown / MIB);
    origin.wait_until("every download has been left", |log| log.abandoned == files.len());
    serve.stop();
}

#[test]
fn f3_ten_bombs_at_once_cost_less_than_100_mib() {
    let bombs = names("bomb", 10);
    let origin = hostile(&[], &bombs);
    let place = Place::new("");
    let serve = place.serve();
    let before = serve.resident();
    for (status, reason) in ask_at_once(&serve, &origin, &bombs) {
        assert_eq!((status, reason.as_str()), (403, "disallow_rule"));
    }
    let grown = peak(&serve) - before;
    println!("{} KiB more", grown >> 10);
    assert!(grown <= 100 * MIB, "{} MiB more", grown / MIB);
    serve.stop();
}

/// As a sidecar with 128 MiB is set up: a cache of a quarter of that, and fewer clients.
const SMALL: &str = "[robots]\ncache_size = \"32MiB\"\nfetch_timeout = \"5s\"\n\
                     [clients]\nmax_connections = 64";

/// What is tested is memory, so nobody waits for the disk.
const QUICK_DISK: &str = "mount -t tmpfs -o size=1g,mode=700 tmpfs \"$1\"";

#[test]
fn f19_a_proxy_of_128_mib_outlives_all_of_them_together() {
    outlives_all_of_them_together(&format!("{SMALL}\n[store]\nenabled = false"));
}

#[test]
fn f19_a_proxy_of_128_mib_that_keeps_what_it_knows_outlives_them_too() {
    outlives_all_of_them_together(SMALL);
}

#[track_caller]
fn outlives_all_of_them_together(settings: &str) {
    let (files, bombs) = (names("file", 20), names("bomb", 10));
    let origin = hostile(&files, &bombs);
    // The file of each is another one; those of all are more than the cache holds.
    let site = Site::start(|address| {
        Robots::File(format!("{RULES}# {address}\n{}", "Disallow: /x/\n".repeat(1000)))
    });
    let place = Place::new(settings);
    let serve = place.serve_on(QUICK_DISK);
    let count = scale("COURTESY_TEST_ORIGINS", 2000);
    thread::scope(|scope| {
        for part in 0..8 {
            let (serve, site) = (&serve, &site);
            scope.spawn(move || {
                let mut crawler = Crawler::new(serve.address());
                for number in (part..count).step_by(8) {
                    let number = u32::try_from(number).expect("a few millions at most");
                    let address = Ipv4Addr::from_bits(0x7f01_0000 + number);
                    let answer =
                        crawler.get(&site.url_at(address, "/private/a")).expect("an answer");
                    assert!([403, 503].contains(&answer.status), "{answer:?}");
                }
            });
        }
        assert_decided(&ask_at_once(&serve, &origin, &files));
        for (status, _) in ask_at_once(&serve, &origin, &bombs) {
            assert_eq!(status, 403);
        }
    });
    let peak = peak(&serve);
    println!("{} KiB at most, with {count} origins", peak >> 10);
    assert!(peak <= 128 * MIB, "{} MiB", peak / MIB);
    assert_eq!(site.pages(), 0);

    // One more than it has room for is told so; those who have it go on.
    let held: Vec<_> = (0..64).map(|_| Client::connect(serve.address())).collect();
    until("it is full", || {
        Client::connect(serve.address()).get(&site.url("/private/a")).status() == 503
    });
    drop(held);
    until("it serves again", || serve.get(&site.url("/private/a")).status == 403);
    serve.stop();
}
