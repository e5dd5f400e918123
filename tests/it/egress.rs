//! The way out, as clients meet it: which hosts, which addresses.

use courtesy::types::origin::HostPattern;

use crate::testkit::parties::{Origin, Proxy, Script, answer, connect, ok};

fn hosts(list: &[&str]) -> Vec<HostPattern> {
    list.iter().map(|host| HostPattern::new(host).expect("a host")).collect()
}

#[test]
fn algorithm_6_a_listed_host_is_refused_with_a_record() {
    let origin = Origin::start().on("/page", ok("open"));
    let proxy = Proxy::with(|settings| {
        settings.egress.deny_hosts = hosts(&["closed.localhost", "*.closed.localhost"]);
    });
    let port = origin.address().port();
    for host in ["closed.localhost", "CLOSED.localhost.", "a.closed.localhost"] {
        let response = proxy.get(&format!("http://{host}:{port}/page"));
        response.assert_error(403, "http_request_denied");
        assert!(response.text().contains("egress.deny_hosts"), "{}", response.text());
        let record = proxy.records().pop().expect("a record");
        assert_eq!(response.field("courtesy-record"), record["id"].as_str());
        assert_eq!(
            (&record["event"], &record["reason"]),
            (&"denied".into(), &"origin_refused".into())
        );
    }
    let mut client = proxy.client();
    let refused = client.send(connect("closed.localhost:443", "")).read();
    refused.assert_error(403, "http_request_denied");
    client.assert_closed();
    assert_eq!(proxy.records().len(), 4);
    assert_eq!(origin.log().connections, 0);
    assert_eq!(proxy.get(&format!("http://open.localhost:{port}/page")).text(), "open");
}

#[test]
fn algorithm_6_a_list_of_hosts_does_not_switch_the_address_check_off() {
    let origin = Origin::start();
    let proxy = Proxy::with(|settings| {
        settings.egress.allow_hosts = hosts(&["*.localhost"]);
        settings.egress.allow.clear();
    });
    let port = origin.address().port();
    proxy
        .get(&format!("http://a.localhost:{port}/"))
        .assert_error(403, "destination_ip_prohibited");
    let unlisted = proxy.get(&format!("http://127.0.0.1:{port}/"));
    unlisted.assert_error(403, "http_request_denied");
    assert!(unlisted.text().contains("egress.allow_hosts"), "{}", unlisted.text());
    assert_eq!(origin.log().connections, 0);
}

#[test]
fn algorithm_4_a_redirect_of_robots_txt_to_a_refused_host_is_not_followed() {
    let closed = Origin::start();
    let url = format!("http://closed.localhost:{}/robots.txt", closed.address().port());
    let origin = Origin::start().on(
        "/robots.txt",
        Script::default().send(answer(301, &format!("Location: {url}\r\n"), "")),
    );
    let proxy = Proxy::with(|settings| settings.egress.deny_hosts = hosts(&["closed.localhost"]));
    let denied = proxy.get(&origin.url("/page"));
    assert_eq!((denied.status(), denied.reason()), (403, "robots_unreachable".to_owned()));
    assert_eq!(closed.log().connections, 0);
}

#[test]
fn algorithm_6_an_entry_of_one_port_opens_no_other() {
    let [opened, other] = [(); 2].map(|()| Origin::start().on("/page", ok("open")));
    let proxy = Proxy::with(|settings| {
        settings.egress.allow = vec![opened.address().to_string().parse().expect("endpoints")];
    });
    assert_eq!(proxy.get(&opened.url("/page")).text(), "open");
    proxy.get(&other.url("/page")).assert_error(403, "destination_ip_prohibited");
    assert_eq!(other.log().connections, 0);
}

/// RFC 9209 §4: what stands in a field is logged and passed on by whoever sees it.
#[test]
fn c17_no_address_is_told_in_proxy_status() {
    let proxy = Proxy::with(|settings| settings.egress.allow.clear());
    for (url, status) in [
        ("http://10.1.2.3/", 403),
        ("http://localhost/", 403),
        ("http://169.254.169.254/", 403),
        ("http://[fd00::1]/", 403),
        ("http://no-such-name.invalid/", 403),
    ] {
        let response = proxy.get(url);
        assert_eq!(response.status(), status, "{url}");
        let told = response.field("proxy-status").expect("it is on every answer of ours");
        for part in ["10.1.2.3", "127.0.0.1", "::1", "169.254", "fd00", "invalid"] {
            assert!(!told.contains(part), "{told}");
        }
    }
}
