use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use proptest::prelude::*;

use super::super::sample::{Offer, Samples, without_values};
use crate::policy::profile::Profile;
use crate::types::ClientKey;
use crate::types::origin::{Origin, Scheme};
use crate::watch::sample::{
    Reservoir, SAMPLE_AGENTS_MAX, SAMPLE_ORIGIN_BYTES_MAX, SAMPLE_ORIGINS_MAX,
    SAMPLE_PATH_BYTES_MAX, SAMPLE_PATHS_MAX,
};

fn profile() -> Arc<Profile> {
    Arc::new(Profile::named("rfc9309").unwrap())
}

fn origin(name: &str) -> Origin {
    Origin::from_authority(Scheme::Https, name).unwrap()
}

fn client(number: u32) -> ClientKey {
    ClientKey::of(IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + number)))
}

fn note(samples: &Samples, origin: &Origin, path: &str, profile: &Arc<Profile>, from: u32) {
    let offer = Offer { origin, path, token: Some("ExampleBot"), profile, is_redacted: false };
    samples.note(offer, || client(from));
}

/// A reservoir that has been offered `paths` by way of the counter that it asks for.
fn offered<'a>(paths: impl IntoIterator<Item = &'a str>, profile: &Arc<Profile>) -> Reservoir {
    let (mut reservoir, mut left) = (Reservoir::new(), 0);
    for path in paths {
        match left {
            0 => left = reservoir.take(path, Some("ExampleBot"), profile),
            _ => left -= 1,
        }
    }
    reservoir
}

#[test]
fn every_request_has_the_same_chance_whenever_it_came() {
    const REQUESTS: usize = 640;
    const ROUNDS: usize = 2000;
    let profile = profile();
    let paths: Vec<_> = (0..REQUESTS).map(|number| format!("/{number}")).collect();
    let mut counts: HashMap<String, usize> = HashMap::new();
    for _ in 0..ROUNDS {
        let sampled = offered(paths.iter().map(String::as_str), &profile).sampled();
        assert_eq!(sampled.len(), SAMPLE_PATHS_MAX);
        for taken in sampled {
            *counts.entry(taken.path.into()).or_default() += 1;
        }
    }
    // Each is taken with the probability 1/10, so 200 times with a deviation of 13.4: no tenth of them strays by
    // four deviations of its mean, no single one by seven.
    let count = |path: &String| counts.get(path).copied().unwrap_or_default();
    for path in &paths {
        assert!((106..=294).contains(&count(path)), "{path}: {}", count(path));
    }
    for tenth in paths.chunks(64) {
        let sum: usize = tenth.iter().map(count).sum();
        assert!((12_800 - 429..=12_800 + 429).contains(&sum), "{}: {sum}", tenth[0]);
    }
}

proptest! {
    #[test]
    fn a_sample_is_of_what_was_offered_and_keeps_its_bounds(
        offers in prop::collection::vec((0..40_u32, 1..1100_usize, 0..30_u32), 1..400)
    ) {
        let profile = profile();
        let (mut reservoir, mut left, mut model) = (Reservoir::new(), 0, Vec::new());
        for (number, (page, length, agent)) in offers.into_iter().enumerate() {
            let path = format!("/{page}/{number}/{}", "x".repeat(length));
            let token = (agent > 0).then(|| format!("Bot{agent}"));
            if path.len() <= SAMPLE_PATH_BYTES_MAX {
                model.push((path.clone(), token.clone()));
            }
            match left {
                0 => left = reservoir.take(&path, token.as_deref(), &profile),
                _ => left -= 1,
            }
            let sampled = reservoir.sampled();
            prop_assert!(sampled.len() <= SAMPLE_PATHS_MAX);
            prop_assert!(reservoir.bytes() <= SAMPLE_ORIGIN_BYTES_MAX);
            let mut tokens: Vec<_> = sampled.iter().map(|taken| taken.token.clone()).collect();
            tokens.sort();
            tokens.dedup();
            prop_assert!(tokens.len() <= SAMPLE_AGENTS_MAX);
        }
        let mut seen = Vec::new();
        for taken in reservoir.sampled() {
            let it = (String::from(taken.path), taken.token.map(|token| token.to_string()));
            prop_assert!(model.contains(&it) && !seen.contains(&it), "{:?}", it);
            seen.push(it);
        }
        let bytes: usize = model.iter().map(|(path, token)| path.len() + token.as_ref().map_or(0, String::len) + 96).sum();
        if model.len() <= SAMPLE_PATHS_MAX && bytes <= SAMPLE_ORIGIN_BYTES_MAX {
            let agents: std::collections::HashSet<_> = model.iter().map(|(_, token)| token).collect();
            prop_assert!(agents.len() > SAMPLE_AGENTS_MAX || seen.len() == model.len(), "{} of {}", seen.len(), model.len());
        }
    }
}

#[test]
fn made_up_names_do_not_take_the_place_of_one_in_use() {
    let (mut reservoir, profile) = (Reservoir::new(), profile());
    for number in 0..SAMPLE_PATHS_MAX / 2 {
        reservoir.take(&format!("/{number}"), Some("ExampleBot"), &profile);
    }
    for number in 0..100 {
        reservoir.take("/", Some(&format!("MadeUp{number}")), &profile);
    }
    let sampled = reservoir.sampled();
    let of_bot =
        sampled.iter().filter(|taken| taken.token.as_deref() == Some("ExampleBot")).count();
    assert!(of_bot > SAMPLE_PATHS_MAX / 4, "{of_bot} of {}", sampled.len());
}

#[test]
fn a_million_origins_take_no_more_memory_than_is_set_aside() {
    let (samples, profile, path) = (Samples::default(), profile(), "/p".repeat(400));
    for number in 0..1_000_000_u32 {
        let origin = origin(&format!("host-{number}.{}.example", "a".repeat(60)));
        // Some are asked often.
        for _ in 0..if number % 1000 == 0 { 70 } else { 1 } {
            note(&samples, &origin, &path, &profile, number % 7);
        }
    }
    let (bytes, origins) = samples.size();
    assert!(origins <= SAMPLE_ORIGINS_MAX && origins > SAMPLE_ORIGINS_MAX / 2, "{origins}");
    assert!(bytes <= 32 << 20, "{bytes}");
    // Were each as full as it may be.
    let fullest = SAMPLE_ORIGIN_BYTES_MAX + 1024;
    assert!(SAMPLE_ORIGINS_MAX * fullest + (1 << 20) <= 33 << 20);
}

#[test]
fn one_client_with_many_origins_leaves_the_others_theirs() {
    let (samples, profile) = (Samples::default(), profile());
    let own: Vec<_> = (0..200).map(|number| origin(&format!("own-{number}.example"))).collect();
    for number in 0..SAMPLE_ORIGINS_MAX * 4 {
        note(&samples, &origin(&format!("first-{number}.example")), "/", &profile, 1);
    }
    own.iter().for_each(|origin| note(&samples, origin, "/page", &profile, 2));
    own.iter().for_each(|origin| note(&samples, origin, "/page", &profile, 2));
    let sampled =
        |samples: &Samples| own.iter().filter(|origin| !samples.of(origin).is_empty()).count();
    let before = sampled(&samples);
    assert!(before > 180, "{before} of 200 have taken a place from who has most of them");
    for number in 0..SAMPLE_ORIGINS_MAX * 16 {
        note(&samples, &origin(&format!("later-{number}.example")), "/", &profile, 1);
    }
    assert_eq!(sampled(&samples), before);
}

#[test]
fn an_origin_in_use_stays_and_one_that_is_not_goes() {
    let (samples, profile, used) = (Samples::default(), profile(), origin("used.example"));
    for number in 0..SAMPLE_ORIGINS_MAX * 8 {
        note(&samples, &used, "/page", &profile, 1);
        note(&samples, &origin(&format!("once-{number}.example")), "/", &profile, 1);
    }
    assert_eq!(samples.of(&used).len(), SAMPLE_PATHS_MAX);
    assert!(samples.of(&origin("once-0.example")).is_empty());
}

#[test]
fn values_of_queries_are_left_out_where_the_setting_says_so() {
    for (path, expected) in [
        ("/a", "/a"),
        ("/a?", "/a?"),
        ("/a?secret", "/a?"),
        ("/a?q=secret&page=2&x", "/a?q=&page=&"),
        ("/a?q=b=c?d", "/a?q="),
    ] {
        assert_eq!(without_values(path), expected);
    }
    let (samples, profile, origin) = (Samples::default(), profile(), origin("a.example"));
    let offer = |path, is_redacted| Offer {
        origin: &origin,
        path,
        token: None,
        profile: &profile,
        is_redacted,
    };
    samples.note(offer("/a?q=secret", true), || client(1));
    samples.note(offer("/a?q=open", false), || client(1));
    let paths = |samples: &Samples| {
        samples.of(&origin).into_iter().map(|taken| taken.path).collect::<Vec<_>>()
    };
    assert_eq!(paths(&samples), ["/a?q=", "/a?q=open"].map(Box::<str>::from));
    samples.clear();
    assert!(paths(&samples).is_empty() && samples.size().1 == 0);
}
