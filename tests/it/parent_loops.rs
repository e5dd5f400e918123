//! Proxies that are each other's parents recognise it, and a client that says so harms itself alone.

use std::time::Duration;

use courtesy::egress::{ParentHttp, ParentResolve};
use courtesy::runtime::clock::monotonic;

use crate::testkit::parties::{Origin, Parent, Proxy, Speaks, connect, until};

/// Shorter than any timeout on the way: what takes longer was not recognised.
const AT_ONCE: Duration = Duration::from_secs(8);

const FORMS: [ParentHttp; 2] = [ParentHttp::Connect, ParentHttp::Absolute];

/// Sends what goes out by `proxy` to `parent`.
fn lead(proxy: &Proxy, parent: &Proxy, http: ParentHttp) {
    proxy.change(|settings| {
        let url = format!("http://{}", parent.address());
        settings.egress.parent = Some(url.parse().expect("a parent"));
        settings.egress.parent_http = http;
        settings.egress.via = "off".parse().expect("a word");
    });
}

/// A proxy whose parent is a scripted one, and another before it.
fn chain(origin: &Origin) -> (Parent, Proxy, Proxy) {
    let parent = Parent::start(Speaks::Http);
    let far = Proxy::before(&[origin], |settings| {
        settings.egress.parent = Some(parent.url().parse().expect("a parent"));
    });
    let near = Proxy::before(&[origin], |settings| {
        settings.egress.parent =
            Some(format!("http://{}", far.address()).parse().expect("a parent"));
    });
    (parent, far, near)
}

/// The tokens of the last request to `parent`.
fn tokens(parent: &Parent) -> Vec<String> {
    let heads = parent.heads();
    let head = heads.last().expect("a request");
    let value = head.lines().find_map(|line| line.strip_prefix("courtesy-loop: "));
    value.expect("tokens").split(", ").map(str::to_owned).collect()
}

#[test]
fn a_loop_over_several_proxies_is_recognised() {
    for count in 2..=4 {
        for http in FORMS {
            let origin = Origin::start();
            let proxies: Vec<_> = (0..count).map(|_| Proxy::before(&[&origin], |_| {})).collect();
            for (proxy, parent) in proxies.iter().zip(proxies.iter().cycle().skip(1)) {
                lead(proxy, parent, http);
            }
            for proxy in &proxies {
                let began = monotonic();
                let refused = proxy.get(&origin.url("/page"));
                let took = monotonic() - began;
                assert!(took < AT_ONCE, "{count} proxies, {http}: {took:?}");
                if refused.status() == 403 {
                    assert_eq!(refused.reason(), "robots_unreachable");
                } else {
                    refused.assert_error(502, "proxy_loop_detected");
                }
            }
            assert_eq!(origin.log().connections, 0);
            // The last one goes out by itself: nothing is left of the loop.
            let last = proxies.last().expect("some");
            last.change(|settings| settings.egress.parent = None);
            until("the page is there", || {
                proxies.iter().for_each(|proxy| proxy.clock.advance(Duration::from_secs(400)));
                proxies[0].get(&origin.url("/page")).status() == 200
            });
        }
    }
}

#[test]
fn tokens_are_passed_on_to_parents_and_to_no_origin() {
    let origin = Origin::start();
    let (parent, _far, near) = chain(&origin);
    assert_eq!(near.get(&origin.url("/page")).status(), 200);
    let tokens = tokens(&parent);
    assert_eq!(tokens.len(), 2, "{tokens:?}");
    assert!(tokens[0] != tokens[1] && tokens.iter().all(|token| token.len() == 32), "{tokens:?}");
    let log = origin.log();
    assert!(log.requests.iter().all(|it| !it.head.to_lowercase().contains("courtesy-loop")));
    // What origins see of the proxies does not tell their tokens.
    assert!(log.requests.iter().all(|it| tokens.iter().all(|token| !it.head.contains(token))));
}

#[test]
fn forged_tokens_are_bounded_and_drive_out_no_real_one() {
    let origin = Origin::start();
    let (parent, _far, near) = chain(&origin);
    assert_eq!(near.get(&origin.url("/page")).status(), 200);
    let real = tokens(&parent);
    near.change(|settings| settings.egress.max_idle = 0);
    let forged: Vec<_> = (0..50).map(|number| format!("{number:032x}")).collect();
    let fields = format!("courtesy-loop: {}\r\ncourtesy-loop: a b, <c>\r\n", forged.join(","));
    let other = url(&origin, "b.localhost");
    assert_eq!(near.exchange("GET", &other, &fields).status(), 200);
    let sent = tokens(&parent);
    assert_eq!((sent.len(), &sent[6..]), (8, &real[..]));
}

fn url(origin: &Origin, name: &str) -> String {
    format!("http://{name}:{}/page", origin.address().port())
}

/// A client that has the token of a proxy on the way, as only its parent could have told it.
#[test]
fn a_forged_loop_fails_for_its_client_alone() {
    let origin = Origin::start();
    let (parent, far, near) = chain(&origin);
    near.change(|settings| settings.egress.max_idle = 0);
    assert_eq!(near.get(&url(&origin, "a.localhost")).status(), 200);
    let fields = format!("courtesy-loop: {}\r\n", tokens(&parent).pop().expect("the far one"));
    let other = url(&origin, "b.localhost");
    near.exchange("GET", &other, &fields).assert_error(502, "proxy_loop_detected");
    // Nothing was learnt of the origin, and nothing has to pass.
    assert_eq!(near.get(&other).status(), 200);
    // Nor once it is known.
    near.exchange("GET", &other, &fields).assert_error(502, "proxy_loop_detected");
    assert_eq!(near.get(&other).status(), 200);
    let up = format!("courtesy_parent_up{{parent=\"http://{}\"}} 1", far.address());
    assert!(near.admin("/metrics").text().contains(&up));
}

#[test]
fn a_fetch_that_a_forged_loop_began_is_made_again_for_those_who_wait() {
    let origin = Origin::start();
    let (parent, _far, near) = chain(&origin);
    assert_eq!(near.get(&url(&origin, "a.localhost")).status(), 200);
    let fields = format!("courtesy-loop: {}\r\n", tokens(&parent).pop().expect("the far one"));
    for number in 0..10 {
        let page = url(&origin, &format!("{number}.localhost"));
        std::thread::scope(|scope| {
            let forged = scope.spawn(|| near.exchange("GET", &page, &fields).status());
            let honest = scope.spawn(|| near.get(&page).status());
            assert_eq!(honest.join().expect("no panic"), 200);
            assert!([200, 502].contains(&forged.join().expect("no panic")));
        });
    }
}

/// A parent that answers TRACE itself returns what it was sent.
#[test]
fn no_trace_shows_a_client_what_a_parent_is_sent() {
    let parent = Origin::start();
    let proxy = Proxy::before(&[&parent], |settings| {
        settings.egress.parent = Some(format!("http://{}", parent.authority()).parse().unwrap());
        settings.egress.parent_http = ParentHttp::Absolute;
        settings.egress.parent_resolve = ParentResolve::Parent;
    });
    let page = "http://site.invalid/page";
    assert_eq!(proxy.get(page).status(), 200);
    for fields in ["", "Max-Forwards: 1\r\n"] {
        let refused = proxy.exchange("TRACE", page, fields);
        refused.assert_error(502, "proxy_configuration_error");
    }
    assert!(parent.request_lines().iter().all(|line| line.starts_with("GET ")));
}

#[test]
fn a_connect_that_comes_back_is_refused_before_it_is_granted() {
    let origin = Origin::secure();
    let (parent, far, _near) = chain(&origin);
    assert_eq!(far.https(&origin.authority()).get("/page").status(), 200);
    let token = tokens(&parent).pop().expect("its own");
    for (token, status) in [(token.as_str(), 502), (&token[1..], 200), (&"0".repeat(32), 200)] {
        let fields = format!("courtesy-loop: {token}\r\n");
        let answer = far.client().send(connect(&origin.authority(), &fields)).read_head();
        assert_eq!(answer.status(), status, "{token}");
    }
}

/// Each is for requests by the same proxies only.
#[test]
fn a_client_that_names_ever_other_proxies_leaves_few_connections() {
    let origin = Origin::start();
    let parent = Parent::start(Speaks::Http);
    let proxy = Proxy::before(&[&origin], |settings| {
        settings.egress.parent = Some(parent.url().parse().expect("a parent"));
        settings.workers = Some(1);
    });
    for number in 0..20 {
        let fields = format!("courtesy-loop: {number:032x}\r\n");
        for _ in 0..2 {
            assert_eq!(proxy.exchange("GET", &origin.url("/page"), &fields).status(), 200);
        }
    }
    // One for robots.txt, and one for each list of proxies.
    assert_eq!(parent.asked().len(), 21);
    let idle = "courtesy_pool_connections{state=\"idle\"} 8\n";
    assert!(proxy.admin("/metrics").text().contains(idle), "{}", proxy.admin("/metrics").text());
}
