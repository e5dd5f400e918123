//! What one agent is answered decides for no other: before origins that answer by User-Agent.

use super::*;
use crate::store::agents::AGENTS_PER_ORIGIN_MAX;

const HOST: &str = "example.com";
const RULES: &str = "user-agent: *\ndisallow: /private/\n";
const HOUR: Duration = Duration::from_secs(60 * 60);
/// In the last tenth of a day.
const LATE: Duration = Duration::from_secs(23 * 60 * 60);

impl House {
    /// What follows at [`HOST`] for the agent with this token.
    async fn policy_of(&self, agent: &str) -> &'static str {
        self.told_under(agent, &rfc9309()).await
    }

    async fn told_under(&self, agent: &str, profile: &Arc<Profile>) -> &'static str {
        self.told_to(agent, profile, 1).await
    }

    /// Of a request by the client with this number.
    async fn told_to(&self, agent: &str, profile: &Arc<Profile>, number: u8) -> &'static str {
        let agent = Some(agent).filter(|agent| *agent != "courtesy");
        let known = self.store.lookup(&origin(HOST), profile, agent, &client(number)).await;
        let known = match known {
            Ok(known) => known,
            Err(Undecided::BackOff) => return "undecided",
            Err(why) => panic!("{why}"),
        };
        match known.policy(self.clock.wall()) {
            Policy::Rules(copy) if copy.rules.rule_count() == 0 => "no rules",
            Policy::Rules(_) => "rules",
            Policy::AllowAll(_) => "allow",
            Policy::DisallowAll(_) => "disallow",
        }
    }

    /// Whom was asked for, in this order.
    fn asked_for(&self) -> Vec<String> {
        let asked = lock(&self.origins.asked);
        let name =
            |ask: &FetchRequest| ask.identity.as_str().trim_end_matches(" courtesy").to_owned();
        asked.iter().map(name).collect()
    }

    /// From now on the origin tells each agent that; the last row with an empty name is for all
    /// others.
    fn tells(&self, rows: &[(&'static str, Answer)]) {
        let rows = rows.to_vec();
        *lock(&self.origins.by_agent) = Some(Box::new(move |ask| {
            let agent = ask.identity.as_str().trim_end_matches(" courtesy").to_owned();
            let row = rows.iter().find(|(name, _)| name.is_empty() || *name == agent);
            Told { answer: row.expect("a row for all others").1.clone(), varies: false }
        }));
    }

    /// The same for all, where the response says that it depends on the agent.
    fn varies(&self, answer: &Answer) {
        let answer = answer.clone();
        *lock(&self.origins.by_agent) =
            Some(Box::new(move |_| Told { answer: answer.clone(), varies: true }));
    }
}

/// Before an origin that tells each agent that.
fn waf(rows: &[(&'static str, Answer)]) -> House {
    let house = House::new(vec![]);
    house.tells(rows);
    house
}

fn told(answer: Option<Answer>) -> Answer {
    answer.expect("an answer")
}

/// A page of a WAF.
fn page() -> Answer {
    typed(file("<!doctype html>\n<title>Are you human?</title>\n"), "text/html; charset=utf-8")
}

fn typed(mut answer: Answer, media_type: &'static str) -> Answer {
    if let Ok(AccessResult::Successful { snapshot, .. }) = &mut answer {
        Arc::make_mut(snapshot).content_type = Some(HeaderValue::from_static(media_type));
    }
    answer
}

fn down() -> Option<Answer> {
    failed(NetworkFailure::Connection)
}

fn failed(failure: NetworkFailure) -> Option<Answer> {
    Some(Ok(AccessResult::Without(Cause::failed(failure, ""))))
}

fn redirects() -> Option<Answer> {
    Some(Ok(AccessResult::Without(Cause::TooManyRedirects { limit: 5 })))
}

/// All that a server can make of one agent: name, answer, what follows for that agent alone.
fn refusals() -> Vec<(&'static str, Answer, &'static str)> {
    vec![
        ("a page in place of the file", page(), "rules"),
        ("a page without a media type", file("\u{feff} \n<html>Blocked</html>"), "rules"),
        ("a file without rules", file(""), "no rules"),
        ("another file", file("user-agent: *\nallow: /\n"), "rules"),
        ("400", told(status(400)), "allow"),
        ("401", told(status(401)), "allow"),
        ("403", told(status(403)), "allow"),
        ("404", told(status(404)), "allow"),
        ("410", told(status(410)), "allow"),
        ("429", told(status(429)), "disallow"),
        ("431", told(status(431)), "allow"),
        ("451", told(status(451)), "allow"),
        ("500", told(status(500)), "disallow"),
        ("503", told(status(503)), "disallow"),
        ("206", told(status(206)), "disallow"),
        ("304 to nothing", told(status(304)), "disallow"),
        ("redirects without end", told(redirects()), "allow"),
        ("a redirect that is refused", told(failed(NetworkFailure::RedirectRefused)), "disallow"),
        ("no response in time", told(failed(NetworkFailure::Timeout)), "disallow"),
        ("a response that ends early", told(failed(NetworkFailure::CutShort)), "disallow"),
        ("no HTTP", told(failed(NetworkFailure::InvalidResponse)), "disallow"),
        ("what does not decode", told(failed(NetworkFailure::Undecodable)), "disallow"),
    ]
}

#[tokio::test]
async fn what_one_agent_is_told_neither_opens_nor_shuts_the_site_for_another() {
    for (name, answer, own) in refusals() {
        let house = waf(&[("Attacker", answer), ("", file(RULES))]);
        let first = house.policy_of("Attacker").await;
        let is_page = name.starts_with("a page");
        assert_eq!(first, if is_page { "no rules" } else { own }, "{name}");
        for victim in ["Victim", "Another"] {
            assert_eq!(house.told_to(victim, &rfc9309(), 2).await, "rules", "{name}: {victim}");
        }
        assert_eq!(house.policy_of("Attacker").await, own, "{name}: kept for the one it is for");
        let expected = ["Attacker", "courtesy", "Victim", "Another"];
        assert_eq!(house.asked_for(), expected, "{name}: who differs has its own");
    }
}

#[tokio::test]
async fn a_refusal_to_one_agent_does_not_bind_another_after_a_restart() {
    for (name, answer, own) in refusals() {
        let home = Home::new();
        let house = home.house(vec![]);
        let site = [("Attacker", answer), ("", file(RULES))];
        house.tells(&site);
        house.policy_of("Attacker").await;
        let house = house.restart(vec![]);
        house.tells(&site);
        assert_eq!(house.told_to("Victim", &rfc9309(), 2).await, "rules", "{name}");
        assert_eq!(house.policy_of("Attacker").await, own, "{name}");
        let house = house.restart(vec![]);
        assert_eq!(house.told_to("Victim", &rfc9309(), 2).await, "rules", "{name}");
        assert_eq!(house.policy_of("Attacker").await, own, "{name}");
        assert_eq!(house.fetches(), 0, "{name}: all of it is on the disk");
        // The file is everybody's before the attacker comes.
        let house = waf(&site);
        for agent in ["Victim", "Another", "Attacker", "Victim"] {
            assert_eq!(house.policy_of(agent).await, "rules", "{name}: {agent}");
        }
        assert_eq!(house.asked_for(), ["Victim", "courtesy"], "{name}");
    }
}

#[tokio::test]
async fn a_refusal_at_a_refresh_does_not_bind_another_agent() {
    for (name, answer, _) in refusals() {
        for time in [LATE, DAY, 3 * DAY] {
            let house = waf(&[("Attacker", answer.clone()), ("", file(RULES))]);
            house.policy_of("Victim").await;
            house.policy_of("Another").await;
            house.clock.advance(time);
            house.policy_of("Attacker").await;
            settle().await;
            for victim in ["Victim", "Another", "Third"] {
                assert_eq!(
                    house.told_to(victim, &rfc9309(), 2).await,
                    "rules",
                    "{name} after {time:?}: {victim}"
                );
                settle().await;
            }
        }
    }
}

#[tokio::test]
async fn one_token_costs_one_fetch_and_many_cost_two_in_each_life_of_the_file() {
    for answer in [file(RULES), told(status(404)), told(status(410)), page()] {
        let house = waf(&[("", answer.clone())]);
        for life in 0..3 {
            for agent in ["One", "One", "Two", "Three", "courtesy", "Two", "One"] {
                house.policy_of(agent).await;
                settle().await;
                if agent == "One" {
                    assert!(house.fetches() <= 2 * life + 2, "{answer:?}");
                }
            }
            assert_eq!(house.fetches(), 2 * life + 2, "{answer:?}: {:?}", house.asked_for());
            house.clock.advance(DAY);
        }
        let house = waf(&[("", answer)]);
        for life in 0..3 {
            for _ in 0..3 {
                house.policy_of("One").await;
            }
            assert_eq!(house.fetches(), life + 1);
            house.clock.advance(DAY);
        }
    }
}

/// What fails before a request tells who asks concerns all.
#[tokio::test]
async fn a_site_that_cannot_be_reached_is_so_for_all() {
    for failure in [
        NetworkFailure::NameNotFound,
        NetworkFailure::Dns,
        NetworkFailure::DnsTimeout,
        NetworkFailure::Connection,
        NetworkFailure::Tls,
        NetworkFailure::Parent,
    ] {
        let house = waf(&[("", told(failed(failure)))]);
        for agent in ["One", "Two", "Three", "courtesy"] {
            assert_eq!(house.policy_of(agent).await, "disallow");
        }
        assert_eq!(house.fetches(), 1, "{failure:?}");
    }
}

#[tokio::test]
async fn a_file_that_varies_by_agent_is_fetched_for_each() {
    let house = House::new(vec![]);
    house.varies(&file(RULES));
    for _ in 0..2 {
        for agent in ["One", "Two", "Three"] {
            assert_eq!(house.policy_of(agent).await, "rules");
        }
    }
    assert_eq!(house.asked_for(), ["One", "courtesy", "Two", "Three"]);
    // Beyond the places the common copy decides.
    for number in 0..2 * AGENTS_PER_ORIGIN_MAX {
        assert_eq!(house.policy_of(&format!("more-{number}")).await, "rules");
    }
    assert_eq!(house.fetches(), AGENTS_PER_ORIGIN_MAX + 1);
}

#[tokio::test]
async fn a_page_never_takes_the_place_of_a_good_copy() {
    for page in [page(), file("\n <a>"), typed(file(RULES), "Text/HTML")] {
        for agent in ["One", "courtesy"] {
            let home = Home::new();
            let house = home.house(vec![]);
            house.tells(&[("", file(RULES))]);
            assert_eq!(house.policy_of(agent).await, "rules");
            house.tells(&[("", page.clone())]);
            for _ in 0..40 {
                house.clock.advance(DAY);
                assert_eq!(house.policy_of(agent).await, "rules", "{page:?}");
            }
            let house = house.restart(vec![]);
            assert_eq!(house.policy_of(agent).await, "rules");
            let report = house.store.get(&origin(HOST)).await.expect("it is known").persisted;
            let (_, shown) = report.shown();
            assert!(!shown.good.expect("it is kept").file.page);
            let cause = shown.failed.expect("what came instead").cause;
            assert_eq!(cause.failure(), Some(NetworkFailure::NotRobotsTxt));
            house.clock.advance(DAY);
            house.tells(&[("", file("user-agent: *\ndisallow: /\n"))]);
            assert_eq!(house.policy_of(agent).await, "rules");
        }
    }
    // Without one it is read as any other file, and marked.
    let house = waf(&[("", page())]);
    assert_eq!(house.policy_of("One").await, "no rules");
    let report = house.store.get(&origin(HOST)).await.expect("it is known").persisted;
    assert!(report.shown().1.good.expect("a file").file.page);
}

#[tokio::test]
async fn a_changed_file_costs_two_fetches_too() {
    for time in [LATE, DAY] {
        let house = waf(&[("", file(RULES))]);
        for agent in ["One", "Two"] {
            house.policy_of(agent).await;
        }
        house.clock.advance(time);
        house.tells(&[("", file("user-agent: *\ndisallow: /\n"))]);
        for _ in 0..2 {
            for agent in ["One", "Two", "Three", "Four"] {
                assert_eq!(house.policy_of(agent).await, "rules");
                settle().await;
            }
        }
        assert_eq!(house.fetches(), 4, "after {time:?}: {:?}", house.asked_for());
    }
}

/// What an agent gets keeps the copy that it went by before, and a 304 is about that copy.
#[tokio::test]
async fn an_agent_begins_with_the_copy_that_decided_for_it() {
    for answer in [status(429), status(503), failed(NetworkFailure::Timeout)] {
        let house = waf(&[("", file(RULES))]);
        for agent in ["One", "Two"] {
            house.policy_of(agent).await;
        }
        house.clock.advance(DAY);
        house.tells(&[("One", told(answer)), ("", told(not_modified()))]);
        assert_eq!(house.policy_of("One").await, "rules", "the copy, RFC 9309 §2.3.1.4");
        assert_eq!(house.policy_of("Two").await, "rules");
        let asked = lock(&house.origins.asked);
        assert!(asked[2..].iter().all(|ask| ask.validators.is_some()), "{asked:?}");
    }
}

/// It was stored by a version that kept the file of any agent for all.
#[tokio::test]
async fn what_an_older_version_stored_counts_for_the_agent_of_its_capture() {
    for (user_agent, expected) in [
        (Some("Attacker courtesy/0.1.0 (+https://example.com)"), &["Victim"][..]),
        (Some("Victim courtesy/0.1.0"), &[]),
        (Some("courtesy/0.1.0"), &[]),
        (None, &["Victim"]),
    ] {
        let home = Home::new();
        let house = home.house(vec![Some(file(RULES))]);
        let profile = rfc9309();
        house.policy_of("courtesy").await;
        let builder = &house.store.core.entries.builder;
        let entry = house.store.core.entries.lock().memory.get(&origin(HOST)).cloned();
        let (mut older, mut blobs) = entry.expect("it is known").persist();
        older.common = false;
        if let Some(user_agent) = user_agent {
            let json = serde_json::json!({
                "answers": [], "asked": origin(HOST).robots_url(), "body": null, "failure": null,
                "fetched_at": 0, "user_agent": user_agent
            });
            let json = Bytes::from(json.to_string());
            let digest = Digest(Sha256::digest(&json).into());
            blobs.insert(digest, json);
            older.good.as_mut().expect("a file").file.capture = Some(digest);
        }
        let entry = builder.restore(&[profile], older, blobs).expect("it can be read");
        house.store.core.entries.lock().memory.put(&origin(HOST), entry);
        house.tells(&[("", file(RULES))]);
        assert_eq!(house.policy_of("Victim").await, "rules");
        let asked: Vec<_> = house.asked_for().into_iter().skip(1).collect();
        let expected: Vec<_> = if user_agent.is_some_and(|it| it.starts_with("Attacker")) {
            vec!["courtesy"]
        } else {
            expected.to_vec()
        };
        assert_eq!(asked, expected, "{user_agent:?}");
    }
}

/// A failure of the site goes on with each agent's outage; the thirty days are those of both.
#[tokio::test]
async fn a_failure_of_the_site_is_part_of_each_agents_outage() {
    let house = waf(&[("Refused", told(status(403))), ("", told(status(503)))]);
    assert_eq!(house.policy_of("Refused").await, "allow");
    for day in 0..30 {
        house.tells(&[("Refused", told(status(403))), ("", told(status(503)))]);
        house.clock.advance(DAY / 2);
        assert_eq!(house.told_to("Failing", &rfc9309(), 2).await, "disallow", "{day}");
        house.tells(&[("", told(down()))]);
        house.clock.advance(DAY / 2);
        assert_eq!(house.told_to("Failing", &rfc9309(), 2).await, "disallow", "{day}");
        assert_eq!(house.policy_of("Refused").await, "disallow", "the site has failed since");
    }
    house.tells(&[("Victim", file(RULES)), ("courtesy", file(RULES)), ("", told(status(503)))]);
    house.clock.advance(DAY / 2);
    assert_eq!(house.told_to("Failing", &rfc9309(), 2).await, "allow", "RFC 9309 §2.3.1.4");
    assert_eq!(house.told_to("Victim", &rfc9309(), 3).await, "rules");
}

#[tokio::test]
async fn beyond_the_places_the_common_copy_decides() {
    for (name, answer, _) in refusals() {
        let home = Home::new();
        let house = home.house(vec![]);
        let common = ("courtesy", file(RULES));
        house.tells(&[common, ("", answer.clone())]);
        let mut bytes = 0;
        for number in 0..50 {
            house.told_to(&format!("made-up-{number}"), &rfc9309(), number).await;
            if usize::from(number) > AGENTS_PER_ORIGIN_MAX + 1 {
                assert!(house.store.stats().bytes <= bytes + 64, "{name}");
            }
            bytes = house.store.stats().bytes;
        }
        assert!(house.fetches() <= AGENTS_PER_ORIGIN_MAX + 1, "{name}: {:?}", house.asked_for());
        assert_eq!(house.told_to("Victim", &rfc9309(), 99).await, "rules", "{name}");
        let report = house.store.get(&origin(HOST)).await.expect("it is known").persisted;
        assert!(report.agents.len() <= AGENTS_PER_ORIGIN_MAX, "{name}");
        let house = house.restart(vec![]);
        assert_eq!(house.told_to("Victim", &rfc9309(), 99).await, "rules", "{name}");
    }
}

/// Where this program alone is refused, too, its refusal stands in for no agent: each asks for
/// itself, and many displace the oldest.
#[tokio::test]
async fn a_refusal_of_courtesy_opens_the_site_for_no_other() {
    for code in [400, 401, 403, 451] {
        let house = waf(&[("Victim", file(RULES)), ("", told(status(code)))]);
        for number in 0..50 {
            let agent = format!("made-up-{number}");
            assert_eq!(house.policy_of(&agent).await, "allow", "what it was told itself");
        }
        assert_eq!(house.policy_of("Victim").await, "rules", "{code}");
    }
}

#[tokio::test]
async fn fetches_that_fail_share_one_back_off_whatever_the_token() {
    for answer in [
        status(429),
        status(500),
        status(503),
        failed(NetworkFailure::Timeout),
        failed(NetworkFailure::CutShort),
        failed(NetworkFailure::InvalidResponse),
        down(),
    ] {
        let name = format!("{answer:?}");
        let house = waf(&[("", told(answer))]);
        for number in 0..100 {
            let told = house.policy_of(&format!("made-up-{number}")).await;
            assert!(["disallow", "undecided"].contains(&told), "{name}: {told}");
        }
        assert!(house.fetches() <= 2, "{name}: {:?}", house.asked_for());
        // An hour of ten tokens a second: the back-off doubles up to ten minutes.
        for number in 0..3600 {
            house.clock.advance(Duration::from_secs(1));
            house.policy_of(&format!("made-up-{}", number % 300)).await;
        }
        assert!(house.fetches() < 40, "{name}: {}", house.fetches());
        // The site has recovered: that is seen after the longest back-off.
        house.tells(&[("", file(RULES))]);
        house.clock.advance(HOUR / 6);
        assert_eq!(house.policy_of("Victim").await, "rules", "{name}");
    }
}

#[tokio::test]
async fn a_client_whose_tokens_fail_holds_up_no_other_client() {
    for code in [429, 503] {
        let house = waf(&[("Victim", file(RULES)), ("", told(status(code)))]);
        for number in 0..50 {
            house.policy_of(&format!("made-up-{number}")).await;
        }
        assert_eq!(house.told_to("Victim", &rfc9309(), 2).await, "rules", "{code}");
        assert!(house.fetches() <= 3, "{code}: {:?}", house.asked_for());
    }
}

#[tokio::test]
async fn what_was_observed_for_long_keeps_its_place() {
    let house = waf(&[("", told(status(503)))]);
    for _ in 0..3 {
        house.policy_of("Real").await;
        house.clock.advance(HOUR);
    }
    for number in 0..30 {
        house.told_to(&format!("made-up-{number}"), &rfc9309(), number).await;
    }
    let persisted = house.store.get(&origin(HOST)).await.expect("it is known").persisted;
    let real = persisted.agents.iter().find(|agent| agent.identity.as_str() == "Real courtesy");
    assert_eq!(real.expect("it has its place").states[0].since, START);
}

/// Two agents with files of their own, under two profiles.
#[tokio::test]
async fn each_answer_holds_under_every_profile_and_over_a_restart() {
    let (rfc9309, conservative) = (rfc9309(), named("conservative"));
    let home = Home::new();
    let house = home.house(vec![]);
    house.store.set_profiles([&rfc9309, &conservative]);
    house.tells(&[("Refused", told(status(403))), ("Open", file("")), ("", file(RULES))]);
    let all = async |house: &House| {
        let mut told = Vec::new();
        for agent in ["Refused", "Open", "Victim", "courtesy"] {
            for profile in [&rfc9309, &conservative] {
                told.push(house.told_under(agent, profile).await);
            }
        }
        told
    };
    let expected =
        ["allow", "disallow", "no rules", "no rules", "rules", "rules", "rules", "rules"];
    assert_eq!(all(&house).await, expected);
    assert_eq!(house.asked_for(), ["Refused", "courtesy", "Open", "Victim"]);
    let house = house.restart(vec![]);
    house.store.set_profiles([&rfc9309, &conservative]);
    assert_eq!(all(&house).await, expected);
    assert_eq!(house.fetches(), 0);
}

fn ask_as(house: &House, agent: String) -> tokio::task::JoinHandle<&'static str> {
    let store = Arc::clone(&house.store);
    tokio::spawn(async move {
        match store.lookup(&origin(HOST), &rfc9309(), Some(&agent), &client(1)).await {
            Ok(known) => known.state().word(),
            Err(_) => "undecided",
        }
    })
}

#[tokio::test]
async fn first_contact_of_many_agents_is_two_fetches() {
    let house = House::new(vec![None, None]);
    let asking: Vec<_> =
        (0..100).map(|number| ask_as(&house, format!("agent-{}", number % 10))).collect();
    settle().await;
    assert_eq!((house.fetches(), house.store.stats().flights), (2, 2));
    assert_eq!(house.asked_for(), ["agent-0", "courtesy"]);
    house.answer(file(RULES));
    house.answer(file(RULES));
    for asker in asking {
        assert_eq!(asker.await.expect("no panic"), "rules");
    }
    assert_eq!(house.fetches(), 2);
}

/// A site that holds up one agent holds up no other.
#[tokio::test]
async fn nobody_waits_for_the_fetch_of_another_agent() {
    let house = House::new(vec![None, None]);
    let attacker = ask_as(&house, "attacker".into());
    settle().await;
    let victim = ask_as(&house, "victim".into());
    settle().await;
    let held = lock(&house.origins.held).pop().expect("the common copy is fetched");
    assert!(held.send(file(RULES)).is_ok());
    assert_eq!(victim.await.expect("no panic"), "rules");
    house.answer(status(503).expect("an answer"));
    assert_eq!(attacker.await.expect("no panic"), "unreachable");
    assert_eq!(house.asked_for(), ["attacker", "courtesy"]);
}

/// What one fetch has learnt is not lost to another that began before it ended.
#[tokio::test]
async fn fetches_that_end_at_the_same_time_lose_nothing_of_each_other() {
    let house = House::new((0..9).map(|_| None).collect());
    let first = ask_as(&house, "first".into());
    settle().await;
    let asking: Vec<_> = (0..4).map(|number| ask_as(&house, format!("agent-{number}"))).collect();
    settle().await;
    // The first, and the common copy.
    (0..2).for_each(|_| house.answer(status(403).expect("an answer")));
    assert_eq!(first.await.expect("no panic"), "unavailable");
    settle().await;
    assert_eq!(house.store.stats().flights, 4);
    (0..4).for_each(|_| house.answer(status(403).expect("an answer")));
    for asker in asking {
        assert_eq!(asker.await.expect("no panic"), "unavailable");
    }
    let persisted = house.store.get(&origin(HOST)).await.expect("it is known").persisted;
    assert_eq!(persisted.agents.len(), 5);
}

#[tokio::test]
async fn a_text_that_is_set_for_all_has_one_answer_for_all() {
    // The scripted fetch asks as the agent; with one token for all it is one identity.
    let house = House::new(vec![status(403)]);
    let long = ["a".repeat(65), "b".repeat(9000)];
    assert_eq!(house.policy_of(&long[0]).await, "allow");
    assert_eq!(house.policy_of(&long[1]).await, "allow", "both are fetched for as courtesy alone");
    assert_eq!(house.asked_for(), ["courtesy"]);
}
