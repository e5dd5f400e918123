//! Configurations that change while connections are open: what was made on others is judged again before it is
//! used, and what is under way ends as it began.

use std::sync::Arc;
use std::time::Duration;

use courtesy::egress::{
    AddressPolicy, ConfigSnapshot, Egress, EgressState, Failure, HostRules, Tls,
};
use courtesy::types::origin::HostPattern;
use http::Response;

use crate::origins_tls::authority::{Authority, BOTH, HTTP1};
use crate::origins_tls::support::{
    Feed, Served, feed, get, mirror, of_exchanges, origin, shared_with, speak, terms, text,
};

/// A way out, and what it was made of, to be changed in one place.
struct WayOut {
    shared: Arc<EgressState>,
    egress: Egress,
}

impl WayOut {
    fn new(authority: &Authority) -> Self {
        Self::with(authority, |tls| tls)
    }

    fn with(authority: &Authority, tls: impl FnOnce(Tls) -> Tls) -> Self {
        let shared = shared_with(authority, |_| (), tls);
        Self { egress: Egress::new(Arc::clone(&shared)), shared }
    }

    fn change(&self, authority: &Authority, edit: impl FnOnce(&mut ConfigSnapshot)) {
        let mut terms = terms(authority);
        edit(&mut terms);
        self.shared.change(terms);
    }

    async fn works(&self, site: &Served) {
        text(get(&self.egress, &site.origin()).await.unwrap()).await;
    }

    async fn fails(&self, site: &Served) -> Failure {
        get(&self.egress, &site.origin()).await.unwrap_err().failure
    }
}

fn denying(block: &str) -> AddressPolicy {
    AddressPolicy::new(vec!["127.0.0.0/8".parse().unwrap()], vec![block.parse().unwrap()], vec![])
}

#[tokio::test]
async fn a_kept_connection_is_used_on_terms_that_permit_it() {
    let authority = Authority::new();
    for alpn in [HTTP1, BOTH] {
        let site = mirror(authority.good().config(alpn)).await;
        let way_out = WayOut::new(&authority);
        way_out.works(&site).await;
        for _ in 0..2 {
            way_out.change(&authority, |terms| terms.policy = denying("127.0.0.2/32"));
            way_out.works(&site).await;
        }
        assert_eq!((site.seen.connections(), site.seen.requests()), (1, 3));
    }
}

#[tokio::test]
async fn algorithm_3_a_kept_connection_to_an_address_now_refused_is_not_used() {
    let authority = Authority::new();
    for alpn in [HTTP1, BOTH] {
        let site = mirror(authority.good().config(alpn)).await;
        let way_out = WayOut::new(&authority);
        way_out.works(&site).await;
        way_out.change(&authority, |terms| terms.policy = denying("127.0.0.1/32"));
        assert_eq!(way_out.fails(&site).await, Failure::AddressProhibited);
        // It is gone, and does not come back with the old terms.
        way_out.change(&authority, |_| ());
        way_out.works(&site).await;
        assert_eq!((site.seen.connections(), site.seen.requests()), (2, 2));
    }
}

#[tokio::test]
async fn algorithm_6_a_kept_connection_to_a_host_now_refused_is_not_used() {
    let authority = Authority::new();
    let site = mirror(authority.good().config(BOTH)).await;
    let way_out = WayOut::new(&authority);
    way_out.works(&site).await;
    let deny = vec![HostPattern::new("127.0.0.1").unwrap()];
    way_out.change(&authority, |terms| {
        terms.config.hosts = HostRules { deny, ..HostRules::default() }
    });
    assert_eq!(way_out.fails(&site).await, Failure::HostProhibited);
    assert_eq!(site.seen.requests(), 1);
}

#[tokio::test]
async fn a11_a_kept_connection_whose_certificate_is_not_trusted_is_closed() {
    let (authority, other) = (Authority::new(), Authority::named("another"));
    for alpn in [HTTP1, BOTH] {
        let site = mirror(authority.good().config(alpn)).await;
        let way_out = WayOut::new(&authority);
        way_out.works(&site).await;
        way_out.change(&other, |_| ());
        assert_eq!(way_out.fails(&site).await, Failure::TlsCertificate);
        assert_eq!(site.seen.requests(), 1, "nothing went by the kept connection");
    }
}

#[tokio::test]
async fn a11_a_connection_that_was_not_verified_is_not_used_where_one_must_be() {
    let (authority, other) = (Authority::new(), Authority::named("another"));
    let site = mirror(authority.good().config(BOTH)).await;
    let insecure = [site.origin().host().clone()];
    let way_out = WayOut::with(&other, |tls| tls.without_verification_for(&insecure));
    way_out.works(&site).await;
    way_out.change(&other, |_| ());
    assert_eq!(way_out.fails(&site).await, Failure::TlsCertificate);
    assert_eq!(site.seen.requests(), 1);
}

#[tokio::test]
async fn an_exchange_under_way_ends_as_it_began() {
    let authority = Authority::new();
    let site = origin(authority.good().config(BOTH), |stream, seen| {
        speak(stream, seen, |_| {
            Box::pin(async {
                let (body, more): (_, Feed) = feed();
                tokio::spawn(async move {
                    for _ in 0..100 {
                        more.data("x").await;
                        tokio::task::yield_now().await;
                    }
                });
                Response::new(body)
            })
        })
    })
    .await;
    let way_out = WayOut::new(&authority);
    let response = get(&way_out.egress, &site.origin()).await.unwrap();
    way_out.change(&authority, |terms| terms.policy = denying("127.0.0.1/32"));
    assert_eq!(way_out.fails(&site).await, Failure::AddressProhibited);
    assert_eq!(text(response).await, "x".repeat(100));
}

#[tokio::test]
async fn a_changed_idle_timeout_applies_to_the_pool() {
    let authority = Authority::new();
    let site = mirror(authority.good().config(HTTP1)).await;
    let way_out = WayOut::new(&authority);
    way_out.works(&site).await;
    way_out.change(&authority, |terms| terms.config.idle_timeout = Duration::ZERO);
    way_out.works(&site).await;
    way_out.works(&site).await;
    assert_eq!(
        site.seen.connections(),
        3,
        "the kept one had idled too long, and the next was not kept"
    );

    way_out.change(&authority, |ConfigSnapshot { config, .. }| {
        config.connect_timeout = Duration::from_millis(10);
    });
    way_out.egress.lanes().change(of_exchanges(1));
    let under_way = get(&way_out.egress, &site.origin()).await.unwrap();
    assert_eq!(way_out.fails(&site).await, Failure::ConnectionLimit);
    drop(under_way);
}
