//! HTTP/2 to an origin, inside a CONNECT to a parent proxy.

use std::sync::Arc;

use courtesy::egress::{ConfigSnapshot, Egress, EgressState, Parents};
use courtesy::pace::Lanes;
use courtesy::runtime::clock::SystemClock;

use crate::origins_tls::authority::{Authority, BOTH};
use crate::origins_tls::support::{get, mirror, terms, text};
use crate::testkit::parties::{Parent, Speaks};

#[tokio::test]
async fn http2_to_an_origin_goes_by_a_parent_over_one_connection() {
    for speaks in [Speaks::Http, Speaks::Socks5] {
        let authority = Authority::new();
        let served = mirror(authority.good().config(BOTH)).await;
        let parent = Parent::start(speaks);
        let address = parent.url().parse().ok();
        let parents = Parents::new(address, Vec::new(), None, Default::default());
        let lanes = Lanes::off(Arc::new(SystemClock));
        let state = EgressState::new(ConfigSnapshot { parents, ..terms(&authority) }, lanes);
        let egress = Egress::new(Arc::clone(&state));
        let origin = served.origin();
        let together = tokio::join!(get(&egress, &origin), get(&egress, &origin));
        for response in [together.0, together.1, get(&egress, &origin).await] {
            let said = text(response.unwrap()).await;
            assert!(said.starts_with("HTTP/2.0 "), "{speaks:?}: {said}");
        }
        assert_eq!(parent.asked(), [origin.authority()], "{speaks:?}");
        assert_eq!((served.seen.connections(), served.seen.requests()), (1, 3));
        assert_eq!(state.by_parent(), 3);
    }
}
