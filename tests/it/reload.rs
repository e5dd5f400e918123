//! Other settings for a running proxy: the next request obeys them, on whatever connection it comes,
//! and what is under way ends as it began.

use std::time::Duration;

use courtesy::config::{FetchAs, HttpsMode, Mode, ProfileName};

use crate::testkit::parties::{Origin, Proxy, Script, answer, ok, until};

const RULES: &str = "User-agent: *\nDisallow: /private/\n";

#[test]
fn a_kept_connection_obeys_other_settings_with_its_next_request() {
    let (origin, secure) = (Origin::with_robots(RULES), Origin::secure().robots(RULES));
    let proxy = Proxy::before(&[&secure], |_| {});
    let (mut plain, mut inside) = (proxy.client(), proxy.https(&secure.authority()));
    let h2 = proxy.h2(&secure.authority());
    let mut statuses = || {
        let plain = plain.get(&origin.url("/private/")).status();
        [plain, inside.get("/private/").status(), h2.get("/private/").status]
    };
    assert_eq!(statuses(), [403; 3]);
    proxy.change(|settings| settings.robots.mode = Mode::Observe);
    assert_eq!(statuses(), [200; 3]);
    proxy.change(|settings| {
        settings.robots.mode = Mode::Enforce;
        settings.deny.status = http::StatusCode::GONE;
    });
    assert_eq!(statuses(), [410; 3]);
    assert_eq!((origin.count("/robots.txt"), secure.count("/robots.txt")), (1, 1));
}

#[test]
fn a_request_under_way_ends_as_it_began() {
    let origin =
        Origin::start().on("/slow", Script::default().hold().send(answer(200, "", "late")));
    let proxy = Proxy::start();
    let mut client = proxy.client();
    client.ask("GET", &origin.url("/slow"), "");
    origin.wait_until("the request is there", |log| {
        log.requests.iter().any(|it| it.path() == "/slow")
    });
    proxy.change(|settings| settings.egress.deny = vec!["127.0.0.0/8".parse().expect("a block")]);
    origin.release();
    assert_eq!(client.read().text(), "late");
    client.get(&origin.url("/slow")).assert_error(403, "destination_ip_prohibited");
    assert_eq!(origin.count("/slow"), 1);
}

/// Connections to the origin wait in the pools of the workers; the policy says no all the same.
#[test]
fn a_pooled_connection_is_no_way_around_other_addresses() {
    let origin = Origin::with_robots(RULES);
    let proxy = Proxy::start();
    let mut clients: Vec<_> = (0..4).map(|_| proxy.client()).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.get(&origin.url("/")).status(), 200));
    proxy.change(|settings| settings.egress.allow.clear());
    for client in &mut clients {
        client.get(&origin.url("/refused")).assert_error(403, "destination_ip_prohibited");
    }
    assert_eq!(origin.count("/refused"), 0);
    proxy.change(|settings| settings.egress.allow = vec!["127.0.0.0/8".parse().expect("a block")]);
    clients.iter_mut().for_each(|client| assert_eq!(client.get(&origin.url("/")).status(), 200));
}

/// The state under the other profile follows from the last answer: nobody is asked again.
#[test]
fn another_profile_judges_what_is_known_already() {
    let origin = Origin::start().on("/robots.txt", Script::default().send(answer(401, "", "")));
    let proxy = Proxy::start();
    let mut client = proxy.client();
    assert_eq!(client.get(&origin.url("/")).status(), 200);
    proxy.change(|settings| settings.robots.profile = ProfileName::Conservative);
    assert_eq!(client.get(&origin.url("/")).status(), 403);
    proxy.change(|settings| settings.robots.profile = ProfileName::Rfc9309);
    assert_eq!(client.get(&origin.url("/")).status(), 200);
    proxy.change(|settings| settings.robots.profile = ProfileName::Google);
    assert_eq!(client.get(&origin.url("/")).status(), 200);
    assert_eq!(origin.count("/robots.txt"), 1);
}

#[test]
fn an_outage_is_as_old_under_a_changed_profile() {
    let origin = Origin::start().on("/robots.txt", Script::default().send(answer(503, "", "")));
    let proxy = Proxy::start();
    let mut client = proxy.client();
    // Seen unreachable on thirty days; the settings change on each.
    for day in 0..30 {
        assert_eq!(client.get(&origin.url("/")).status(), 403, "day {day}");
        proxy.change(|settings| settings.robots.max_redirects = 6 + day);
        proxy.clock.advance(Duration::from_hours(24));
    }
    assert_eq!(client.get(&origin.url("/")).status(), 200);
}

#[test]
fn the_memory_for_origins_shrinks_at_once() {
    let origins: Vec<_> = (0..4).map(|_| Origin::with_robots(RULES)).collect();
    let proxy = Proxy::start();
    origins.iter().for_each(|origin| assert_eq!(proxy.get(&origin.url("/")).status(), 200));
    let full = proxy.stats();
    assert_eq!(full.entries, 4);
    let half = full.bytes as u64 / 2;
    proxy.change(|settings| settings.robots.cache_size = half);
    assert!((1..4).contains(&proxy.stats().entries), "{:?}", proxy.stats());
    proxy.change(|settings| settings.robots.cache_size = 0);
    assert_eq!((proxy.stats().entries, proxy.stats().bytes), (0, 0));
    // What memory has no room for is still on the disk.
    assert_eq!(proxy.get(&origins[0].url("/private/")).status(), 403);
    proxy.change(|settings| settings.robots.cache_size = 1 << 20);
    origins.iter().for_each(|origin| assert_eq!(proxy.get(&origin.url("/private/")).status(), 403));
    assert_eq!(proxy.stats().entries, 4);
}

#[test]
fn robots_txt_is_fetched_as_it_is_set_now() {
    let (before, after) = (Origin::with_robots(RULES), Origin::with_robots(RULES));
    let proxy = Proxy::start();
    proxy.get(&before.url("/"));
    proxy.change(|settings| settings.robots.fetch_as = FetchAs::Text("Fetcher/2".into()));
    proxy.get(&after.url("/"));
    let asked_as =
        |origin: &Origin| origin.received("/robots.txt").field("user-agent").map(str::to_owned);
    assert_ne!(asked_as(&before).as_deref(), Some("Fetcher/2"));
    assert_eq!(asked_as(&after).as_deref(), Some("Fetcher/2"));
}

/// The file that an agent was told of its own decides no more: it is fetched as this program alone from now on.
#[test]
fn what_one_agent_was_told_decides_no_more_once_fetch_as_is_set() {
    let open = answer(200, "", "User-agent: *\nAllow: /\n");
    let origin =
        Origin::with_robots(RULES).on("ExampleBot /robots.txt", Script::default().send(open));
    let proxy = Proxy::start();
    assert_eq!(proxy.get(&origin.url("/private/")).status(), 200);
    proxy.change(|settings| settings.robots.fetch_as = FetchAs::Text("Fetcher/2".into()));
    assert_eq!(proxy.get(&origin.url("/private/")).status(), 403);
    proxy.change(|settings| settings.robots.fetch_as = FetchAs::Agent);
    assert_eq!(proxy.get(&origin.url("/private/")).status(), 200);
}

#[test]
fn https_and_trust_are_treated_as_it_is_set_now() {
    let origin = Origin::secure().robots(RULES);
    let proxy = Proxy::before(&[&origin], |_| {});
    assert_eq!(proxy.https(&origin.authority()).get("/").status(), 200);
    assert_eq!(proxy.leaves.stats().entries, 1);

    // Whose certificates are trusted: a new connection is refused, and one that waits is not used.
    let mut inside = proxy.https(&origin.authority());
    proxy.change(|settings| settings.tls.extra_roots.clear());
    inside.get("/").assert_error(502, "tls_certificate_error");
    let missing = proxy.try_change(|settings| settings.tls.extra_roots.push("/missing.pem".into()));
    assert!(missing.expect_err("no such file").to_string().contains("/missing.pem"));

    let roots = proxy.audit_dir().with_file_name("origins.pem");
    proxy.change(|settings| settings.tls.extra_roots.push(roots));
    assert_eq!(inside.get("/").status(), 200);

    proxy.change(|settings| settings.https.mode = HttpsMode::Classify);
    let refused = proxy.exchange("CONNECT", &origin.authority(), "");
    assert_eq!((refused.status(), refused.reason().as_str()), (403, "path_not_seen"));
    proxy.change(|settings| settings.egress.connect_ports.clear());
    assert_eq!(proxy.exchange("CONNECT", &origin.authority(), "").status(), 403);
}

#[test]
fn the_log_is_kept_as_it_is_set_now() {
    let origin = Origin::with_robots(RULES);
    let proxy = Proxy::start();
    let mut client = proxy.client();
    let mut last_url = || {
        assert_eq!(client.get(&origin.url("/private/?q=secret")).status(), 403);
        proxy.records().pop().expect("a record")["url"].as_str().expect("a text").to_owned()
    };
    assert!(last_url().ends_with("?q=secret"));
    proxy.change(|settings| settings.audit.redact_query = true);
    assert!(last_url().contains("?q=~"));
    proxy.change(|settings| settings.audit.rotate_size = 1);
    until("the file is closed, for it is too large now", || {
        proxy.audit.health().segments_closed > 0
    });
    proxy.change(|settings| {
        (settings.audit.redact_query, settings.audit.rotate_size) = (false, 1 << 20)
    });
    assert!(last_url().ends_with("?q=secret"));
    let seqs: Vec<_> =
        proxy.lines().iter().map(|line| line["seq"].as_u64().expect("a number")).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "one chain");
}

#[test]
fn who_may_come_in_is_as_it_is_set_now() {
    let origin = Origin::start();
    let proxy = Proxy::start();
    let mut inside = proxy.client();
    assert_eq!(inside.get(&origin.url("/")).status(), 200);
    proxy.change(|settings| settings.clients.max_connections = 1);
    proxy.get(&origin.url("/")).assert_error(503, "connection_limit_reached");
    assert_eq!(inside.get(&origin.url("/")).status(), 200, "who is in stays in");
    proxy.change(|settings| settings.clients.max_connections = 10);
    assert_eq!(proxy.get(&origin.url("/")).status(), 200);
}

#[test]
fn the_drain_takes_no_longer_than_it_is_set_now() {
    let origin = Origin::start().on("/slow", Script::default().hold());
    let mut proxy = Proxy::with(|settings| settings.limits.drain_timeout = Duration::from_mins(10));
    let mut client = proxy.client();
    client.ask("GET", &origin.url("/slow"), "");
    origin.wait_until("the request is there", |log| {
        log.requests.iter().any(|it| it.path() == "/slow")
    });
    proxy.change(|settings| settings.limits.drain_timeout = Duration::from_millis(100));
    proxy.stop();
    assert!(client.try_read("GET").is_err());
}

#[test]
fn settings_that_cannot_be_used_change_nothing_at_all() {
    let origin = Origin::secure().robots(RULES);
    let proxy = Proxy::before(&[&origin], |_| {});
    let mut client = proxy.https(&origin.authority());
    let before = proxy.leaves.authority().bundle();
    let certificate = proxy.audit_dir().with_file_name("origins.pem");
    for unusable in ["/missing.key", "/dev/null"] {
        let refused = proxy.try_change(|settings| {
            settings.robots.mode = Mode::Observe;
            settings.https.ca_cert = Some(certificate.clone());
            settings.https.ca_key = Some(unusable.into());
        });
        assert!(refused.is_err(), "{unusable}");
    }
    assert_eq!(client.get("/private/").status(), 403);
    assert_eq!(proxy.leaves.authority().bundle(), before);
    proxy.https(&origin.authority());
}

/// Many requests and many changes at once: each is answered by one set of settings or the other.
#[test]
fn changes_under_load_fail_no_request() {
    let origin = Origin::with_robots(RULES).on("/", ok("page"));
    let proxy = Proxy::start();
    proxy.get(&origin.url("/"));
    std::thread::scope(|scope| {
        let asking: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = proxy.client();
                    (0..100).for_each(|_| {
                        assert_eq!(client.get(&origin.url("/")).status(), 200);
                        assert!(
                            [403, 410].contains(&client.get(&origin.url("/private/")).status())
                        );
                    });
                })
            })
            .collect();
        let mut status = [http::StatusCode::GONE, http::StatusCode::FORBIDDEN].into_iter().cycle();
        while !asking.iter().all(|it| it.is_finished()) {
            proxy.change(|settings| settings.deny.status = status.next().expect("it cycles"));
        }
        asking.into_iter().for_each(|it| it.join().expect("every request was answered"));
    });
}
