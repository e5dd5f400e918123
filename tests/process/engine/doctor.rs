//! `courtesy doctor` and the shared engine: what is well, what is not, and what to do.

use serde_json::Value;

use super::*;
use crate::testkit::processes::Place;

/// The user of an operator, as the page says.
const RIGHTS: &str = "+hello +auth +ping +info +time +client|setname +script|load +eval +evalsha +get \
    +set +getrange +strlen +del +pttl +pexpire +hget +hset +hmget +hgetall +hdel +hexists +hlen +hscan \
    +hrandfield +zadd +zrem +zremrangebyscore +zcard +zcount +zrange +zscore +publish +subscribe +unsubscribe &courtesy:*";

fn place(server: &RedisServer, more: &str) -> Place {
    let url = format!("url = \"redis+unix://{}\"", server.socket().display());
    Place::new(&format!("[engine]\n{url}\n{more}"))
}

/// The findings about the engine, by their subjects.
fn findings(place: &Place) -> Vec<Value> {
    let output = place.run("doctor --json wget");
    let all: Vec<Value> = serde_json::from_slice(&output.stdout).expect("JSON");
    let is_of_engine = |finding: &Value| {
        finding["subject"].as_str().is_some_and(|subject| subject.starts_with("shared engine"))
    };
    all.into_iter().filter(is_of_engine).collect()
}

#[track_caller]
fn is(finding: &Value, state: &str, detail: &str, remedy: &str) {
    assert_eq!(finding["state"], state, "{finding}");
    assert!(finding["detail"].as_str().is_some_and(|text| text.contains(detail)), "{finding}");
    let said = finding["remedy"].as_str().unwrap_or_default();
    assert!(said.contains(remedy), "{finding}");
}

fn with_user(server: &RedisServer, rights: &str) -> Place {
    let words = "ACL SETUSER courtesy reset on >secret ~courtesy:* -@all";
    let words: Vec<_> = words.split(' ').chain(rights.split_whitespace()).collect();
    assert_eq!(server.command(&words).text(), "OK");
    let file = server.dir().join("password");
    std::fs::write(&file, "secret\n").unwrap();
    let only_owner = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&file, only_owner).unwrap();
    let more = format!("user = \"courtesy\"\npassword_file = \"{}\"\n", file.display());
    place(server, &more)
}

#[test]
fn an_engine_that_is_well_is_said_to_be_and_keeps_nothing_of_the_trial() {
    let server = RedisServer::start(&[]);
    let found = findings(&with_user(&server, RIGHTS));
    let [engine, operations, memory, clock, holds, proxies] = found.as_slice() else {
        panic!("{found:?}")
    };
    is(engine, "well", "can be reached", "");
    is(operations, "well", "each script ran", "");
    is(memory, "well", "forgets nothing", "");
    is(clock, "well", "this machine's", "");
    is(holds, "well", "at once", "");
    is(proxies, "well", "none is there", "");
    assert_eq!(server.command(&["KEYS", "*"]).texts(), Vec::<&str>::new());
}

#[test]
fn rights_that_are_missing_are_named_all_at_once() {
    let server = RedisServer::start(&[]);
    let rights = RIGHTS.replace("+hrandfield ", "").replace("+pexpire ", "").replace("+hscan ", "");
    let found = findings(&with_user(&server, &rights));
    is(&found[1], "bad", "rights are missing", "docs/operate/cluster.md");
    let said = found[1]["detail"].as_str().unwrap_or_default();
    for operation in [
        "lookup: ",
        "reserve_slots: ",
        "set_hold: ",
        "announce_presence: ",
        "heartbeat: ",
        "heads: ",
    ] {
        assert!(said.contains(operation), "{operation}{said}");
    }
}

#[test]
fn a_user_who_may_not_publish_learns_what_that_costs() {
    let server = RedisServer::start(&[]);
    let rights = RIGHTS.replace("+publish +subscribe +unsubscribe &courtesy:*", "resetchannels");
    let found = findings(&with_user(&server, &rights));
    is(&found[1], "well", "each script ran", "");
    is(&found[4], "known", "within 15 s", "+publish");
}

#[test]
fn a_server_that_forgets_refuses_or_is_away_is_named_with_a_remedy() {
    let server = RedisServer::start(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    let found = findings(&place(&server, ""));
    is(&found[2], "bad", "may forget holds and outages", "noeviction");
    server.command(&["CONFIG", "SET", "requirepass", "secret"]);
    // `RedisServer` has no password: what follows is asked by the program alone.
    is(&findings(&place(&server, ""))[0], "bad", "authentication failed", "engine.password_file");
    let mut gone = RedisServer::start(&[]);
    gone.kill();
    is(&findings(&place(&gone, ""))[0], "bad", "connection failed", "start the server");
}

#[test]
fn a_secret_file_that_others_can_read_is_named() {
    let server = RedisServer::start(&[]);
    let file = server.dir().join("exposed");
    std::fs::write(&file, "secret\n").unwrap();
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(&file, readable).unwrap();
    let place = place(&server, &format!("password_file = \"{}\"\n", file.display()));
    is(&findings(&place)[0], "bad", "engine.password_file", "by their owner alone");
}
