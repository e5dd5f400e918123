//! A server full of what others have written, and one that refuses: what is disallowed is denied as
//! ever.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::*;
use crate::testkit::processes::{Reply, Robots, Site};

/// What may stand at a key, by the command that sets it.
const VALUES: [&[&str]; 7] = [
    &["SET", "KEY", "garbage"],
    &["SET", "KEY", "\u{1}\0\0\0\0\0\0\0\u{7}{\"known\":{}}"],
    &["SETRANGE", "KEY", "3000000", "x"],
    &["RPUSH", "KEY", "a"],
    &["HSET", "KEY", "n", "99999999999999999999", "h", "1e300", "g:*", "-1 nan"],
    &["ZADD", "KEY", "inf", "a"],
    &["XADD", "KEY", "*", "a", "b"],
];
/// This one allows everything; all others have a private part.
const OPEN: Ipv4Addr = Ipv4Addr::new(127, 9, 9, 9);

fn site_of_all() -> Site {
    Site::start(|address| {
        let rule = if address == OPEN { "Allow: /" } else { "Disallow: /private/" };
        Robots::File(format!("User-agent: *\n{rule}\n"))
    })
}

fn key(site: &Site, address: Ipv4Addr, name: &str) -> String {
    let url = site.url_at(address, "/");
    format!("courtesy:1:{{{}}}:{name}", url.trim_end_matches('/'))
}

/// A proxy whose values are sealed.
fn sealed(server: &RedisServer) -> (Serve, Place) {
    let place = Place::new("");
    let seal = place.path().join("seal");
    fs::write(&seal, [7; 32]).expect("a directory that can be written to");
    fs::set_permissions(&seal, Permissions::from_mode(0o600)).expect("a file of ours");
    let engine = settings(&server.socket());
    let seal = format!("[engine]\nseal_key_file = \"{}\"", seal.display());
    place.set(&engine.replacen("[engine]", &seal, 1));
    (serve(&place), place)
}

#[track_caller]
fn denies(proxy: &Serve, site: &Site, address: Ipv4Addr, what: &str) {
    let status = |path| proxy.get(&site.url_at(address, path)).status;
    assert_eq!((status("/private/"), status("/page")), (403, 200), "{what}");
}

#[test]
fn whatever_stands_at_the_keys_of_an_origin_what_is_disallowed_is_denied() {
    let (server, site) = (RedisServer::start(&[]), site_of_all());
    let place = Place::new(&settings(&server.socket()));
    let proxy = serve(&place);
    for (number, set) in VALUES.into_iter().enumerate() {
        let address = Ipv4Addr::new(127, 1, 1, 1 + number as u8);
        for name in ["known", "lease", "pace", "presence"] {
            let key = key(&site, address, name);
            let words = set.iter().map(|word| if *word == "KEY" { &key } else { *word });
            server.command(&words.collect::<Vec<_>>());
        }
        denies(&proxy, &site, address, &format!("{set:?}"));
        assert_eq!(site.fetches_at(address), 1, "{set:?}");
    }
}

#[test]
fn what_is_known_of_one_origin_is_not_taken_for_another_under_a_seal() {
    let (server, site) = (RedisServer::start(&[]), site_of_all());
    let (proxy, _place) = sealed(&server);
    assert_eq!(proxy.get(&site.url_at(OPEN, "/private/")).status, 200);
    let open = key(&site, OPEN, "known");
    until("it is shared", || server.command(&["EXISTS", &open]) == Reply::Int(1));
    let other = Ipv4Addr::new(127, 1, 1, 1);
    let copied = server.command(&["COPY", &open, &key(&site, other, "known")]);
    assert_eq!(copied, Reply::Int(1));
    denies(&proxy, &site, other, "a copy");
    assert_eq!(site.fetches_at(other), 1);
}

#[test]
fn a_file_that_was_put_in_place_of_another_is_not_obeyed() {
    let (server, site) = (RedisServer::start(&[]), site_of_all());
    let [(first, _a), (second, _b)] = [(); 2].map(|()| sealed(&server));
    let other = Ipv4Addr::new(127, 1, 1, 1);
    denies(&first, &site, other, "the first");
    let known = key(&site, other, "known");
    until("it is shared", || server.command(&["EXISTS", &known]) == Reply::Int(1));
    let files = server.command(&["KEYS", "courtesy:1:file:*"]);
    let [file] = files.texts()[..] else { panic!("{files:?}") };
    let file = file.to_owned();
    assert_eq!(first.get(&site.url_at(OPEN, "/private/")).status, 200);
    let open = || {
        let files = server.command(&["KEYS", "courtesy:1:file:*"]);
        files.texts().into_iter().find(|it| *it != file).map(str::to_owned)
    };
    until("the other file is shared", || open().is_some());
    let copied = server.command(&["COPY", &open().expect("it is there"), &file, "REPLACE"]);
    assert_eq!(copied, Reply::Int(1));
    denies(&second, &site, other, "another file");
    assert_eq!(site.fetches_at(other), 2, "it is fetched again");
}

#[test]
fn a_server_that_refuses_is_named_and_what_is_disallowed_is_denied() {
    let server = RedisServer::start(&["--requirepass", "right-secret"]);
    let site = site_of_all();
    let place = Place::new("");
    let password = place.path().join("password");
    fs::write(&password, "wrong-secret").expect("a directory that can be written to");
    fs::set_permissions(&password, Permissions::from_mode(0o600)).expect("a file of ours");
    let engine = settings(&server.socket());
    let file = format!("[engine]\npassword_file = \"{}\"", password.display());
    place.set(&engine.replacen("[engine]", &file, 1));
    let proxy = place.serve();
    let ready = || proxy.admin("/readyz?verbose").body;
    until("the fault is named", || ready().contains("authentication failed"));
    denies(&proxy, &site, Ipv4Addr::LOCALHOST, "a wrong password");
    assert!(!ready().contains("secret"), "{}", ready());
    let said = proxy.stop();
    assert!(said.contains("authentication failed") && !said.contains("secret"), "{said}");
}

/// The longest reply that is read, with the default settings, is below this.
const REPLY_MAX: usize = 1_300_000;

/// A server that answers each command with the same bytes, again and again, for as long as they are
/// read. The number of bytes that were taken from it.
fn says_only(said: &'static [u8]) -> (Address, Arc<AtomicUsize>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let taken = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&taken);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut command = [0; 4096];
            if !matches!(stream.read(&mut command), Ok(1..)) {
                continue;
            }
            while let Ok(written) = stream.write(said) {
                count.fetch_add(written, Ordering::Relaxed);
                if said.len() < 1000 {
                    break;
                }
            }
        }
    });
    (Address::Tcp { host: "127.0.0.1".into(), port, is_tls: false }, taken)
}

fn at(address: Address) -> RedisConfig {
    RedisConfig { timeout: TIMEOUT, connect_timeout: TIMEOUT, ..RedisConfig::at(address) }
}

#[test]
fn a_reply_that_is_longer_than_any_operation_asks_for_ends_the_connection() {
    const ENDLESS: &[u8] = &[b'a'; 1 << 16];
    const LONG: &[u8] = b"$1900000000\r\n";
    for (said, what) in
        [(&b"+"[..], "a line without end"), (LONG, "a string"), (b"*99999999\r\n", "an array")]
    {
        let endless: &'static [u8] = Box::leak([said, ENDLESS].concat().into_boxed_slice());
        let endless = if said == b"+" { endless } else { said };
        let (address, _) = says_only(endless);
        let error = fault(&start("a", at(address)), ErrorKind::TooLarge);
        assert!(error.detail.contains("no operation asks for"), "{what}: {error}");
    }
}

#[test]
fn a_reply_without_end_is_not_kept() {
    let endless: &'static [u8] =
        Box::leak([&b"+"[..], &[b'a'; 1 << 16]].concat().into_boxed_slice());
    let (address, taken) = says_only(endless);
    let engine = start("a", at(address));
    fault(&engine, ErrorKind::TooLarge);
    drop(engine);
    // What the sockets hold comes to it.
    let taken = taken.load(Ordering::Relaxed);
    assert!(taken < 8 * REPLY_MAX, "{taken} bytes");
}

#[test]
fn what_is_no_server_of_this_kind_is_named_with_what_to_set() {
    // TLS, which closes a connection that begins otherwise, with an alert or without a word.
    for (said, words) in [
        (&b"\x15\x03\x03\x00\x02\x02\x46"[..], "write rediss://"),
        (b"", "write rediss://"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "answers as an HTTP server"),
        (b"-MOVED 3999 10.0.0.1:7001\r\n", "set engine.cluster = true"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "no reply of a Redis server"),
    ] {
        let engine = start("a", at(says_only(said).0));
        let mut error = None;
        until(words, || {
            error = engine.status().last_error;
            error.as_ref().is_some_and(|error| error.detail.contains(words))
        });
        assert!(!engine.status().is_up, "{error:?}");
    }
}
