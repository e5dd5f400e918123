//! A server full of what others have written, and one that refuses: what is disallowed is denied as
//! ever.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use courtesy::engine::{
    LeaseToken, LookupOutcome, LookupRequest, PublishRequest, SealKey, SlotsRequest,
};
use sha2::Digest;

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
    RedisConfig { timeout: TIMEOUT, ..RedisConfig::at(address) }
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
        (b"-MOVED 3999 10.0.0.1:7001\r\n", "allow its user CLUSTER SLOTS"),
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

fn slots<'a>(origin: &'a courtesy::types::origin::Origin, left: Duration) -> SlotsRequest<'a> {
    SlotsRequest {
        origin,
        group: "*",
        lane_delay: Duration::ZERO,
        site_delay: Duration::from_secs(30),
        cell_delay: Duration::from_secs(30),
        slack: Duration::from_millis(100),
        horizon: Duration::from_secs(120),
        count: 1,
        left,
        missed: None,
    }
}

/// A tenant of the same server removes or changes what proxies have reserved.
#[test]
fn starts_that_another_program_removes_hasten_nothing() {
    let server = RedisServer::start(&[]);
    let (one, other) = (reached("a", on(&server)), reached("b", on(&server)));
    let names = ["removed.example", "past.example", "group.example", "type.example"];
    let key = |name: &str| format!("courtesy:1:{{https://{name}}}:pace");
    for (name, command) in names.into_iter().zip([
        &["DEL", "KEY"][..],
        &["HSET", "KEY", "g:*", "1 1"],
        &["HDEL", "KEY", "g:*"],
        &["SET", "KEY", "x"],
    ]) {
        let origin = site(name);
        let reserve =
            |engine: &RedisEngine| wait(engine.reserve_slots(slots(&origin, Duration::ZERO)));
        // What was before the data began is not known: at most a delay.
        let first = reserve(&one).expect("a slot").slots[0];
        let second = reserve(&other).expect("a slot").slots[0];
        assert!(first <= Duration::from_secs(30), "{name}: {first:?}");
        assert!(second > first + Duration::from_secs(20), "{name}: {first:?} {second:?}");
        let key = key(name);
        let words: Vec<_> =
            command.iter().map(|word| if *word == "KEY" { key.as_str() } else { word }).collect();
        server.command(&words);
        for attempt in 0..3 {
            let error = reserve(&one).expect_err("it was removed");
            assert_eq!(error.kind, ErrorKind::Removed, "{name}: {attempt}");
        }
        // The other one finds what it had reserved gone, too.
        assert_eq!(reserve(&other).expect_err("removed").kind, ErrorKind::Removed, "{name}");
    }
    // A server that has lost all is no such program.
    server.command(&["FLUSHALL"]);
    get(one.heartbeat());
    assert!(get(one.reserve_slots(slots(&site(names[0]), Duration::ZERO))).slots.len() == 1);
}

/// What one tenant may write beside the keys that proxies read, operation by operation.
#[test]
fn what_an_engine_says_has_the_bounds_of_the_proxy() {
    let server = RedisServer::start(&[]);
    let engine = reached("a", on(&server));
    let origin = site("example.com");
    let of = |name: &str| format!("courtesy:1:{{https://example.com}}:{name}");
    // A hold for ever, with a status that is none.
    server.command(&["HSET", &of("pace"), "h", "9007199254740991", "s", "999", "c", "back_off"]);
    let hold = get(engine.announce_presence(&origin)).hold.expect("a hold");
    assert_eq!((hold.left, hold.status), (Duration::from_secs(3600), 503));
    // Members that are none: each proxy beats as often as before, and goes when it is gone.
    let members: Vec<_> =
        (0..20_000).flat_map(|it| ["9e15".to_owned(), format!("x{it}")]).collect();
    for some in members.chunks(4000) {
        let words = ["ZADD", "courtesy:1:{cluster}:members"].map(str::to_owned);
        server.command(&words.into_iter().chain(some.iter().cloned()).collect::<Vec<_>>());
    }
    assert_eq!(get(engine.heartbeat()).members, 1, "of another time than any clock's");
    // A lease of another that lasts for ever is none.
    server.command(&["SET", &of("lease"), "1 9007199254740991 x"]);
    let request = LookupRequest {
        origin: &origin,
        have: LeaseToken::default(),
        may_fetch: true,
        is_used: false,
    };
    let LookupOutcome::Lease(token) = get(engine.lookup(request)).outcome else {
        panic!("no lease")
    };
    get(engine.publish(PublishRequest { origin: &origin, token, value: b"known" }));
}

/// With a key, a value that was true once is not taken up by who knows a later one.
#[test]
fn an_old_value_under_its_seal_is_not_taken_back() {
    let server = RedisServer::start(&[]);
    let seal_key = Some(SealKey::new(&[7; 32]));
    let engine = reached("a", RedisConfig { seal_key, ..on(&server) });
    let origin = site("example.com");
    let key = "courtesy:1:{https://example.com}:known";
    let lookup = |have| {
        let request = LookupRequest { origin: &origin, have, may_fetch: true, is_used: false };
        get(engine.lookup(request)).outcome
    };
    let publish = |have, value: &[u8]| {
        let LookupOutcome::Lease(token) = lookup(have) else { panic!("no lease") };
        get(engine.publish(PublishRequest { origin: &origin, token, value }));
        token
    };
    let old = publish(LeaseToken::default(), b"old");
    assert_eq!(server.command(&["COPY", key, "kept"]), Reply::Int(1));
    let new = publish(old, b"new");
    assert_eq!(server.command(&["COPY", "kept", key, "REPLACE"]), Reply::Int(1));
    assert!(matches!(lookup(new), LookupOutcome::Lease(token) if token > new));
    // With the version of a later one it has a wrong seal.
    server.command(&[&b"SETRANGE"[..], key.as_bytes(), b"1", &(new.0 + 1).to_be_bytes()]);
    assert!(matches!(lookup(LeaseToken::default()), LookupOutcome::Lease(token) if token > new));
    assert!(engine.stats().counts().damaged > 0);
}

/// What was asked for once lives a day, and what is asked for again for as long as is set.
#[test]
fn a_client_that_asks_for_ever_new_origins_does_not_fill_the_server() {
    const DAY: i64 = 24 * 60 * 60 * 1000;
    let server = RedisServer::start(&[]);
    let (one, other) = (reached("a", on(&server)), reached("b", on(&server)));
    let origin = site("example.com");
    let left = |key: &str| match server.command(&["PTTL", key]) {
        Reply::Int(left) => left,
        other => panic!("{other:?}"),
    };
    let lookup = |engine: &RedisEngine, have| {
        let request = LookupRequest { origin: &origin, have, may_fetch: true, is_used: true };
        get(engine.lookup(request)).outcome
    };
    let LookupOutcome::Lease(token) = lookup(&one, LeaseToken::default()) else {
        panic!("no lease")
    };
    let content = bytes::Bytes::from_static(b"User-agent: *\n");
    let sha256 = sha2::Sha256::digest(&content).into();
    get(one.put_file(sha256, content.clone()));
    get(one.publish(PublishRequest { origin: &origin, token, value: b"known" }));
    let known = "courtesy:1:{https://example.com}:known";
    let files = server.command(&["KEYS", "courtesy:1:file:*"]);
    let file = files.texts()[0].to_owned();
    assert!(left(known) <= DAY && left(&file) <= 2 * DAY, "{} {}", left(known), left(&file));
    assert!(matches!(lookup(&other, LeaseToken::default()), LookupOutcome::Newer { .. }));
    assert_eq!(get(other.get_file(sha256)), Some(content));
    until("both are kept", || left(known) > 40 * DAY && left(&file) > 40 * DAY);
}
