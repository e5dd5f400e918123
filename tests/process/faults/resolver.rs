//! Name servers that fail, lie, or say too much. The mode is observe, so that what fails is told as the
//! failure that it is; where rules are enforced, nothing of such an origin may be fetched at all.

use std::collections::HashSet;
use std::net::IpAddr;
use std::thread;
use std::time::Duration;

use courtesy::runtime::clock::monotonic;

use crate::faults::world::names::{Names, name};
use crate::faults::world::{Everywhere, Proxy, inside};
use crate::testkit::processes::until;

const OBSERVE: &str = "[robots]\nmode = \"observe\"";

/// How long a look-up may take, and what a loaded machine may add to it.
const DEADLINE: Duration = Duration::from_secs(8);
const SLACK: Duration = Duration::from_secs(2);

const PUBLIC: &str = "8.8.8.8";

#[test]
fn f11_a_name_server_that_fails_costs_its_own_names_only() {
    inside(|| {
        let names = Names::start();
        let everywhere = Everywhere::start();
        let proxy = Proxy::start(OBSERVE, everywhere.ca());
        for word in ["nowhere", "servfail"] {
            let response = proxy.get(&format!("http://{}/", name(&[word], &[])));
            response.assert_error(502, "dns_error");
        }
        let silent: Vec<String> =
            (0..20).map(|number| name(&["silent", &format!("n{number}")], &[])).collect();
        let (proxy, names) = (&proxy, &names);
        thread::scope(|scope| {
            let asking: Vec<_> = silent
                .iter()
                .map(|host| scope.spawn(move || proxy.get(&format!("http://{host}/"))))
                .collect();
            until("all are asked for", || silent.iter().all(|host| names.asked(host) > 0));
            for number in 0..10 {
                let asked = monotonic();
                let host = name(&[&format!("n{number}")], &[PUBLIC]);
                assert_eq!(proxy.get(&format!("http://{host}/")).status(), 200);
                assert!(asked.elapsed() < SLACK, "{:?}", asked.elapsed());
            }
            assert!(asking.iter().all(|silent| !silent.is_finished()), "they were not silent");
            for silent in asking {
                silent.join().expect("an answer").assert_error(504, "dns_timeout");
            }
        });
    });
}

/// The look-up for the robots.txt and the one for the page have one deadline between them.
#[test]
fn f11_a_name_without_an_answer_is_told_so_in_time() {
    inside(|| {
        Names::start();
        let proxy = Proxy::start(OBSERVE, Everywhere::start().ca());
        let begin = monotonic();
        proxy.get(&format!("http://{}/", name(&["silent"], &[]))).assert_error(504, "dns_timeout");
        assert!(begin.elapsed() < DEADLINE + SLACK, "{:?}", begin.elapsed());
    });
}

#[test]
fn f11_whatever_a_name_server_says_is_bounded() {
    inside(|| {
        let names = Names::start();
        let everywhere = Everywhere::start();
        let proxy = Proxy::start(OBSERVE, everywhere.ca());
        let get = |host: &str| proxy.get(&format!("http://{host}/"));
        for labels in [["truncated"], ["thousand"], ["alias20"]] {
            let host = name(&labels, &[PUBLIC]);
            assert_eq!(get(&host).status(), 200, "{host}");
        }
        // A TTL of 0 does not make it ask for each connection: once for each family.
        let host = name(&["fleeting"], &[PUBLIC]);
        (0..10).for_each(|_| assert_eq!(get(&host).status(), 200));
        assert_eq!(names.asked(&host), 2);
        let found: HashSet<IpAddr> =
            everywhere.take_contacts().iter().map(|contact| contact.to).collect();
        assert!(found.len() <= 2, "one of a thousand was taken: {found:?}");
        // A thousand ways into the network are none.
        let inward = get(&name(&["thousand"], &["10.0.0.0"]));
        inward.assert_error(403, "destination_ip_prohibited");
        let nobody = everywhere.take_contacts();
        assert_eq!(nobody, []);
    });
}

/// A crawler tells a host that does not exist from one that is refused, and both from a resolver that fails: where
/// rules are enforced, and where they are not.
#[test]
fn f11_a_host_that_does_not_exist_is_told_from_a_refusal() {
    inside(|| {
        let _names = Names::start();
        let everywhere = Everywhere::start();
        for (settings, refused) in [("", 403), (OBSERVE, 502)] {
            let proxy = Proxy::start(settings, everywhere.ca());
            let get = |word: &str| proxy.get(&format!("http://{}/", name(&[word], &[])));
            let nowhere = get("nowhere");
            nowhere.assert_error(refused, "dns_error; rcode=\"NXDOMAIN\"");
            assert_eq!(nowhere.json()["type"], "http://courtesy.internal/problems/host-not-found");
            assert!(nowhere.head.0.starts_with(&format!("HTTP/1.1 {refused} Host not found\r\n")));
            let failing = get("servfail");
            failing.assert_error(refused, "dns_error");
            assert!(!failing.field("proxy-status").unwrap_or_default().contains("rcode"));
            assert_ne!(failing.json()["type"], nowhere.json()["type"]);
        }
        let proxy = Proxy::start("", everywhere.ca());
        proxy.get(&format!("http://{}/", name(&["silent"], &[]))).assert_error(403, "dns_timeout");
    });
}
