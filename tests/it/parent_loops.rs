//! Proxies that are each other's parents: what goes round ends.

use std::time::Duration;

use courtesy::egress::{ParentHttp, ParentResolve};
use courtesy::runtime::clock::monotonic;

use crate::testkit::parties::{Origin, Proxy, until};

/// Shorter than the timeout of a response: a fetch that goes round ends by its own.
const SOON: Duration = Duration::from_secs(20);

/// Sends what goes out by `proxy` to `parent`.
fn lead(proxy: &Proxy, parent: &Proxy, http: ParentHttp) {
    proxy.change(|settings| {
        let url = format!("http://{}", parent.address());
        settings.egress.parent = Some(url.parse().expect("a parent"));
        settings.egress.parent_http = http;
        settings.robots.fetch_timeout = Duration::from_secs(2);
    });
}

#[test]
fn a_ring_of_proxies_forwards_nothing_and_ends() {
    for http in [ParentHttp::Connect, ParentHttp::Absolute] {
        let origin = Origin::start();
        let proxies = [(); 2].map(|()| Proxy::before(&[&origin], |_| {}));
        lead(&proxies[0], &proxies[1], http);
        lead(&proxies[1], &proxies[0], http);
        let began = monotonic();
        let refused = proxies[0].get(&origin.url("/page"));
        assert!(monotonic() - began < SOON, "{http}");
        assert_eq!(refused.reason(), "robots_unreachable", "{http}: {}", refused.text());
        assert_eq!(origin.log().connections, 0);
        // One goes out by itself: nothing is left of the ring.
        proxies[1].change(|settings| settings.egress.parent = None);
        until("the page is there", || {
            proxies.iter().for_each(|proxy| proxy.clock.advance(Duration::from_secs(400)));
            proxies[0].get(&origin.url("/page")).status() == 200
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
