use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use http::header::PROXY_AUTHORIZATION;

use super::*;
use crate::clients::verifier::ATTEMPTS_FREE;
use crate::clients::{Hash, Password, Users};
use crate::types::ClientKey;

const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

fn user(name: &str, password: &str) -> User {
    User {
        name: name.into(),
        password: Hash::of(&Password::new(password).unwrap()),
        agent: None,
        mode: None,
        deny_status: None,
        max_connections: None,
        max_requests: None,
        max_wait: None,
        pace_status: None,
    }
}

fn clients() -> Clients {
    Clients {
        open: false,
        allow: vec!["10.0.0.0/8".parse().unwrap()],
        users: None,
        connections_max: 3,
        per_client_max: 2,
        requests_max: 2,
    }
}

fn with_users(users: impl IntoIterator<Item = User>) -> Clients {
    let mut all = Users::default();
    users.into_iter().for_each(|user| all.put(user));
    Clients { users: Some(Arc::new(all)), ..clients() }
}

fn admission(clients: Clients) -> Arc<ClientAdmission> {
    Arc::new(ClientAdmission::new(clients, Arc::default()))
}

fn basic(name: &str, password: &str) -> HeaderMap {
    let value = format!("Basic {}", STANDARD.encode(format!("{name}:{password}")));
    [(PROXY_AUTHORIZATION, HeaderValue::from_str(&value).unwrap())].into_iter().collect()
}

fn why(admission: &Arc<ClientAdmission>, client: &str) -> Option<RejectReason> {
    admission.admit_connection(client.parse().unwrap(), usize::MAX).unwrap().reject_reason()
}

fn count(admission: &ClientAdmission, word: &str) -> u64 {
    admission.counts().by_reason().find(|(reason, _)| *reason == word).unwrap().1
}

#[test]
fn strangers_are_rejected_and_a_permit_is_released_when_dropped() {
    let admission = admission(clients());
    let stranger = "192.0.2.1";
    assert_eq!(
        why(&admission, stranger),
        Some(RejectReason::NotAllowed(stranger.parse().unwrap()))
    );
    assert_eq!(why(&admission, "::ffff:10.1.2.3"), None);
    let admit =
        |client: &str| admission.admit_connection(client.parse().unwrap(), usize::MAX).unwrap();
    let inside = [admit("127.0.0.1"), admit("127.0.0.1")];
    assert_eq!(why(&admission, "127.0.0.1"), Some(RejectReason::TooManyConnections(2)));
    let other = admit("10.0.0.1");
    assert_eq!(other.reject_reason(), None);
    assert_eq!(why(&admission, "10.0.0.2"), Some(RejectReason::Full(3)));
    drop(inside);
    assert_eq!((why(&admission, "::1"), admission.open_connections()), (None, 1));
    let counted =
        ["not_allowed", "client_connections", "connections"].map(|word| count(&admission, word));
    assert_eq!(counted, [1, 1, 1]);
}

#[test]
fn a_rejected_connection_takes_no_permit_of_a_served_one() {
    let admission = admission(clients());
    let admit =
        |client: &str| admission.admit_connection(client.parse().unwrap(), usize::MAX).unwrap();
    let strangers: Vec<_> = (0..5).map(|_| admit("192.0.2.1")).collect();
    let greedy: Vec<_> = (0..5).map(|_| admit("10.0.0.1")).collect();
    assert_eq!(greedy.iter().filter(|it| it.reject_reason().is_none()).count(), 2);
    assert_eq!((why(&admission, "127.0.0.1"), admission.open_connections()), (None, 10));
    drop((strangers, greedy));
    assert_eq!(admission.open_connections(), 0);
}

#[tokio::test]
async fn another_list_of_addresses_applies_to_open_connections() {
    let stranger = IpAddr::from([10, 0, 0, 1]);
    for (before, after) in [
        (clients(), Clients { allow: Vec::new(), ..clients() }),
        (Clients { open: true, ..clients() }, Clients { allow: Vec::new(), ..clients() }),
        (
            with_users([user("ada", "secret")]),
            Clients {
                allow: vec!["192.0.2.0/24".parse().unwrap()],
                ..with_users([user("ada", "secret")])
            },
        ),
    ] {
        let admission = admission(before);
        let client = admission.authenticate(stranger, &basic("ada", "secret")).await.unwrap();
        assert!(admission.renew(&client).is_ok());
        admission.change(after);
        let refused = Some(RejectReason::NotAllowed(stranger));
        assert_eq!(admission.authenticate(stranger, &basic("ada", "secret")).await.err(), refused);
        assert_eq!(admission.renew(&client).err(), refused);
    }
}

#[test]
fn even_turning_away_is_bounded() {
    let admission = admission(Clients { open: true, connections_max: 0, ..clients() });
    let crowd: Vec<_> = (0..REJECTED_MAX)
        .map(|_| admission.admit_connection([192, 0, 2, 1].into(), usize::MAX))
        .collect();
    assert!(crowd.iter().all(Option::is_some));
    assert!(admission.admit_connection([192, 0, 2, 1].into(), usize::MAX).is_none());
    drop(crowd);
    assert!(admission.admit_connection([192, 0, 2, 1].into(), usize::MAX).is_some());
}

#[test]
fn an_address_must_be_listed_where_there_is_a_list() {
    let stranger: IpAddr = [192, 0, 2, 1].into();
    let users = with_users([]);
    assert!(!clients().allows(stranger) && !users.allows(stranger));
    assert!(Clients { allow: Vec::new(), ..users.clone() }.allows(stranger));
    assert!(!Clients { allow: Vec::new(), ..clients() }.allows(stranger));
    assert!(Clients { open: true, ..users }.allows(stranger));
}

#[tokio::test]
async fn without_users_nobody_is_asked() {
    let admission = admission(clients());
    let client = admission.authenticate(LOOPBACK, &basic("ada", "x")).await.unwrap();
    assert_eq!((client.name(), client.key()), (None, ClientKey::of(LOOPBACK)));
}

#[tokio::test]
async fn right_credentials_are_verified_once_and_known_then() {
    let admission = admission(with_users([user("ada", "secret")]));
    let ada = admission.authenticate(LOOPBACK, &basic("ada", "secret")).await.unwrap();
    assert_eq!(ada.name(), Some("ada"));
    // No turn is left: anything that needs a verification would wait.
    let _turns = admission.verifier.turns(crate::clients::verifier::VERIFICATIONS_MAX);
    let again = admission.authenticate(LOOPBACK, &basic("ada", "secret")).await.unwrap();
    assert!(Arc::ptr_eq(again.user.as_ref().unwrap(), ada.user.as_ref().unwrap()));
}

#[tokio::test]
async fn the_same_wrong_credentials_again_are_no_new_guess() {
    let admission = admission(with_users([user("ada", "secret")]));
    for _ in 0..10 * ATTEMPTS_FREE {
        let said = admission.authenticate(LOOPBACK, &basic("ada", "Secret")).await.unwrap_err();
        assert_eq!(said, RejectReason::WrongCredentials);
    }
    assert_eq!(
        admission.authenticate(LOOPBACK, &basic("ada", "secret")).await.unwrap().name(),
        Some("ada")
    );
}

#[tokio::test]
async fn guessing_has_to_wait_and_a_known_user_at_the_same_address_has_not() {
    let admission = admission(with_users([user("ada", "secret"), user("bob", "secret")]));
    let ask = |address: IpAddr, name: &'static str, password: String| {
        let admission = Arc::clone(&admission);
        async move { admission.authenticate(address, &basic(name, &password)).await.map(|_| ()) }
    };
    ask(LOOPBACK, "ada", "secret".into()).await.unwrap();
    for guess in 0..=ATTEMPTS_FREE {
        // An unknown user gets the same response.
        let name = if guess % 2 == 0 { "bob" } else { "eve" };
        assert_eq!(
            ask(LOOPBACK, name, guess.to_string()).await,
            Err(RejectReason::WrongCredentials)
        );
    }
    let said = ask(LOOPBACK, "bob", "secret".into()).await.unwrap_err();
    assert!(matches!(said, RejectReason::TooManyAttempts(_)), "{said}");
    ask(LOOPBACK, "ada", "secret".into()).await.unwrap();
    ask([10, 0, 0, 1].into(), "bob", "secret".into()).await.unwrap();
    assert_eq!(
        (count(&admission, "attempts"), count(&admission, "wrong_credentials")),
        (1, u64::from(ATTEMPTS_FREE) + 1)
    );
}

#[tokio::test]
async fn many_guesses_at_once_cost_no_more_than_one_after_the_other() {
    let admission = admission(with_users([user("ada", "secret")]));
    let guesses = (0..50).map(|guess| {
        let admission = Arc::clone(&admission);
        tokio::spawn(async move {
            admission.authenticate(LOOPBACK, &basic("ada", &guess.to_string())).await.unwrap_err()
        })
    });
    let guesses: Vec<_> = guesses.collect();
    let mut verified = 0;
    for guess in guesses {
        verified += usize::from(guess.await.unwrap() == RejectReason::WrongCredentials);
    }
    // Two may be in flight when the last free one fails, and a slow machine has seconds to wait
    // out.
    assert!((1..=2 * ATTEMPTS_FREE as usize).contains(&verified), "{verified}");
}

#[tokio::test]
async fn another_version_of_the_users_forgets_what_was_verified() {
    let (before, same) = (user("ada", "secret"), user("bob", "other"));
    let admission = admission(with_users([before, same.clone()]));
    let [ada, bob] =
        [("ada", "secret"), ("bob", "other")].map(|(name, password)| basic(name, password));
    let inside = admission.authenticate(LOOPBACK, &ada).await.unwrap();
    let other = admission.authenticate(LOOPBACK, &bob).await.unwrap();
    assert_eq!(admission.renew(&inside).unwrap().name(), Some("ada"));

    admission.change(with_users([user("ada", "new"), User { max_requests: Some(7), ..same }]));
    let said = admission.authenticate(LOOPBACK, &ada).await.unwrap_err();
    assert_eq!(said, RejectReason::WrongCredentials);
    // Requests inside an older CONNECT end, unless its user is unchanged.
    assert_eq!(admission.renew(&inside).unwrap_err(), RejectReason::NoLongerUser);
    assert_eq!(admission.renew(&other).unwrap().user.unwrap().max_requests, Some(7));
    assert_eq!(admission.renew(&Client::at(LOOPBACK)).unwrap_err(), RejectReason::NoLongerUser);
    admission.change(clients());
    assert_eq!(admission.renew(&inside).unwrap().name(), None);
}

#[tokio::test]
async fn equal_users_need_no_new_verification() {
    let ada = user("ada", "secret");
    let admission = admission(with_users([ada.clone()]));
    admission.authenticate(LOOPBACK, &basic("ada", "secret")).await.unwrap();
    admission.change(Clients { connections_max: 1, ..with_users([ada]) });
    let _turns = admission.verifier.turns(crate::clients::verifier::VERIFICATIONS_MAX);
    admission.authenticate(LOOPBACK, &basic("ada", "secret")).await.unwrap();
}

#[test]
fn no_client_has_more_than_its_share_of_what_there_are_means_for() {
    let admission = admission(clients());
    let _inside = admission.admit_connection(LOOPBACK, 1).unwrap();
    let refused = admission.admit_connection(LOOPBACK, 1).unwrap().reject_reason();
    assert_eq!(refused, Some(RejectReason::TooManyConnections(1)));
    assert_eq!(admission.admit_connection([10, 0, 0, 1].into(), 1).unwrap().reject_reason(), None);
}

#[test]
fn a_changed_setting_loses_no_count() {
    let admission = admission(clients());
    let _inside = admission.admit_connection(LOOPBACK, usize::MAX).unwrap();
    admission.change(Clients { per_client_max: 1, ..clients() });
    assert_eq!(why(&admission, "127.0.0.1"), Some(RejectReason::TooManyConnections(1)));
    admission.change(Clients { per_client_max: 2, ..clients() });
    assert_eq!(why(&admission, "127.0.0.1"), None);
}

#[test]
fn requests_are_counted_by_user_and_else_by_address() {
    let admission = admission(clients());
    let take = |client: &Client| admission.admit_request(client, 0);
    let (here, there) = (Client::at(LOOPBACK), Client::at([10, 0, 0, 1].into()));
    let ada = User { max_requests: Some(1), ..user("ada", "secret") };
    let named = Client { user: Some(Arc::new(ada)), ..Client::at(LOOPBACK) };
    let _two = (take(&here).unwrap(), take(&here).unwrap());
    assert_eq!(take(&here).unwrap_err(), RejectReason::TooManyRequests(2));
    let _of_others = (take(&there).unwrap(), take(&named).unwrap());
    assert_eq!(take(&named).unwrap_err(), RejectReason::TooManyRequests(1));
}

#[test]
fn the_seat_of_a_connection_is_of_the_user_who_asked_last() {
    let admission = admission(clients());
    let once = |name: &str| User { max_connections: Some(1), ..user(name, "secret") };
    let (ada, bob) = (once("ada"), once("bob"));
    let (first, second) = (Lock::default(), Lock::default());
    assert_eq!(admission.permit_user(&ada, &first), Ok(()));
    assert_eq!(admission.permit_user(&ada, &first), Ok(()));
    assert_eq!(admission.permit_user(&ada, &second), Err(RejectReason::TooManyConnections(1)));
    assert_eq!(admission.permit_user(&bob, &first), Ok(()));
    assert_eq!(admission.permit_user(&ada, &second), Ok(()), "the first connection is bob's now");
    assert_eq!(admission.permit_user(&bob, &second), Err(RejectReason::TooManyConnections(1)));
}

#[tokio::test]
async fn l11_an_address_that_failed_leaves_verifications_to_the_others() {
    let admission = Arc::new(admission(with_users([user("ada", "secret")])));
    let stranger: IpAddr = [10, 0, 0, 1].into();
    assert!(admission.authenticate(stranger, &basic("ada", "a")).await.is_err());
    let _turns =
        admission.verifier.turns_of_failed(crate::clients::verifier::VERIFICATIONS_OF_FAILED_MAX);
    let guessing = {
        let admission = Arc::clone(&admission);
        tokio::spawn(async move { admission.authenticate(stranger, &basic("ada", "b")).await })
    };
    tokio::task::yield_now().await;
    let ada = admission.authenticate(LOOPBACK, &basic("ada", "secret")).await.unwrap();
    assert_eq!(ada.name(), Some("ada"));
    assert!(!guessing.is_finished());
    guessing.abort();
}
