use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use http::header::PROXY_AUTHORIZATION;

use super::*;
use crate::clients::attempts::ATTEMPTS_FREE;
use crate::clients::{Hash, Password, Users};
use crate::types::client_key::ClientKey;

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

fn door(clients: Clients) -> Arc<Door> {
    Arc::new(Door::new(clients, Arc::default()))
}

fn basic(name: &str, password: &str) -> HeaderMap {
    let value = format!("Basic {}", STANDARD.encode(format!("{name}:{password}")));
    [(PROXY_AUTHORIZATION, HeaderValue::from_str(&value).unwrap())].into_iter().collect()
}

fn why(door: &Arc<Door>, client: &str) -> Option<TurnedAway> {
    door.receive(client.parse().unwrap(), usize::MAX).unwrap().turned_away
}

fn count(door: &Door, word: &str) -> u64 {
    door.counts().by_reason().find(|(reason, _)| *reason == word).unwrap().1
}

#[test]
fn strangers_are_turned_away_and_a_place_is_left_when_dropped() {
    let door = door(clients());
    let stranger = "192.0.2.1";
    assert_eq!(why(&door, stranger), Some(TurnedAway::NotAllowed(stranger.parse().unwrap())));
    assert_eq!(why(&door, "::ffff:10.1.2.3"), None);
    let receive = |client: &str| door.receive(client.parse().unwrap(), usize::MAX).unwrap();
    let inside = [receive("127.0.0.1"), receive("127.0.0.1")];
    assert_eq!(why(&door, "127.0.0.1"), Some(TurnedAway::TooManyConnections(2)));
    let other = receive("10.0.0.1");
    assert_eq!(other.turned_away, None);
    assert_eq!(why(&door, "10.0.0.2"), Some(TurnedAway::Full(3)));
    drop(inside);
    assert_eq!((why(&door, "::1"), door.inside()), (None, 1));
    let counted =
        ["not_allowed", "client_connections", "connections"].map(|word| count(&door, word));
    assert_eq!(counted, [1, 1, 1]);
}

#[test]
fn who_is_turned_away_takes_no_place_of_who_is_served() {
    let door = door(clients());
    let receive = |client: &str| door.receive(client.parse().unwrap(), usize::MAX).unwrap();
    let strangers: Vec<_> = (0..5).map(|_| receive("192.0.2.1")).collect();
    let greedy: Vec<_> = (0..5).map(|_| receive("10.0.0.1")).collect();
    assert_eq!(greedy.iter().filter(|it| it.turned_away.is_none()).count(), 2);
    assert_eq!((why(&door, "127.0.0.1"), door.inside()), (None, 10));
    drop((strangers, greedy));
    assert_eq!(door.inside(), 0);
}

#[tokio::test]
async fn another_list_of_addresses_holds_for_those_who_are_inside() {
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
        let door = door(before);
        let client = door.authenticate(stranger, &basic("ada", "secret")).await.unwrap();
        assert!(door.renew(&client).is_ok());
        door.change(after);
        let refused = Some(TurnedAway::NotAllowed(stranger));
        assert_eq!(door.authenticate(stranger, &basic("ada", "secret")).await.err(), refused);
        assert_eq!(door.renew(&client).err(), refused);
    }
}

#[test]
fn even_turning_away_is_bounded() {
    let door = door(Clients { open: true, connections_max: 0, ..clients() });
    let crowd: Vec<_> =
        (0..TURNED_AWAY_MAX).map(|_| door.receive([192, 0, 2, 1].into(), usize::MAX)).collect();
    assert!(crowd.iter().all(Option::is_some));
    assert!(door.receive([192, 0, 2, 1].into(), usize::MAX).is_none());
    drop(crowd);
    assert!(door.receive([192, 0, 2, 1].into(), usize::MAX).is_some());
}

#[test]
fn an_address_must_be_allowed_where_there_is_a_list_and_users_may_come_from_anywhere_without() {
    let stranger: IpAddr = [192, 0, 2, 1].into();
    let users = with_users([]);
    assert!(!clients().allows(stranger) && !users.allows(stranger));
    assert!(Clients { allow: Vec::new(), ..users.clone() }.allows(stranger));
    assert!(!Clients { allow: Vec::new(), ..clients() }.allows(stranger));
    assert!(Clients { open: true, ..users }.allows(stranger));
}

#[tokio::test]
async fn without_users_nobody_is_asked() {
    let door = door(clients());
    let client = door.authenticate(LOOPBACK, &basic("ada", "x")).await.unwrap();
    assert_eq!((client.name(), client.key()), (None, ClientKey::of(LOOPBACK)));
}

#[tokio::test]
async fn right_credentials_are_verified_once_and_known_then() {
    let door = door(with_users([user("ada", "secret")]));
    let ada = door.authenticate(LOOPBACK, &basic("ada", "secret")).await.unwrap();
    assert_eq!(ada.name(), Some("ada"));
    // No turn is left: anything that needs a verification would wait.
    let _turns = door.verifier.turns(crate::clients::verifier::VERIFICATIONS_MAX);
    let again = door.authenticate(LOOPBACK, &basic("ada", "secret")).await.unwrap();
    assert!(Arc::ptr_eq(again.user.as_ref().unwrap(), ada.user.as_ref().unwrap()));
}

#[tokio::test]
async fn the_same_wrong_credentials_again_are_no_new_guess() {
    let door = door(with_users([user("ada", "secret")]));
    for _ in 0..10 * ATTEMPTS_FREE {
        let said = door.authenticate(LOOPBACK, &basic("ada", "Secret")).await.unwrap_err();
        assert_eq!(said, TurnedAway::WrongCredentials);
    }
    assert_eq!(
        door.authenticate(LOOPBACK, &basic("ada", "secret")).await.unwrap().name(),
        Some("ada")
    );
}

#[tokio::test]
async fn who_guesses_has_to_wait_and_who_is_known_at_the_same_address_has_not() {
    let door = door(with_users([user("ada", "secret"), user("bob", "secret")]));
    let ask = |address: IpAddr, name: &'static str, password: String| {
        let door = Arc::clone(&door);
        async move { door.authenticate(address, &basic(name, &password)).await.map(|_| ()) }
    };
    ask(LOOPBACK, "ada", "secret".into()).await.unwrap();
    for guess in 0..=ATTEMPTS_FREE {
        // An unknown user gets the same response.
        let name = if guess % 2 == 0 { "bob" } else { "eve" };
        assert_eq!(ask(LOOPBACK, name, guess.to_string()).await, Err(TurnedAway::WrongCredentials));
    }
    let said = ask(LOOPBACK, "bob", "secret".into()).await.unwrap_err();
    assert!(matches!(said, TurnedAway::TooManyAttempts(_)), "{said}");
    ask(LOOPBACK, "ada", "secret".into()).await.unwrap();
    ask([10, 0, 0, 1].into(), "bob", "secret".into()).await.unwrap();
    assert_eq!(
        (count(&door, "attempts"), count(&door, "wrong_credentials")),
        (1, u64::from(ATTEMPTS_FREE) + 1)
    );
}

#[tokio::test]
async fn many_guesses_at_once_cost_no_more_than_one_after_the_other() {
    let door = door(with_users([user("ada", "secret")]));
    let guesses = (0..50).map(|guess| {
        let door = Arc::clone(&door);
        tokio::spawn(async move {
            door.authenticate(LOOPBACK, &basic("ada", &guess.to_string())).await.unwrap_err()
        })
    });
    let guesses: Vec<_> = guesses.collect();
    let mut verified = 0;
    for guess in guesses {
        verified += usize::from(guess.await.unwrap() == TurnedAway::WrongCredentials);
    }
    // Two may be in flight when the last free one fails, and a slow machine has seconds to wait
    // out.
    assert!((1..=2 * ATTEMPTS_FREE as usize).contains(&verified), "{verified}");
}

#[tokio::test]
async fn another_version_of_the_users_forgets_what_was_verified() {
    let (before, same) = (user("ada", "secret"), user("bob", "other"));
    let door = door(with_users([before, same.clone()]));
    let [ada, bob] =
        [("ada", "secret"), ("bob", "other")].map(|(name, password)| basic(name, password));
    let inside = door.authenticate(LOOPBACK, &ada).await.unwrap();
    let other = door.authenticate(LOOPBACK, &bob).await.unwrap();
    assert_eq!(door.renew(&inside).unwrap().name(), Some("ada"));

    door.change(with_users([user("ada", "new"), User { max_requests: Some(7), ..same }]));
    let said = door.authenticate(LOOPBACK, &ada).await.unwrap_err();
    assert_eq!(said, TurnedAway::WrongCredentials);
    // Requests inside an older CONNECT end, unless its user is unchanged.
    assert_eq!(door.renew(&inside).unwrap_err(), TurnedAway::NoLongerUser);
    assert_eq!(door.renew(&other).unwrap().user.unwrap().max_requests, Some(7));
    assert_eq!(door.renew(&Client::at(LOOPBACK)).unwrap_err(), TurnedAway::NoLongerUser);
    door.change(clients());
    assert_eq!(door.renew(&inside).unwrap().name(), None);
}

#[tokio::test]
async fn equal_users_need_no_new_verification() {
    let ada = user("ada", "secret");
    let door = door(with_users([ada.clone()]));
    door.authenticate(LOOPBACK, &basic("ada", "secret")).await.unwrap();
    door.change(Clients { connections_max: 1, ..with_users([ada]) });
    let _turns = door.verifier.turns(crate::clients::verifier::VERIFICATIONS_MAX);
    door.authenticate(LOOPBACK, &basic("ada", "secret")).await.unwrap();
}

#[test]
fn no_client_has_more_than_its_share_of_what_there_are_means_for() {
    let door = door(clients());
    let _inside = door.receive(LOOPBACK, 1).unwrap();
    let refused = door.receive(LOOPBACK, 1).unwrap().turned_away;
    assert_eq!(refused, Some(TurnedAway::TooManyConnections(1)));
    assert_eq!(door.receive([10, 0, 0, 1].into(), 1).unwrap().turned_away, None);
}

#[test]
fn a_changed_setting_loses_no_count() {
    let door = door(clients());
    let _inside = door.receive(LOOPBACK, usize::MAX).unwrap();
    door.change(Clients { per_client_max: 1, ..clients() });
    assert_eq!(why(&door, "127.0.0.1"), Some(TurnedAway::TooManyConnections(1)));
    door.change(Clients { per_client_max: 2, ..clients() });
    assert_eq!(why(&door, "127.0.0.1"), None);
}

#[test]
fn requests_are_counted_by_user_and_else_by_address() {
    let door = door(clients());
    let take = |client: &Client| door.request(client, 0);
    let (here, there) = (Client::at(LOOPBACK), Client::at([10, 0, 0, 1].into()));
    let ada = User { max_requests: Some(1), ..user("ada", "secret") };
    let named = Client { address: LOOPBACK, user: Some(Arc::new(ada)) };
    let _two = (take(&here).unwrap(), take(&here).unwrap());
    assert_eq!(take(&here).unwrap_err(), TurnedAway::TooManyRequests(2));
    let _of_others = (take(&there).unwrap(), take(&named).unwrap());
    assert_eq!(take(&named).unwrap_err(), TurnedAway::TooManyRequests(1));
}

#[test]
fn the_seat_of_a_connection_is_of_the_user_who_asked_last() {
    let door = door(clients());
    let once = |name: &str| User { max_connections: Some(1), ..user(name, "secret") };
    let (ada, bob) = (once("ada"), once("bob"));
    let (first, second) = (Mutex::default(), Mutex::default());
    assert_eq!(door.seat(&ada, &first), Ok(()));
    assert_eq!(door.seat(&ada, &first), Ok(()));
    assert_eq!(door.seat(&ada, &second), Err(TurnedAway::TooManyConnections(1)));
    assert_eq!(door.seat(&bob, &first), Ok(()));
    assert_eq!(door.seat(&ada, &second), Ok(()), "the first connection is bob's now");
    assert_eq!(door.seat(&bob, &second), Err(TurnedAway::TooManyConnections(1)));
}

#[tokio::test]
async fn l11_an_address_that_has_been_wrong_leaves_a_turn_to_those_that_have_not() {
    let door = Arc::new(door(with_users([user("ada", "secret")])));
    let stranger: IpAddr = [10, 0, 0, 1].into();
    assert!(door.authenticate(stranger, &basic("ada", "a")).await.is_err());
    let _turns =
        door.verifier.turns_of_failed(crate::clients::verifier::VERIFICATIONS_OF_FAILED_MAX);
    let guessing = {
        let door = Arc::clone(&door);
        tokio::spawn(async move { door.authenticate(stranger, &basic("ada", "b")).await })
    };
    tokio::task::yield_now().await;
    let ada = door.authenticate(LOOPBACK, &basic("ada", "secret")).await.unwrap();
    assert_eq!(ada.name(), Some("ada"));
    assert!(!guessing.is_finished());
    guessing.abort();
}
