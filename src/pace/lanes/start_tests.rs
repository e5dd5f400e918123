use std::sync::Arc;

use http::header::{HeaderMap, RETRY_AFTER};
use http::{HeaderValue, StatusCode};

use super::*;
use crate::pace::config::{AddressLimits, Config, PaceMode};
use crate::pace::turn_request::TurnRequest;
use crate::pace::visits::Visit;
use crate::runtime::clock::SystemClock;
use crate::types::ClientKey;
use crate::types::origin::{Host, Origin, Scheme};

fn config() -> Config {
    Config { mode: PaceMode::Enforce, max_wait: Duration::from_secs(1), ..Config::off() }
}

async fn turn(lanes: &Lanes) -> Turn {
    let request = TurnRequest {
        origin: &Origin::new(Scheme::Http, Host::Name("a.example".into()), 80),
        client: &ClientKey::Proxy,
        mode: None,
        group: "",
        site_pace: None,
        outside_visit_time: None,
        visit: Visit::Document,
        is_robots_txt: false,
        max_wait: None,
        shutdown: &CancellationToken::new(),
    };
    lanes.acquire(&request).await.expect("nothing to wait for")
}

#[tokio::test]
async fn a_request_that_has_waited_for_its_connection_starts_in_no_hold() {
    let lanes = Lanes::new(config(), Arc::new(SystemClock));
    let (first, mut second) = (turn(&lanes).await, turn(&lanes).await);
    let rest = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static("30"))]);
    first.note_response(StatusCode::TOO_MANY_REQUESTS, &rest);
    assert!(!lanes.try_start(&mut second, None), "its origin is held");
    assert!(!lanes.try_start_immediately(&mut second), "it has waited");
    let no_turn = lanes.wait_for_start_time(&mut second, None, &CancellationToken::new()).await;
    assert!(matches!(no_turn, Err(NoTurn::Held { .. })), "{no_turn:?}");
}

#[tokio::test]
async fn a_request_that_waits_for_nothing_starts_once_at_once() {
    let lanes = Lanes::new(config(), Arc::new(SystemClock));
    let mut taken = turn(&lanes).await;
    assert!(lanes.try_start_immediately(&mut taken));
    assert!(!lanes.try_start_immediately(&mut taken));
    taken.rearm();
    assert!(lanes.try_start(&mut taken, None));
}

#[tokio::test]
async fn a_request_with_a_limit_at_its_address_does_not_start_at_once() {
    let addresses = AddressLimits { delay: Duration::from_secs(1), ..config().addresses };
    let lanes = Lanes::new(Config { addresses, ..config() }, Arc::new(SystemClock));
    assert!(!lanes.try_start_immediately(&mut turn(&lanes).await));
}
