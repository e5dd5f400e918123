//! Denials of the gate in each state of the machine, decided again from their records and blobs
//! alone.

mod site;

use std::sync::Arc;
use std::time::Duration;

use crate::audit::read::replay::{Answer, Replay, Replayed};
use crate::audit::{self, AllowedReason, Reason};
use crate::policy::access::NetworkFailure;
use crate::policy::profile::Profile;
use crate::proxy::denial::{Denial, Recorded};
use site::{Answers, DAY, FILE, Site};

#[test]
fn a_rule_decides_again_from_the_kept_file() {
    let site = Site::under("rfc9309").answers(Answers::File(FILE));
    let denial = site.denies("/private/a?b=c");
    site.is_same(&denial, Reason::DisallowRule);
    // First match in order, where the order matters.
    let open = "user-agent: *\nallow: /private/a\ndisallow: /private/a/long\n";
    let site = Site::under("rfc9309").answers(Answers::File(open));
    let denial = site.denies("/private/a/long");
    site.is_same(&denial, Reason::DisallowRule);
    site.is_allowed_under("koster-1996", &denial);
}

#[test]
fn an_unreachable_file_without_a_copy_is_decided_again() {
    for answer in
        [Answers::Status(503), Answers::Status(429), Answers::Failure(NetworkFailure::Timeout)]
    {
        let site = Site::under("rfc9309").answers(answer);
        let denial = site.denies("/anything");
        site.is_same(&denial, Reason::RobotsUnreachable);
        site.is_allowed_under("archival", &denial);
    }
    let site = Site::under("rfc9309").answers(Answers::Status(429));
    let denial = site.denies("/anything");
    site.is_allowed_under("draft-rep-00", &denial);
}

#[test]
fn an_unreachable_file_with_a_copy_is_decided_again_by_the_copy() {
    let site =
        Site::under("rfc9309").answers(Answers::File(FILE)).after_a_request_for("/").later(2 * DAY);
    let site = site.answers(Answers::Status(503));
    let denial = site.denies("/private/a");
    site.is_same(&denial, Reason::DisallowRule);
    // Twelve hours of nothing, for those who pause; and nothing at all for those without copies.
    for profile in ["google", "koster-1996"] {
        let outcome = site.again_under(profile, &denial);
        let unreachable = |is: &Answer| {
            matches!(is, Answer::Disallowed { reason: Reason::RobotsUnreachable, .. })
        };
        assert!(matches!(&outcome, Replayed::Differs { is, .. } if unreachable(is)), "{outcome:?}");
    }
}

#[test]
fn denials_of_one_state_share_its_summary() {
    let said = |denial: Recorded<Denial>| denial.robots.clone().unwrap();
    let site = Site::under("rfc9309").answers(Answers::File(FILE));
    let first = said(site.denies("/private/a"));
    assert!(Arc::ptr_eq(&first, &said(site.denies("/private/b"))));
    assert!(Arc::ptr_eq(&first, &said(site.denies_host())));
    let site = site.later(2 * DAY).answers(Answers::Status(503));
    let next = said(site.denies("/private/a"));
    assert_eq!((first.record.result.as_deref(), first.record.failures), (Some("successful"), None));
    assert_eq!((next.record.result.as_deref(), next.record.failures), (Some("status"), Some(1)));
    assert_eq!(next.record.sha256, first.record.sha256, "the copy still decides");
}

#[test]
fn a_long_outage_is_decided_again() {
    let mut site = Site::under("conservative");
    for _ in 0..32 {
        site = site.answers(Answers::Status(500)).after_a_request_for("/").later(DAY);
    }
    let site = site.answers(Answers::Status(500));
    let denial = site.denies("/anything");
    site.is_same(&denial, Reason::RobotsUnreachable);
    // Thirty days have been seen to pass: the default opens.
    site.is_allowed_under("rfc9309", &denial);
}

#[test]
fn a_file_with_denied_access_is_decided_again() {
    for profile in ["koster-1996", "conservative"] {
        let site = Site::under(profile).answers(Answers::Status(403));
        let denial = site.denies("/anything");
        site.is_same(&denial, Reason::RobotsAccessDenied);
        site.is_allowed_under("rfc9309", &denial);
    }
}

#[test]
fn a_copy_that_serves_out_after_a_404_is_decided_again() {
    let site = Site::under("draft-rep-00").answers(Answers::File(FILE)).after_a_request_for("/");
    // Nearly stale: it is asked for again while the copy serves, and is gone.
    let site = site
        .later(DAY - Duration::from_secs(60))
        .answers(Answers::Status(404))
        .after_a_request_for("/");
    let denial = site.denies("/private/a");
    site.is_same(&denial, Reason::DisallowRule);
}

#[test]
fn the_last_line_of_a_cut_file_is_ignored_again() {
    let site =
        Site::under("rfc9309").answers(Answers::Cut("user-agent: *\ndisallow: /a\nallow: /a/bcd"));
    let denial = site.denies("/a/b");
    site.is_same(&denial, Reason::DisallowRule);
    site.is_same(&site.denies("/a/bcd"), Reason::DisallowRule);
}

#[test]
fn a_host_is_decided_again_without_a_path() {
    let site = Site::under("rfc9309").answers(Answers::File(FILE));
    let denial = site.denies_host();
    site.is_same(&denial, Reason::PathNotSeen);
    let site = Site::under("rfc9309").answers(Answers::File("user-agent: *\ndisallow: /\n"));
    let denial = site.denies_host();
    assert!(!denial.record.path_seen);
    site.is_same(&denial, Reason::DisallowRule);
}

#[test]
fn what_was_allowed_is_decided_again_on_the_same_basis() {
    let site = |answer| Site::under("rfc9309").answers(answer);
    let open = "user-agent: *\nallow: /open\ndisallow: /private\n";
    for (path, reason) in [
        ("/public?a=b", AllowedReason::NoRule),
        ("/open/a", AllowedReason::Rule),
        ("/robots.txt", AllowedReason::RobotsTxtItself),
    ] {
        let site = site(Answers::File(open));
        site.is_same_allowed(&site.allows(path), reason);
    }
    let others = site(Answers::File("user-agent: other\ndisallow: /\n"));
    others.is_same_allowed(&others.allows("/a"), AllowedReason::NoGroup);
    let gone = site(Answers::Status(404));
    gone.is_same_allowed(&gone.allows("/a"), AllowedReason::Unavailable);
    let whole = site(Answers::File("user-agent: *\nallow: /\n"));
    let line = whole.allows_host();
    assert!(!line.path_seen);
    whole.is_same_allowed(&line, AllowedReason::Rule);
    let archival = Site::under("archival").answers(Answers::Status(503));
    archival.is_same_allowed(&archival.allows("/a"), AllowedReason::Unreachable);
}

#[test]
fn an_allowed_line_that_its_evidence_does_not_bear_out_is_found() {
    let site = Site::under("rfc9309").answers(Answers::File(FILE));
    let line = site.allows("/public");
    let changed = |change: fn(&mut audit::Allowed)| {
        let mut line = line.clone();
        change(&mut line);
        site.allowed_again(&line)
    };
    let forged = changed(|line| line.url = "http://example.com/private/a".into());
    assert!(
        matches!(&forged, Replayed::Differs { is: Answer::Disallowed { .. }, .. }),
        "{forged:?}"
    );
    let forged = changed(|line| line.reason = AllowedReason::Rule);
    assert!(matches!(&forged, Replayed::Differs { is: Answer::Allowed(_), .. }), "{forged:?}");
    let lost = changed(|line| line.robots.as_mut().unwrap().sha256 = Some("ab".repeat(32)));
    assert!(matches!(lost, Replayed::NoEvidence(_)), "{lost:?}");
}

#[test]
fn a_changed_record_or_evidence_is_decided_differently() {
    let site = Site::under("rfc9309").answers(Answers::File(FILE));
    let denial = site.denies("/private/a");
    let changed = |change: fn(&mut audit::Record)| {
        let mut record = denial.record.clone();
        change(&mut record);
        let mut replay =
            Replay::recorded(site.dir.path(), |name, _, _| Ok(Profile::named(name).unwrap()));
        replay.again(&record)
    };
    let differs = |outcome: &Replayed| matches!(outcome, Replayed::Differs { .. });
    for change in [
        (|record| record.rule.as_mut().unwrap().line = 3) as fn(&mut audit::Record),
        |record| record.rule.as_mut().unwrap().pattern = "/private".into(),
        |record| record.group.as_mut().unwrap().token = "examplebot".into(),
        |record| record.url = "http://example.com/private/open".into(),
        |record| record.reason = Reason::RobotsUnreachable,
    ] {
        let outcome = changed(change);
        assert!(differs(&outcome), "{outcome:?}");
    }
    let overdue = changed(|record| record.time = record.time.plus(3 * DAY));
    assert!(
        matches!(&overdue, Replayed::Undecidable(why) if why.contains("asked for again")),
        "{overdue:?}"
    );
    let refused = changed(|record| record.reason = Reason::OriginRefused);
    assert_eq!(refused, Replayed::NotOfRobots(Reason::OriginRefused));
    let missing = changed(|record| record.robots.as_mut().unwrap().sha256 = Some("ab".repeat(32)));
    assert!(
        matches!(&missing, Replayed::NoEvidence(what) if what.ends_with("is missing")),
        "{missing:?}"
    );
}

#[test]
fn a_cut_or_redacted_url_is_decided_again_if_the_rest_does_not_matter() {
    let file =
        "user-agent: *\ndisallow: /private/\ndisallow: /*?*secret\nallow: /private/?open=1234\n";
    let site = Site::under("rfc9309").answers(Answers::File(file));
    let redacted = |path: &str, shown: &str| {
        let mut record = site.denies(path).record.clone();
        record.url = format!("http://example.com{shown}");
        site.again(&record)
    };
    let hash = "~0123456789abcdef";
    assert_eq!(
        redacted("/private/?q=a", &format!("/private/?q={hash}")),
        Replayed::Undecidable("the values of its query are redacted".into())
    );
    let site = Site::under("rfc9309").answers(Answers::File(FILE));
    let redacted = |path: &str, shown: &str| {
        let mut record = site.denies(path).record.clone();
        record.url = format!("http://example.com{shown}");
        site.again(&record)
    };
    assert_eq!(redacted("/private/?q=a", &format!("/private/?q={hash}")), Replayed::Same);
    let long = format!("/private/a?{}", "b".repeat(9000));
    let denial = site.denies(&long);
    assert!(denial.record.url.contains("…["), "it is too long");
    site.is_same(&denial, Reason::DisallowRule);
    let long = format!("/private/{}", "b".repeat(9000));
    assert!(
        matches!(site.again(&site.denies(&long).record), Replayed::Undecidable(why) if why.contains("too long"))
    );
}
