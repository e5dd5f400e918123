//! Where the other published texts differ.

use super::*;

fn first(name: &str, result: &AccessResult) -> &'static str {
    Site::new(name).after(result).says()
}

#[test]
fn a_status_means_what_the_profile_says() {
    const ALLOW: &str = "allow: unavailable";
    const CLOSED: &str = "disallow: unavailable";
    const DEFER: &str = "disallow: unreachable";
    //  profile          401     404    400    429    500    304    600
    for (name, row) in [
        ("rfc9309", [ALLOW, ALLOW, ALLOW, DEFER, DEFER, DEFER, DEFER]),
        ("google", [ALLOW, ALLOW, ALLOW, DEFER, DEFER, DEFER, DEFER]),
        ("google-2019", [ALLOW, ALLOW, ALLOW, ALLOW, DEFER, DEFER, DEFER]),
        ("draft-rep-00", [ALLOW, ALLOW, ALLOW, ALLOW, DEFER, DEFER, DEFER]),
        ("koster-1996", [CLOSED, ALLOW, DEFER, DEFER, DEFER, DEFER, DEFER]),
        ("conservative", [CLOSED, ALLOW, CLOSED, DEFER, DEFER, DEFER, DEFER]),
    ] {
        for (code, expected) in [401, 404, 400, 429, 500, 304, 600].into_iter().zip(row) {
            assert_eq!(first(name, &status(code)), expected, "{name} {code}");
        }
    }
}

#[test]
fn redirects_without_end_mean_what_the_profile_says() {
    let many = AccessResult::Without(Cause::TooManyRedirects { limit: 5 });
    let circle = AccessResult::Without(Cause::RedirectLoop);
    let nowhere = AccessResult::Without(Cause::RedirectWithoutLocation { code: 302 });
    for (name, row) in [
        ("rfc9309", ["allow: unavailable", "disallow: unreachable", "disallow: unreachable"]),
        ("google", ["allow: unavailable", "allow: unavailable", "disallow: unreachable"]),
        ("google-2019", ["allow: unavailable", "allow: unavailable", "disallow: unreachable"]),
        (
            "koster-1996",
            ["disallow: unreachable", "disallow: unreachable", "disallow: unreachable"],
        ),
    ] {
        for (result, expected) in [&many, &circle, &nowhere].into_iter().zip(row) {
            assert_eq!(first(name, result), expected, "{name} {result}");
        }
    }
}

#[test]
fn google_stops_for_12_hours_then_uses_the_copy() {
    let down_for = |site: Site, hours: u32| {
        (0..=hours).fold(site, |site, _| site.after(&timeout()).later(HOUR))
    };
    let known = || Site::new("google").after(&good());
    let says = |site: Site| site.after(&timeout()).says();
    assert_eq!(says(down_for(known(), 10)), "disallow: unreachable");
    assert_eq!(says(down_for(known(), 11)), "rules");
    assert_eq!(says(down_for(known(), 24 * 29)), "rules");
    assert_eq!(says(down_for(Site::new("google"), 10)), "disallow: unreachable");
    assert_eq!(says(down_for(Site::new("google"), 11)), "allow: unreachable");
    assert_eq!(says(down_for(known(), 24 * 30)), "allow: long unreachable");
    assert_eq!(
        says(Site { site_up: false, ..down_for(known(), 24 * 30) }),
        "disallow: long unreachable"
    );
}

#[test]
fn google_2019_keeps_a_copy_and_never_opens_without() {
    assert_eq!(Site::new("google-2019").after(&good()).failing_for(40).says(), "rules");
    assert_eq!(Site::new("google-2019").failing_for(40).says(), "disallow: long unreachable");
}

#[test]
fn google_may_be_told_to_keep_a_copy_longer() {
    let freshness = Freshness { max_age: Some(2 * DAY), expires_in: Some(HOUR), no_cache: false };
    let site = Site::new("google").after(&good_with(freshness)).later(2 * DAY - HOUR);
    assert_eq!(site.says(), "rules");
    let endless = Freshness { max_age: Some(1000 * DAY), ..freshness };
    assert_eq!(Site::new("google").after(&good_with(endless)).later(30 * DAY).says(), "due");
}

#[test]
fn draft_rep_00_lets_a_copy_serve_out_its_24_hours_after_a_404() {
    let shortened = Freshness { max_age: Some(HOUR), ..Default::default() };
    let site =
        Site::new("draft-rep-00").after(&good_with(shortened)).later(HOUR).after(&status(404));
    assert_eq!(site.says(), "rules");
    // A second 404 does not make the copy any younger.
    let site = site.later(22 * HOUR).after(&status(404)).later(HOUR - MINUTE);
    assert_eq!(site.says(), "rules");
    let site = site.later(MINUTE);
    assert_eq!(site.says(), "due");
    assert_eq!(site.after(&status(404)).says(), "allow: unavailable");
}

#[test]
fn koster_defers_whatever_copy_there_is() {
    let site = Site::new("koster-1996").after(&good()).later(7 * DAY - HOUR);
    assert_eq!(site.says(), "rules");
    let site = site.later(HOUR);
    assert_eq!(site.says(), "due");
    assert_eq!(site.failing_for(40).says(), "disallow: long unreachable");
}

#[test]
fn conservative_never_opens_and_archival_never_closes() {
    assert_eq!(Site::new("conservative").failing_for(40).says(), "disallow: long unreachable");
    assert_eq!(Site::new("archival").failing_for(0).says(), "allow: unreachable");
    assert_eq!(Site::new("archival").after(&good()).failing_for(1).says(), "rules");
}
