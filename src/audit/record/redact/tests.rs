use std::os::unix::fs::PermissionsExt;

use proptest::prelude::*;

use super::*;
use crate::audit::Record;

fn redactor() -> Redactor {
    under([7; KEY_BYTES])
}

fn under(key: [u8; KEY_BYTES]) -> Redactor {
    Redactor::new(&key, &Config { redact_query: true, ..Config::new("/log".into()) })
}

/// With `patterns` of paths, and queries as they are.
fn hiding(patterns: &[&str]) -> Redactor {
    let redact_paths = patterns.iter().map(|it| it.parse().unwrap()).collect();
    Redactor::new(&[7; KEY_BYTES], &Config { redact_paths, ..Config::new("/log".into()) })
}

/// Each hash as a `#`.
fn shape(url: &str) -> String {
    let mut parts = url.split('~');
    let mut shape = parts.next().unwrap().to_owned();
    for part in parts {
        assert!(part[..16].bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')), "{url}");
        shape.push('#');
        shape.push_str(&part[16..]);
    }
    shape
}

#[test]
fn values_go_and_names_stay() {
    for (url, expected) in [
        ("http://a.example/?q=secret&page=2&q=", "http://a.example/?q=#&page=#&q="),
        ("http://a.example/p?secret", "http://a.example/p?#"),
        ("http://a.example/p?a&b=1&&=x&c=d=e?f", "http://a.example/p?#&b=#&&=#&c=#"),
        ("http://a.example/p?", "http://a.example/p?"),
        ("http://a.example/p;x=1", "http://a.example/p;x=1"),
        ("a.example:443", "a.example:443"),
    ] {
        assert_eq!(shape(&redactor().url(url)), expected);
    }
}

#[test]
fn a_url_as_it_was_received_loses_its_values_too() {
    let received = |bytes: &[u8]| shape(&redactor().url(&Record::text(bytes)));
    let e = "é".as_bytes();
    assert_eq!(
        received(&[b"http://a.example/", e, b"?", e, b"=<x>&\\"].concat()),
        "http://a.example/é?é=#&#"
    );
    assert_eq!(received("http://a.example/a…?q=é…&r".as_bytes()), "http://a.example/a…?q=#&#");
    // Whatever looks like the mark of a cut loses what is behind it.
    let forged = received("http://a.example/?q=é&r=1…[7 octets, s=secret".as_bytes());
    assert_eq!(forged, "http://a.example/?q=#&r=#…[7 octets, #]");
    let long = ["http://a.example/?q=é&secret=".as_bytes(), &[b's'; 9000]].concat();
    assert_eq!(received(&long), "http://a.example/?q=#&secret=#…[9030 octets, #]");
}

#[test]
fn equal_values_look_equal_under_one_key_and_not_under_another() {
    let one = redactor().url("http://a.example/?q=1&r=1&s=2");
    let hashes: Vec<_> = one.split('~').skip(1).map(|part| &part[..16]).collect();
    assert_eq!(hashes[0], hashes[1]);
    assert_ne!(hashes[0], hashes[2]);
    assert_ne!(one, under([8; KEY_BYTES]).url("http://a.example/?q=1&r=1&s=2"));
}

#[test]
fn a_long_url_keeps_its_length_and_loses_the_digest_that_would_tell() {
    let long = format!("http://a.example/?q={}", "s".repeat(9000));
    let recorded = Record::url(long.as_bytes());
    assert_eq!(shape(&redactor().url(&recorded)), "http://a.example/?q=#…[9020 octets, #]");
    let many = format!("http://a.example/?{}", "a&".repeat(4000));
    let redacted = redactor().url(&Record::url(many.as_bytes()));
    assert!(redacted.contains("…[8018 octets, ~"), "{redacted}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_value_survives_and_the_bound_holds(
        pairs in prop::collection::vec(("[a-z]{0,3}", "[A-Z%+=?]{4,9}"), 1..200),
        padding in 0..9000usize,
    ) {
        let query: Vec<_> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let url = format!("http://a.example/{}?{}", "p".repeat(padding), query.join("&"));
        let redacted = redactor().url(&Record::url(url.as_bytes()));
        prop_assert!(!redacted.bytes().any(|byte| byte.is_ascii_uppercase()), "{}", redacted);
        // `…[8192 octets, ~0123456789abcdef]` at most is added.
        prop_assert!(redacted.len() <= RECORD_URL_BYTES_MAX + 50);
    }
}

#[test]
fn the_key_is_made_once_for_nobody_else_and_a_bad_one_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(KEY_NAME);
    let config = Config { redact_query: true, ..Config::new(dir.path().into()) };
    let redacted =
        || Redactor::open(&config).map(|redactor| redactor.unwrap().url("http://a.example/?1"));
    let first = redacted().unwrap();
    assert_eq!(redacted().unwrap(), first);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
    assert!(redacted().unwrap_err().to_string().contains("chmod 600"));
    fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    fs::write(&path, "short").unwrap();
    let refused = redacted().unwrap_err().to_string();
    assert!(refused.contains("5 bytes") && refused.contains("remove it"), "{refused}");
    fs::remove_file(&path).unwrap();
    assert_ne!(redacted().unwrap(), first);
}

#[test]
fn parts_of_paths_go_and_the_rest_stays() {
    let redactor = hiding(&["/users/*/", "/users/*/orders/*", "/mail/*@*/"]);
    for (url, expected) in [
        ("http://a.example/users/jane/", "http://a.example/users/#/"),
        ("http://a.example/users/jane/orders/5?q=1", "http://a.example/users/#/orders/#?q=1"),
        ("http://a.example/mail/jane@a.example/x", "http://a.example/mail/#@#/x"),
        ("http://users/jane/", "http://users/jane/"),
        ("http://a.example/open?to=/users/jane/", "http://a.example/open?to=/users/jane/"),
        ("/users/jane/x", "/users/#/x"),
        ("a.example:443", "a.example:443"),
    ] {
        assert_eq!(shape(&redactor.url(url)), expected);
    }
    let overlapping = hiding(&["/a/*/c", "/a/b*d"]);
    assert_eq!(shape(&overlapping.url("http://a.example/a/bbb/c/d")), "http://a.example/a/#d");
}

#[test]
fn a_cut_url_loses_its_digest_where_something_of_its_path_is_hidden() {
    let long = format!("http://a.example/users/{}", "s".repeat(9000));
    let recorded = Record::url(long.as_bytes());
    let redacted = hiding(&["/users/*/orders"]).url(&recorded);
    assert_eq!(shape(&redacted), "http://a.example/users/#…[9023 octets, #]");
    assert_eq!(hiding(&["/other/"]).url(&recorded), recorded, "nothing is hidden");
}

#[test]
fn clients_are_hashed_or_left_out() {
    let of = |clients, name: Option<&str>| {
        let config = Config { clients, ..Config::new("/log".into()) };
        let mut client = Client::at([10, 0, 0, 7], name.map(str::to_owned));
        Redactor::new(&[7; KEY_BYTES], &config).client(&mut client);
        client
    };
    assert_eq!(of(KeptClients::Plain, None), Client::at([10, 0, 0, 7], None));
    assert_eq!(of(KeptClients::None, Some("jane")), Client { address: None, name: None });
    let keyed = of(KeptClients::Keyed, Some("jane"));
    assert_eq!(keyed, of(KeptClients::Keyed, Some("jane")), "equal clients look equal");
    assert_ne!(keyed.name, of(KeptClients::Keyed, Some("john")).name);
    let Client { address: Some(address), name: Some(name) } = keyed else { panic!() };
    assert_eq!((&*shape(&address.to_string()), &*shape(&name)), ("#", "#"));
}
