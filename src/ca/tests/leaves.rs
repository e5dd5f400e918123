//! Leaves: their content, how often they are issued, and that no host gets another's.

use std::collections::HashSet;
use std::net::IpAddr;

use x509_parser::extensions::{GeneralName, ParsedExtension};

use super::*;

fn parsed(der: &CertificateDer<'static>) -> Certificate {
    Certificate::parse(der.clone()).unwrap()
}

/// RFC 5280 §4.2.1 and RFC 6125 §6.4: a server certificate with exactly one name that can sign
/// nothing.
#[tokio::test]
async fn a_leaf_is_a_server_by_one_name_and_nothing_else() {
    let place = Place::new();
    let leaves = place.leaves(8);
    let leaf = parsed(&certificates(&leaves, &host("example.com")).await[0]);
    let x509 = leaf.x509();
    let constraints = x509.basic_constraints().unwrap().unwrap();
    assert!(constraints.critical && !constraints.value.ca);
    let usage = x509.key_usage().unwrap().unwrap();
    assert!(usage.critical && usage.value.digital_signature());
    assert_eq!(usage.value.flags.count_ones(), 1);
    let purposes = x509.extended_key_usage().unwrap().unwrap().value;
    assert!(purposes.server_auth && !purposes.any && !purposes.client_auth);
    let names = &x509.subject_alternative_name().unwrap().unwrap().value.general_names;
    assert_eq!(names[..], [GeneralName::DNSName("example.com")]);
    assert_eq!(leaf.subject(), "CN=courtesy");

    let authority = leaves.authority();
    let of_ca = authority.certificate().x509();
    let identifier =
        of_ca.iter_extensions().find_map(|extension| match extension.parsed_extension() {
            ParsedExtension::SubjectKeyIdentifier(identifier) => Some(identifier.0),
            _ => None,
        });
    let issuer = x509.iter_extensions().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::AuthorityKeyIdentifier(issuer) => {
            issuer.key_identifier.as_ref().map(|it| it.0)
        }
        _ => None,
    });
    assert!(issuer.is_some());
    assert_eq!(issuer, identifier);
}

#[tokio::test]
async fn f16_a_leaf_begins_an_hour_ago_and_ends_in_a_week_or_with_the_ca() {
    let place = Place::new();
    let leaves = place.leaves(8);
    let life = |leaf: &Certificate| {
        (place.now().since(leaf.not_before()), place.now().until(leaf.not_after()))
    };
    place.clock.advance(DAY);
    let leaf = parsed(&certificates(&leaves, &host("a.example")).await[0]);
    assert_eq!(life(&leaf), (Duration::from_secs(3600), 7 * DAY));
    place.clock.advance(728 * DAY);
    let leaf = parsed(&certificates(&leaves, &host("a.example")).await[0]);
    assert_eq!(life(&leaf).1, DAY, "not past the CA");
    place.clock.advance(2 * DAY);
    let said = leaves.server_config(&host("b.example")).await.unwrap_err();
    assert!(matches!(said, CertificateError::Invalid(_)), "{said}");
}

#[tokio::test]
async fn an_address_stands_in_the_leaf_as_an_address() {
    let place = Place::new();
    let leaves = place.leaves(8);
    for (text, address) in [("192.0.2.7", "192.0.2.7"), ("[2001:db8::1]", "2001:db8::1")] {
        let host = host(text);
        let shown = certificates(&leaves, &host).await;
        let bytes = match address.parse().unwrap() {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        let leaf = parsed(&shown[0]);
        let x509 = leaf.x509();
        let names = &x509.subject_alternative_name().unwrap().unwrap().value.general_names;
        assert_eq!(names[..], [GeneralName::IPAddress(&bytes)], "{text}");
        assert!(place.accepts(&leaves.authority().bundle(), &shown, &host), "{text}");
    }
}

/// Firefox refuses a second certificate of one issuer with the same serial number, even with the
/// same key.
#[tokio::test]
async fn leaves_have_one_key_and_a_serial_number_each() {
    let place = Place::new();
    let leaves = place.leaves(100);
    let (mut serials, mut keys) = (HashSet::new(), HashSet::new());
    for number in 0..50 {
        let leaf =
            parsed(&certificates(&leaves, &host(&format!("host-{number}.example"))).await[0]);
        let x509 = leaf.x509();
        assert_eq!(x509.raw_serial().len(), 16);
        assert!(x509.raw_serial()[0] < 0x80, "positive");
        serials.insert(x509.raw_serial().to_vec());
        keys.insert(x509.public_key().raw.to_vec());
    }
    assert_eq!((serials.len(), keys.len()), (50, 1));
}

#[tokio::test]
async fn long_and_odd_names_are_names() {
    let place = Place::new();
    let leaves = place.leaves(8);
    let long =
        [["a"; 63].concat(), ["b"; 63].concat(), ["c"; 63].concat(), ["d"; 61].concat()].join(".");
    for name in [&long, "xn--mller-kva.example", "under_score.example", "localhost"] {
        let host = host(name);
        let shown = certificates(&leaves, &host).await;
        assert!(place.accepts(&leaves.authority().bundle(), &shown, &host), "{name}");
        assert!(!place.accepts(
            &leaves.authority().bundle(),
            &shown,
            &Host::Name("other.example".into())
        ));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_handshakes_with_one_host_make_one_leaf() {
    let place = Place::new();
    let leaves = place.leaves(8);
    let tasks = (0..1000).map(|_| {
        let leaves = Arc::clone(&leaves);
        tokio::spawn(async move { leaves.server_config(&host("example.com")).await.unwrap() })
    });
    let configs = futures(tasks.collect()).await;
    assert!(configs.iter().all(|config| Arc::ptr_eq(config, &configs[0])));
    assert_eq!(leaves.stats(), Stats { entries: 1, minted: 1, hits: 999, evicted: 0 });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_hosts_at_once_make_a_leaf_each_and_the_cache_stays_bounded() {
    let place = Place::new();
    let leaves = place.leaves(100);
    let tasks = (0..1000).map(|number| {
        let leaves = Arc::clone(&leaves);
        tokio::spawn(async move {
            leaves.server_config(&host(&format!("host-{number}.example"))).await.unwrap()
        })
    });
    assert_eq!(futures(tasks.collect()).await.len(), 1000);
    assert_eq!(leaves.stats(), Stats { entries: 100, minted: 1000, hits: 0, evicted: 900 });
}

async fn futures<T>(tasks: Vec<tokio::task::JoinHandle<T>>) -> Vec<T> {
    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await.unwrap());
    }
    results
}

/// A request that is cancelled does not cancel the leaf.
#[tokio::test]
async fn a_client_that_gives_up_leaves_the_place_to_the_next() {
    let place = Place::new();
    let leaves = place.leaves(8);
    let host = host("example.com");
    tokio::select! {
        biased;
        _ = leaves.server_config(&host) => {}
        () = std::future::ready(()) => {}
    }
    assert_eq!(leaves.stats().entries, 1);
    assert!(leaves.server_config(&host).await.is_ok());
    assert_eq!(leaves.stats().entries, 1);
}

#[tokio::test]
async fn a_leaf_is_made_anew_after_two_thirds_of_its_life() {
    let place = Place::new();
    let leaves = place.leaves(8);
    let host = host("example.com");
    let first = leaves.server_config(&host).await.unwrap();
    place.clock.advance(7 * DAY * 2 / 3 - Duration::from_secs(1));
    assert!(Arc::ptr_eq(&leaves.server_config(&host).await.unwrap(), &first));
    place.clock.advance(Duration::from_secs(1));
    assert!(!Arc::ptr_eq(&leaves.server_config(&host).await.unwrap(), &first));
    assert_eq!(leaves.stats(), Stats { entries: 1, minted: 2, hits: 1, evicted: 0 });
}

#[tokio::test]
async fn the_least_recently_used_leaf_goes_first() {
    let place = Place::new();
    let leaves = place.leaves(2);
    for name in ["a.example", "b.example", "a.example", "c.example", "a.example"] {
        leaves.server_config(&host(name)).await.unwrap();
    }
    assert_eq!(leaves.stats(), Stats { entries: 2, minted: 3, hits: 2, evicted: 1 });
}

#[tokio::test]
async fn a_rotation_is_picked_up_and_clients_that_trust_both_notice_nothing() {
    let place = Place::new();
    let leaves = place.leaves(8);
    let host = host("example.com");
    let before = certificates(&leaves, &host).await;
    assert!(!leaves.reload().unwrap(), "the same CA");
    assert_eq!(certificates(&leaves, &host).await, before);

    let rotated = place.rotate();
    assert_eq!(certificates(&leaves, &host).await, before, "until it is reloaded");
    assert!(leaves.reload().unwrap());
    let after = certificates(&leaves, &host).await;
    for shown in [&before, &after] {
        assert!(place.accepts(&rotated.bundle(), shown, &host));
    }
    assert!(place.accepts(&rotated.certificate().pem(), &after, &host));
    assert!(!place.accepts(&rotated.certificate().pem(), &before, &host));
}

#[tokio::test]
async fn a_ca_that_cannot_be_read_again_goes_on_signing() {
    let place = Place::new();
    let leaves = place.leaves(8);
    std::fs::write(place.file("ca.pem"), "nonsense").unwrap();
    assert!(leaves.reload().is_err());
    assert!(leaves.server_config(&host("example.com")).await.is_ok());
}

#[tokio::test]
async fn http2_is_chosen_before_http1_and_early_data_is_not_taken() {
    let place = Place::new();
    let host = host("example.com");
    let config = place.leaves(8).server_config(&host).await.unwrap();
    assert_eq!(config.max_early_data_size, 0);
    let (client, _) = handshake(&client(), config, &host);
    assert_eq!(client.alpn_protocol(), Some(&b"h2"[..]));
}

/// RFC 8446 §4.6.1 and RFC 6066 §3. Addresses are the hard case: there is no name to compare.
#[tokio::test]
async fn a_session_is_resumed_with_its_own_host_only() {
    let place = Place::new();
    let leaves = place.leaves(8);
    let [one, other] = ["192.0.2.1", "192.0.2.2"].map(host);
    let client = client();
    let resumed = async |asked: &Host, answers: &Host| {
        let config = leaves.server_config(answers).await.unwrap();
        let (_, server) = handshake(&client, config, asked);
        server.handshake_kind() == Some(rustls::HandshakeKind::Resumed)
    };
    assert!(!resumed(&one, &one).await);
    assert!(resumed(&one, &one).await);
    assert!(!resumed(&one, &other).await, "a ticket of another host");
    // The ticket key belongs to the process: a new leaf resumes sessions of the former one.
    assert!(!resumed(&other, &other).await);
    place.clock.advance(6 * DAY);
    assert!(resumed(&other, &other).await);
    assert_eq!(leaves.stats().minted, 3);
}

/// Also while the proxy runs: validity is checked at each request.
#[tokio::test]
async fn a_ca_that_expires_while_it_is_in_use_says_so_until_it_is_rotated() {
    let place = Place::new();
    let leaves = place.leaves(8);
    assert_eq!((leaves.invalidity(), leaves.refusal()), (None, None));
    place.clock.advance(731 * DAY);
    for said in [leaves.invalidity(), leaves.refusal(), leaves.refusal()] {
        assert!(said.unwrap().ends_with("expired on 2028-11-19"));
    }
    place.rotate();
    assert!(leaves.reload().unwrap());
    assert_eq!(leaves.refusal(), None);
    assert!(leaves.server_config(&host("a.example")).await.is_ok());
}
