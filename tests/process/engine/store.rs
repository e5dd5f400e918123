//! `courtesy store get` beside the shared engine.

use serde_json::Value;

use super::*;
use crate::testkit::processes::{Place, Site};

fn place(server: &RedisServer) -> Place {
    let url = format!("redis+unix://{}", server.socket().display());
    Place::new(&format!("[engine]\nurl = \"{url}\"\n"))
}

/// What is said of an origin, as JSON and for people.
fn get(place: &Place, origin: &str) -> (Value, String) {
    let json = place.run(&format!("store get --format json {origin}"));
    let text = place.run(&format!("store get {origin}"));
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    (serde_json::from_slice(&json.stdout).expect("JSON"), text)
}

#[test]
fn store_get_tells_what_the_engine_knows_beside_what_the_proxy_knows() {
    let mut server = RedisServer::start(&[]);
    let (one, other) = (place(&server), place(&server));
    let site = Site::with_rules("User-agent: *\nDisallow: /private\n");
    let origin = site.url("/");
    let (running, asked) = (one.serve(), other.serve());
    until("both have reached the engine", || running.is_ready() && asked.is_ready());
    assert_eq!(running.get(&site.url("/page")).status, 200);
    until("it is shared", || !get(&other, &origin).0.is_null());

    let (json, text) = get(&other, &origin);
    assert_eq!(json["states"], Value::Array(Vec::new()), "by itself it knows nothing");
    let known = &json["engine"];
    assert_eq!((&known["fault"], &known["states"][0]["state"]), (&Value::Null, &"rules".into()));
    assert_eq!(known["file"]["sha256"], get(&one, &origin).0["file"]["sha256"]);
    assert_eq!(known["proxies"], 1);
    assert!(text.contains("engine       rules (rfc9309), asked again"), "{text}");
    assert!(text.contains("1 proxy sends requests there"), "{text}");

    server.kill();
    until("the engine is away", || get(&one, &origin).1.contains("engine       away: "));
    let without = Place::new("");
    drop(without.serve());
    assert_eq!(get(&without, &origin).0, Value::Null);
}
