//! A certificate that is not right is refused in words that say what is wrong, and the request is
//! not sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use courtesy::egress::{Egress, Failure};
use courtesy::types::origin::Host;
use rcgen::{BasicConstraints, ExtendedKeyUsagePurpose, IsCa, KeyPair, date_time_ymd};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::origins_tls::authority::{Authority, BOTH, Site, params};
use crate::origins_tls::support::{get, mirror, shared, shared_with, way_out};

/// Each kind of certificate that is refused, with the words for it.
fn hostile(authority: &Authority) -> Vec<(&'static str, Site)> {
    let good = || params(&["127.0.0.1"]);
    let with = |change: fn(&mut rcgen::CertificateParams)| {
        let mut params = good();
        change(&mut params);
        authority.issue(&params)
    };
    vec![
        ("it has expired, ", with(|params| params.not_after = date_time_ymd(2020, 1, 1))),
        ("it is not valid yet", with(|params| params.not_before = date_time_ymd(3000, 1, 1))),
        (
            "it is for another name: other.example, 127.0.0.2",
            authority.issue(&params(&["other.example", "127.0.0.2"])),
        ),
        ("it has no subject alternative name", common_name_only(authority)),
        (
            "its issuer is unknown. To trust its authority, name a file with that in tls.extra_roots",
            unknown_issuer(),
        ),
        ("its chain is broken", broken_chain(authority)),
        ("it is self-signed", self_signed()),
        (
            "it is not made out for servers",
            with(|params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth]),
        ),
        (
            "it is a certificate authority's",
            with(|params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained)),
        ),
        ("issued by a certificate that is no authority's", issued_by_a_site(authority)),
        ("a signature in it, or made with its key, is wrong", tampered(authority)),
        ("a signature in it, or made with its key, is wrong", anothers_key(authority)),
    ]
}

fn common_name_only(authority: &Authority) -> Site {
    let mut params = params(&[]);
    params.distinguished_name.push(rcgen::DnType::CommonName, "127.0.0.1");
    authority.issue(&params)
}

fn unknown_issuer() -> Site {
    let stranger = Authority::named("a stranger");
    let mut site = stranger.good();
    site.chain.push(stranger.certificate);
    site
}

fn broken_chain(authority: &Authority) -> Site {
    authority.below(Authority::params("an authority in between")).good()
}

fn self_signed() -> Site {
    let key = KeyPair::generate().unwrap();
    let certificate = params(&["127.0.0.1"]).self_signed(&key).unwrap();
    Site { chain: vec![certificate.der().clone()], key }
}

fn issued_by_a_site(authority: &Authority) -> Site {
    let mut params = Authority::params("a site");
    params.is_ca = IsCa::ExplicitNoCa;
    let between = authority.below(params);
    let mut site = between.good();
    site.chain.push(between.certificate);
    site
}

fn tampered(authority: &Authority) -> Site {
    let mut site = authority.good();
    let mut bytes = site.chain[0].to_vec();
    *bytes.last_mut().unwrap() ^= 1;
    site.chain[0] = bytes.into();
    site
}

fn anothers_key(authority: &Authority) -> Site {
    Site { key: KeyPair::generate().unwrap(), ..authority.good() }
}

#[tokio::test]
async fn a11_a_certificate_that_is_not_right_is_refused_and_nothing_is_sent() {
    let authority = Authority::new();
    for (words, site) in hostile(&authority) {
        let origin = mirror(site.config(BOTH)).await;
        let error = get(&way_out(&authority), &origin.origin()).await.unwrap_err();
        assert_eq!(error.failure, Failure::TlsCertificate, "{words}: {error}");
        assert!(error.detail.contains(words), "{words}: {error}");
        assert_eq!(origin.seen.requests(), 0, "{words}");
    }
}

#[tokio::test]
async fn a_root_file_is_trusted_and_an_intermediate_that_is_sent_is_followed() {
    let authority = Authority::new();
    let between = authority.below(Authority::params("an authority in between"));
    let mut site = between.good();
    site.chain.push(between.certificate);
    for site in [authority.good(), site] {
        let origin = mirror(site.config(BOTH)).await;
        assert!(get(&way_out(&authority), &origin.origin()).await.is_ok());
    }
}

#[tokio::test]
async fn a_listed_host_is_not_verified_and_still_must_hold_its_key() {
    let authority = Authority::new();
    let listed = [Host::V4([127, 0, 0, 1].into())];
    let careless =
        Egress::new(shared_with(&authority, |_| (), |tls| tls.without_verification_for(&listed)));
    let origin = mirror(self_signed().config(BOTH)).await;
    assert!(get(&careless, &origin.origin()).await.is_ok());
    let unlisted = get(&careless, &origin.at("localhost")).await.unwrap_err();
    assert_eq!(unlisted.failure, Failure::TlsCertificate);
    let strict = Egress::new(shared(&authority, |_| ()));
    assert!(get(&strict, &origin.origin()).await.is_err(), "nobody else is as careless");

    let origin = mirror(anothers_key(&authority).config(BOTH)).await;
    let error = get(&careless, &origin.origin()).await.unwrap_err();
    assert_eq!(error.failure, Failure::TlsCertificate);
    assert_eq!(origin.seen.requests(), 0);
}

/// A server's certificate that changes between two connections.
#[derive(Debug)]
struct Turning {
    before: Arc<dyn ResolvesServerCert>,
    after: Arc<dyn ResolvesServerCert>,
    has_turned: Arc<AtomicBool>,
}

impl ResolvesServerCert for Turning {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        if self.has_turned.load(Ordering::SeqCst) {
            self.after.resolve(hello)
        } else {
            self.before.resolve(hello)
        }
    }
}

#[tokio::test]
async fn f17_a_certificate_that_turns_bad_is_refused_at_the_next_connection() {
    let authority = Authority::new();
    let has_turned = Arc::new(AtomicBool::new(false));
    let mut config = authority.good().config(BOTH);
    config.cert_resolver = Arc::new(Turning {
        before: Arc::clone(&config.cert_resolver),
        after: unknown_issuer().config(BOTH).cert_resolver,
        has_turned: Arc::clone(&has_turned),
    });
    // A session that is resumed is the one that was verified (RFC 8446 §2.2).
    config.send_tls13_tickets = 0;
    let origin = mirror(config).await;
    let way_out = Egress::without_pool(shared(&authority, |_| ()));
    get(&way_out, &origin.origin()).await.unwrap();
    has_turned.store(true, Ordering::SeqCst);
    let error = get(&way_out, &origin.origin()).await.unwrap_err();
    assert_eq!(error.failure, Failure::TlsCertificate, "{error}");
    assert_eq!((origin.seen.connections(), origin.seen.requests()), (2, 1));
}
