//! Clients that say what they want one byte at a time, and never come to its end.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use courtesy::runtime::clock::monotonic;

use crate::ordinary::Histogram;
use crate::site::Site;
use crate::testkit::parties::DEADLINE;
use crate::testkit::processes::{Place, until};
use crate::turn::Turn;

const CLIENTS: usize = 200;

/// How often each sends another byte.
const PAUSE: Duration = Duration::from_millis(200);

/// How long they are given for the head, and how much later the last may have been told at the latest.
const HEAD: Duration = Duration::from_secs(8);
const SLACK: Duration = Duration::from_secs(8);

#[test]
fn l10_clients_that_never_finish_a_head_disturb_nobody_and_are_told_so() {
    let _turn = Turn::wait();
    let site = Site::plain();
    let place = Place::new(&format!("[limits]\nheader_timeout = \"{}s\"", HEAD.as_secs()));
    let serve = place.serve();
    let alone = Histogram::of(&serve, &site);
    let crowd: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let stream = TcpStream::connect(serve.address()).expect("the proxy listens");
            stream.set_read_timeout(Some(DEADLINE)).expect("a deadline");
            write!(&stream, "GET {} HTTP/1.1\r\nX: ", site.url(1, 1, "/open"))
                .expect("the proxy reads");
            stream
        })
        .collect();
    let begun = monotonic();
    until("all are inside", || serve.metric("courtesy_connections") >= CLIENTS);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::SeqCst) {
                // Some have been told by now that it is enough.
                crowd.iter().for_each(|mut stream| drop(stream.write(b"x")));
                thread::park_timeout(PAUSE);
            }
        });
        let beside = Histogram::of(&serve, &site);
        let inside = serve.metric("courtesy_connections");
        assert!(
            inside >= CLIENTS,
            "{inside} are left: some were let go before they had been looked at"
        );
        for stream in &crowd {
            let answer = rest(stream);
            assert!(answer.starts_with("HTTP/1.1 408 "), "{answer:?}");
        }
        let taken = begun.elapsed();
        over.store(true, Ordering::SeqCst);
        println!("{CLIENTS} slow heads: the last was told after {taken:?}, of {HEAD:?}");
        beside.assert_near(alone);
        assert!((HEAD - PAUSE..HEAD + SLACK).contains(&taken), "{taken:?}");
    });
    until("they are let go", || serve.metric("courtesy_connections") == 0);
    serve.stop();
}

/// Everything up to the end, or to the reset for what was sent behind it.
fn rest(mut stream: &TcpStream) -> String {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}
