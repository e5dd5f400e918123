//! Clients that ask for much and read little of it.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use courtesy::runtime::clock::monotonic;
use socket2::{Domain, Socket, Type};

use crate::gauge::Gauge;
use crate::ordinary::{Histogram, raise_descriptors};
use crate::site::{HUGE_BYTES, Site};
use crate::testkit::processes::{Place, Serve, scale, until};
use crate::turn::Turn;

/// What each reads in a second.
const RATE: usize = 1000;

/// How long they are watched, and how long one may read nothing at all. They do read: whoever is cut off
/// was judged by what the system holds for him.
const WATCHED: Duration = Duration::from_secs(35);
const PATIENCE: Duration = Duration::from_secs(30);

/// What a stream may take of the proxy's memory (safety row L8), and what everything else may meanwhile.
const BYTES_EACH: usize = 64 << 10;
const BYTES_BESIDE: usize = 4 << 20;

#[test]
fn l8_slow_readers_hold_up_the_origin_and_not_the_proxy() {
    let _turn = Turn::wait();
    let count = scale("COURTESY_TEST_READERS", 100);
    raise_descriptors();
    let site = Site::plain();
    let place = Place::new(&format!(
        "[pace]\nmode = \"off\"\n[clients]\nmax_requests_per_client = {0}\n\
         [limits]\nbody_idle_timeout = \"{1}s\"",
        2 * count + 100,
        PATIENCE.as_secs()
    ));
    let serve = place.serve();
    let alone = Histogram::of(&serve, &site);
    let before = Gauge::of(&serve);
    let crowd: Vec<_> = (0..count).map(|_| ask(&serve, &site)).collect();
    until("all are being answered", || {
        serve.metric("courtesy_connections") >= count && site.sent() > 0
    });
    let (over, read) = (AtomicBool::new(false), AtomicUsize::new(0));
    let begun = monotonic();
    thread::scope(|scope| {
        scope.spawn(|| read_slowly(&crowd, &read, &over));
        let beside = Histogram::of(&serve, &site);
        until("they have been watched", || begun.elapsed() >= WATCHED);
        let (after, sent) = (Gauge::of(&serve), site.sent());
        over.store(true, Ordering::SeqCst);
        let grown = after.resident.saturating_sub(before.resident);
        println!(
            "{count} slow readers, {} bytes read by each: {} KiB of memory for each, {} KiB taken from the origin",
            read.load(Ordering::SeqCst) / count,
            (grown / count) >> 10,
            (sent / count) >> 10
        );
        beside.assert_near(alone);
        assert!(serve.metric("courtesy_connections") >= count, "some were cut off");
        assert!(grown <= count * BYTES_EACH + BYTES_BESIDE, "{grown} bytes in all");
        assert!(
            sent / count < HUGE_BYTES / 2,
            "the origin could send {} bytes to each",
            sent / count
        );
    });
    drop(crowd);
    until("they are let go", || serve.metric("courtesy_connections") == 0);
    serve.stop();
}

/// Asks for more than it will ever read, with little room for what comes.
fn ask(serve: &Serve, site: &Site) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(4 << 10).expect("an option");
    socket
        .bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())
        .expect("an address of this machine");
    socket.connect(&serve.address().into()).expect("the proxy listens");
    let mut stream = TcpStream::from(socket);
    let url = site.url(1, 1, "/huge");
    write!(stream, "GET {url} HTTP/1.1\r\nHost: a\r\nUser-Agent: ExampleBot\r\n\r\n")
        .expect("the proxy reads");
    stream.set_nonblocking(true).expect("an option");
    stream
}

/// A little of each in every second.
fn read_slowly(crowd: &[TcpStream], read: &AtomicUsize, over: &AtomicBool) {
    let mut next = monotonic();
    while !over.load(Ordering::SeqCst) {
        for mut stream in crowd {
            match stream.read(&mut [0; RATE]) {
                Ok(0) => panic!("it ended early"),
                Ok(bytes) => drop(read.fetch_add(bytes, Ordering::SeqCst)),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
            }
        }
        next += Duration::from_secs(1);
        while monotonic() < next && !over.load(Ordering::SeqCst) {
            thread::park_timeout(Duration::from_millis(20));
        }
    }
}
