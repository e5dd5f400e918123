//! `courtesy engine members`, and what proxies and `courtesy doctor` say of those that are missing or have other
//! settings.

use serde_json::Value;

use super::*;
use crate::testkit::processes::{Place, Relay};

/// A place of a proxy of this name.
fn named(server: &RedisServer, name: &str, more: &str) -> Place {
    let settings = settings(&server.socket());
    Place::new(&format!("{settings}name = \"{name}\"\n{more}"))
}

/// What `courtesy engine members --json` says.
#[track_caller]
fn listed(place: &Place) -> Value {
    let output = place.run("engine members --json");
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// One member of each proxy.
fn of_each<'a>(roster: &'a Value, member: &str) -> Vec<&'a Value> {
    let proxies = roster["proxies"].as_array().expect("a list").iter();
    proxies.map(|proxy| &proxy[member]).collect()
}

#[track_caller]
fn until_states(place: &Place, states: &[&str]) -> Value {
    let mut roster = Value::Null;
    until(&format!("the proxies are {states:?}"), || {
        roster = listed(place);
        of_each(&roster, "state") == states
    });
    roster
}

#[test]
fn members_are_listed_and_one_that_is_killed_is_missing_until_it_is_back() {
    let server = RedisServer::start(&[]);
    let other = "[pace]\ndelay = \"3s\"\n";
    let places =
        [("a", ""), ("b", ""), ("c", other)].map(|(name, more)| named(&server, name, more));
    let watching = Place::new(&settings(&server.socket()));
    let none = watching.run("engine members");
    assert!(none.status.success() && none.stdout.is_empty(), "{none:?}");
    assert!(String::from_utf8_lossy(&none.stderr).contains("no proxy with engine.prefix"));

    // One after the other: their ranks are 0, 1 and 2.
    let [a, b, c] = places.each_ref().map(|place| {
        let proxy = serve(place);
        until("it has a rank", || proxy.metric("courtesy_engine_part") > 0);
        proxy
    });
    let roster = until_states(&watching, &["live"; 3]);
    assert_eq!(of_each(&roster, "name"), ["a", "b", "c"]);
    assert_eq!(of_each(&roster, "part"), [1, 2, 3]);
    assert_eq!(of_each(&roster, "same_settings"), [true, true, false]);
    assert_eq!(of_each(&roster, "format"), [1; 3]);
    assert_eq!((&roster["cells"], &roster["cells_free"]), (&Value::from(4), &Value::from(0)));
    assert_eq!((&roster["missing"], &roster["free_until"]), (&Value::from(0), &Value::Null));
    until("it has other settings than most", || c.metric("courtesy_engine_settings_differ") == 1);
    until("the heads of all logs are seen", || {
        of_each(&listed(&watching), "version") == [env!("CARGO_PKG_VERSION"); 3]
    });

    b.kill();
    let roster = until_states(&watching, &["live", "silent", "live"]);
    assert_eq!(roster["missing"], 1);
    assert!(
        roster["free_until"].is_string()
            && roster["free_until"] == roster["proxies"][1]["free_until"]
    );
    let free = roster["cells_free"].as_u64().expect("a number");
    assert!(free == 1 || free == 2, "it may have known two: {roster}");
    let text = watching.run("engine members");
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    let said = format!("1 of 3 proxies is missing: its cells ({free} of 4) are left free until ");
    assert!(text.contains(&said) && text.contains("2 of 4  b  "), "{text}");
    assert!(text.contains("1 of 2 live proxies has other settings than these"), "{text}");
    until("it is missed", || a.metric("courtesy_engine_missing") > 0);
    let found = watching.run("doctor --json wget");
    let found = String::from_utf8_lossy(&found.stdout).into_owned();
    for said in ["1 of 3 proxies is missing", "1 of 2 live proxies has other settings"] {
        assert!(found.contains(said), "{found}");
    }

    let b = serve(&places[1]);
    until_states(&watching, &["live"; 3]);
    until("none is missing", || a.metric("courtesy_engine_missing") == 0);
    b.stop();
    let roster = until_states(&watching, &["live"; 2]);
    assert_eq!(of_each(&roster, "name"), ["a", "c"], "who signs off is not missed");
    let (a, c) = (a.stop(), c.stop());
    for said in ["proxies of the engine are missing", "no proxy of the engine is missing any more"]
    {
        assert!(a.contains(said), "{said}: {a}");
    }
    assert!(c.contains("half or more of the proxies of the engine have other settings"), "{c}");
}

#[test]
fn whatever_stands_at_the_keys_of_heartbeats_is_listed_safely() {
    let server = RedisServer::start(&[]);
    let place = Place::new(&settings(&server.socket()));
    let key = |name: &str| format!("courtesy:1:{{cluster}}:{name}");
    let put = |words: &[&[u8]]| {
        server.command(words);
    };
    let (ranks, seen) = (key("ranks"), key("seen"));
    let (ranks, seen) = (ranks.as_bytes(), seen.as_bytes());
    let evil = b"\x1b[2J\xc2\x9b2J \xe2\x80\xaeevil 1f".as_slice();
    for (score, name) in [
        (b"1".as_slice(), evil),
        (b"1e300", b"far"),
        (b"inf", b"infinite"),
        (b"-3", b"negative"),
        (b"0.5", b"part"),
        (b"2", b"not \xff text"),
        (b"3", b"?3"),
    ] {
        put(&[b"ZADD", ranks, score, name]);
        put(&[b"ZADD", seen, b"9007199254740991", name]);
    }
    put(&[b"ZADD", ranks, b"4", b"long"]);
    put(&[b"ZADD", ranks, b"5", &[b'n'; 5000]]);
    put(&[b"SET", key("members").as_bytes(), b"garbage"]);
    put(&[b"RPUSH", key("about").as_bytes(), b"a"]);
    put(&[b"HSET", key("alone").as_bytes(), b"a", b"b"]);
    put(&[b"ZADD", key("widths").as_bytes(), b"-inf", evil]);
    put(&[b"HSET", key("heads").as_bytes(), b"a", b"1 2 3", b"\xff", b"1 2 3 4 \x1b[2J name"]);
    for words in ["engine members", "engine members --json"] {
        let output = place.run(words);
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8(output.stdout).expect("text");
        let is_control = |it: char| it.is_control() && it != '\n' || it == '\u{202e}';
        assert!(!said.contains(is_control) && said.contains("evil"), "{said:?}");
        assert!(said.len() < 5000, "{said}");
    }
    let roster = listed(&place);
    // Those that are not silent, and the parts of others: what is none is as absent.
    assert_eq!(of_each(&roster, "part"), [2, 4, 5, 6]);
    assert_eq!(of_each(&roster, "state"), ["live", "live", "silent", "silent"]);

    // As many as there can be.
    let many = "for at = 10, 16000 do redis.call('ZADD', KEYS[1], at, 'proxy-' .. at) end";
    put(&[b"EVAL", many.as_bytes(), b"1", ranks]);
    let roster = listed(&place);
    assert_eq!(of_each(&roster, "name").len(), 15_995);
    assert_eq!(roster["cells"], 16_384);
    for name in ["ranks", "seen", "widths", "heads"] {
        put(&[b"SET", key(name).as_bytes(), b"garbage"]);
    }
    assert_eq!(listed(&place)["proxies"], Value::Array(Vec::new()));
}

#[test]
fn without_an_engine_or_its_rights_members_are_not_listed() {
    let unset = Place::new("").run("engine members");
    assert_eq!(unset.status.code(), Some(78), "{unset:?}");
    assert!(String::from_utf8_lossy(&unset.stderr).contains("no shared engine is set"));
    let gone = Place::new("[engine]\nurl = \"redis+unix:///nowhere/redis.sock\"\n");
    let gone = gone.run("engine members --json");
    assert_eq!(gone.status.code(), Some(69), "{gone:?}");
    assert!(String::from_utf8_lossy(&gone.stderr).contains("connection failed"), "{gone:?}");
    let server = RedisServer::start(&[]);
    server.command(&["ACL", "SETUSER", "default", "-zrange"]);
    let refused = Place::new(&settings(&server.socket())).run("engine members");
    assert_eq!(refused.status.code(), Some(69), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("rights are missing"), "{refused:?}");
}

#[test]
fn doctor_names_an_engine_that_is_too_far_for_its_clock() {
    let server = RedisServer::start(&[]);
    let relay = Relay::to(&server.socket());
    relay.set_delay(Duration::from_millis(80));
    let found = Place::new(&settings(&relay.socket())).run("doctor --json wget");
    let found: Value = serde_json::from_slice(&found.stdout).expect("JSON");
    let findings = found.as_array().expect("a list");
    let clock = findings.iter().find(|it| it["subject"] == "shared engine, clock");
    let clock = clock.expect("there is one");
    assert_eq!(clock["state"], "bad", "{clock}");
    assert!(clock["remedy"].as_str().is_some_and(|it| it.contains("within 100 ms")), "{clock}");
}
