//! Another robots.txt, or another state of it, has a notice in the log of denials; one without a meaning has none.

use std::time::Duration;

use courtesy::audit::evidence::{BlobStore, Found, Kind};
use courtesy::audit::read::Log;
use courtesy::audit::read::verify::{Findings, verify};
use serde_json::{Value, json};

use crate::testkit::parties::{Origin, Proxy, Script, answer, ok, ok_with, until};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const BASE: &str = "User-agent: *\nDisallow: /private/\n";

impl Proxy {
    /// The notices of changes so far.
    fn changes(&self) -> Vec<Value> {
        self.lines().into_iter().filter(|line| line["event"] == "changed").collect()
    }

    /// Those that there are once there are so many.
    #[track_caller]
    fn wait_for_changes(&self, count: usize) -> Vec<Value> {
        until("so many changes have a notice", || self.changes().len() >= count);
        let changes = self.changes();
        assert_eq!(changes.len(), count, "{changes:#?}");
        changes
    }

    /// How many changes of a kind were counted.
    fn counted(&self, kind: &str) -> u64 {
        let metrics = self.admin("/metrics").text();
        let name = format!("courtesy_robots_changes_total{{kind=\"{kind}\"}} ");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&name)).expect("the metric");
        line.parse().expect("a number")
    }

    /// All that is wrong with the log, its evidence included.
    #[track_caller]
    fn verify(&self) -> Findings {
        let findings =
            verify(&Log::Dir(self.audit_dir()), &[], true, &mut |_, _| {}).expect("a log");
        assert_eq!(findings.faults.count, 0, "{:#?}", findings.faults);
        findings
    }

    #[track_caller]
    fn is_kept(&self, kind: Kind, sha256: &Value) -> Vec<u8> {
        let sha256 = sha256.as_str().expect("a digest");
        match BlobStore::of(&self.audit_dir())
            .get(kind, sha256)
            .expect("a blob_store that can be read")
        {
            Found::Content(content) => content,
            other => panic!("{sha256}: {other:?}"),
        }
    }
}

fn status(code: u16) -> Script {
    Script::default().send(answer(code, "", ""))
}

/// What a proxy makes of an origin whose robots.txt is `before`, and a day later `after`.
fn between(
    before: Script,
    after: Script,
    edit: impl FnOnce(&mut courtesy::config::Settings),
) -> (Proxy, Origin) {
    let origin = Origin::start().on("/robots.txt", before).then("/robots.txt", after);
    let proxy = Proxy::with(edit);
    for page in ["/page", "/private/", "/a/1", "/b?q=secret&page=2"] {
        proxy.get(&origin.url(page));
    }
    proxy.clock.advance(DAY);
    proxy.get(&origin.url("/page"));
    (proxy, origin)
}

/// The same, and the one notice of it.
#[track_caller]
fn change(before: Script, after: Script) -> Value {
    let (proxy, origin) = between(before, after, |_| {});
    let mut changes = proxy.wait_for_changes(1);
    proxy.verify();
    let change = changes.remove(0);
    assert_eq!(change["origin"], origin.url(""), "{change:#}");
    assert_eq!(change["agent_asked"], "ExampleBot courtesy");
    change
}

#[test]
fn each_kind_of_change_is_told() {
    let more = |line: &str| ok([BASE, line].concat());
    for (before, after, kind) in [
        (ok(BASE), more("Disallow: /a/\n"), "narrower"),
        (ok(BASE), ok("User-agent: *\nDisallow:\n"), "wider"),
        (ok(BASE), more("Allow: /private/open\n"), "wider"),
        (ok(BASE), ok("User-agent: *\nDisallow: /a/\n"), "mixed"),
        (ok(BASE), more("Sitemap: https://a.example/map.xml\n"), "signals"),
        (ok(BASE), more("Crawl-delay: 5\n"), "signals"),
        (ok(BASE), more("Request-rate: 1/10\n"), "signals"),
        (ok(BASE), more("Content-Signal: ai-train=no\n"), "signals"),
        (status(404), ok(BASE), "appeared"),
        (ok(BASE), status(404), "gone"),
        (ok(BASE), status(503), "unreadable"),
        (status(503), ok(BASE), "back"),
    ] {
        let change = change(before, after);
        assert_eq!(change["kind"], kind, "{change:#}");
    }
}

#[test]
fn a_notice_says_what_changed_for_whom_and_what_it_would_have_denied() {
    let after = [BASE, "Disallow: /a/\nDisallow: /b\n"].concat();
    let (proxy, _origin) = between(ok(BASE), ok(&after), |_| {});
    let change = proxy.wait_for_changes(1).remove(0);
    assert_eq!((&change["added"], &change["removed"]), (&json!(2), &json!(0)));
    assert_eq!(
        change["touched"],
        json!([{ "agents": ["*", "ExampleBot"], "kind": "narrower", "profile": "rfc9309" }])
    );
    let sampled = &change["sampled"];
    // The denied page is no part of it; what was asked for after the change is.
    assert_eq!(sampled["now_denied"], 2, "{change:#}");
    assert!(sampled["seen"] == 3 || sampled["seen"] == 4, "{change:#}");
    assert_eq!(sampled["examples"], json!(["/a/1", "/b?q=secret&page=2"]));
    let (from, to) = (&change["from"], &change["to"]);
    assert_eq!(
        (&from["state"], &to["state"], &to["status"]),
        (&json!("rules"), &json!("rules"), &json!(200))
    );
    assert_eq!(
        (&from["since"], &to["since"]),
        (&json!("2026-01-01T00:00:00.000000Z"), &json!("2026-01-02T00:00:00.000000Z"))
    );
    assert_eq!(proxy.is_kept(Kind::File, &from["sha256"]), BASE.as_bytes());
    assert_eq!(proxy.is_kept(Kind::File, &to["sha256"]), after.as_bytes());
    for side in [from, to] {
        proxy.is_kept(Kind::Capture, &side["capture"]);
    }
    assert_eq!(proxy.verify().notices.changed, 1);
    assert_eq!(proxy.counted("narrower"), 1);
    let members: Vec<_> = change.as_object().expect("an object").keys().cloned().collect();
    let mut sorted = members.clone();
    sorted.retain(|member| member != "hash");
    sorted.sort();
    assert_eq!(members[..members.len() - 1], sorted);
}

#[test]
fn evidence_that_a_notice_names_and_that_is_gone_or_another_is_found() {
    let (proxy, _origin) = between(ok(BASE), ok([BASE, "Disallow: /a/\n"].concat()), |_| {});
    let change = proxy.wait_for_changes(1).remove(0);
    let blob_store = BlobStore::of(&proxy.audit_dir());
    let path = |side: &str| {
        blob_store.path(Kind::File, change[side]["sha256"].as_str().expect("a digest"))
    };
    std::fs::remove_file(path("from")).expect("a file of evidence");
    std::fs::write(path("to"), b"not what it was").expect("a file of evidence");
    let findings = verify(&Log::Dir(proxy.audit_dir()), &[], true, &mut |_, _| {}).expect("a log");
    assert_eq!(findings.faults.count, 2, "{:#?}", findings.faults);
    // The file of before is named by the record of a denial, too, and said to be missing once.
    let seqs: Vec<_> = findings.faults.described.iter().map(|fault| fault.seq).collect();
    assert_eq!(seqs.last(), Some(&change["seq"].as_u64()), "{:#?}", findings.faults);
}

#[test]
fn query_values_stay_out_of_a_notice_where_the_setting_says_so() {
    let after = [BASE, "Disallow: /b\n"].concat();
    let (proxy, _origin) =
        between(ok(BASE), ok(after), |settings| settings.audit.redact_query = true);
    let change = proxy.wait_for_changes(1).remove(0);
    assert_eq!(change["sampled"]["examples"], json!(["/b?q=&page="]));
    assert!(!change.to_string().contains("secret"));
}

#[test]
fn redaction_that_is_switched_on_holds_for_what_was_sampled_before() {
    let after = [BASE, "Disallow: /b\n"].concat();
    let origin = Origin::with_robots(BASE).then("/robots.txt", ok(after));
    let proxy = Proxy::start();
    proxy.get(&origin.url("/b?q=secret"));
    proxy.change(|settings| settings.audit.redact_query = true);
    proxy.get(&origin.url("/b?q=secret"));
    proxy.clock.advance(DAY);
    proxy.get(&origin.url("/page"));
    let change = proxy.wait_for_changes(1).remove(0);
    assert_eq!(change["sampled"]["examples"], json!(["/b?q="]), "{change:#}");
}

#[test]
fn a_change_without_meaning_is_counted_and_has_no_notice() {
    let after = "# Of today.\nUser-Agent: *\nDisallow: /private/ # as ever\n";
    let (proxy, _origin) = between(ok(BASE), ok(after), |_| {});
    until("it is counted", || proxy.counted("cosmetic") == 1);
    assert!(proxy.changes().is_empty());
}

#[test]
fn what_only_observes_notices_changes_too_and_denies_nothing() {
    let nothing = "User-agent: *\nDisallow: /\n";
    let (proxy, origin) = between(ok(BASE), ok(nothing), |settings| {
        settings.robots.mode = courtesy::config::Mode::Observe
    });
    let change = proxy.wait_for_changes(1).remove(0);
    // The page that the rules forbade was fetched, and is no allowed request all the same.
    assert_eq!(change["sampled"]["seen"], 3, "{change:#}");
    assert_eq!(change["sampled"]["now_denied"], 3);
    assert_eq!(proxy.get(&origin.url("/page")).status(), 200);
}

#[test]
fn a_file_that_comes_back_as_it_was_has_two_notices_and_no_difference() {
    let origin =
        Origin::with_robots(BASE).then("/robots.txt", status(503)).then("/robots.txt", ok(BASE));
    let proxy = Proxy::start();
    for _ in 0..3 {
        proxy.get(&origin.url("/page"));
        proxy.clock.advance(DAY);
    }
    let changes = proxy.wait_for_changes(2);
    assert_eq!((&changes[0]["kind"], &changes[1]["kind"]), (&json!("unreadable"), &json!("back")));
    for change in &changes {
        assert_eq!((&change["added"], &change["removed"]), (&json!(0), &json!(0)));
        assert_eq!(change["touched"][0]["agents"], json!([]));
        assert_eq!(change["from"]["sha256"], change["to"]["sha256"]);
    }
    let failed = &changes[0]["to"];
    assert_eq!((&failed["state"], &failed["status"]), (&json!("unreachable"), &json!(503)));
    proxy.is_kept(Kind::Capture, &failed["failed_capture"]);
    proxy.verify();
}

#[test]
fn a_confirmation_and_the_same_bytes_from_elsewhere_are_no_change() {
    let moved = Script::default().send(answer(301, "Location: /rules\r\n", ""));
    let origin = Origin::start()
        .on("/robots.txt", ok_with("ETag: \"1\"\r\n", BASE))
        .then("/robots.txt", Script::default().send(answer(304, "ETag: \"1\"\r\n", "")))
        .then("/robots.txt", moved)
        .on("/rules", ok(BASE));
    let mut proxy = Proxy::start();
    for _ in 0..4 {
        proxy.get(&origin.url("/page"));
        proxy.clock.advance(DAY);
    }
    assert_eq!((origin.count("/robots.txt"), origin.count("/rules")), (4, 2));
    proxy.stop();
    assert!(proxy.changes().is_empty());
}

#[test]
fn another_size_limit_is_no_change() {
    let long = format!("{BASE}# {}\n", "x".repeat(600 << 10));
    let origin = Origin::with_robots(&long);
    let proxy = Proxy::start();
    proxy.get(&origin.url("/page"));
    proxy.change(|settings| settings.robots.max_size = 1 << 20);
    proxy.clock.advance(DAY);
    let mut proxy = proxy;
    proxy.get(&origin.url("/page"));
    assert_eq!(origin.count("/robots.txt"), 2);
    proxy.stop();
    assert!(proxy.changes().is_empty(), "{:#?}", proxy.changes());
}

#[test]
fn a_change_while_the_proxy_was_stopped_is_told_after_the_start() {
    let origin =
        Origin::with_robots(BASE).then("/robots.txt", ok([BASE, "Disallow: /a/\n"].concat()));
    let proxy = Proxy::start();
    proxy.get(&origin.url("/page"));
    let proxy = proxy.restart(|_| {});
    proxy.clock.advance(30 * DAY);
    proxy.get(&origin.url("/page"));
    let change = proxy.wait_for_changes(1).remove(0);
    // Nothing is sampled yet, but for the request that brought it.
    assert_eq!(change["kind"], "narrower");
    assert_eq!(change["sampled"]["now_denied"], 0);
    proxy.verify();
}

#[test]
fn what_was_forgotten_or_is_seen_for_the_first_time_has_not_changed() {
    let origin = Origin::with_robots(BASE).then("/robots.txt", status(404));
    let mut proxy = Proxy::with(|settings| settings.store.enabled = false);
    proxy.get(&origin.url("/page"));
    let mut proxy = {
        proxy.stop();
        assert!(proxy.changes().is_empty());
        proxy.restart(|_| {})
    };
    proxy.get(&origin.url("/page"));
    assert_eq!(origin.count("/robots.txt"), 2);
    proxy.stop();
    assert!(proxy.changes().is_empty());
}

/// GET as another agent.
fn get_as(proxy: &Proxy, agent: &str, url: &str) {
    proxy.exchange("GET", url, &format!("User-Agent: {agent}/1.0\r\n"));
}

#[test]
fn an_origin_with_a_file_for_each_agent_changes_when_one_of_these_does() {
    let own = "User-agent: *\nDisallow: /own/\n";
    let origin = Origin::with_robots(BASE).on("OneBot /robots.txt", ok(own));
    let proxy = Proxy::start();
    for day in 0..8 {
        get_as(&proxy, ["OneBot", "OtherBot"][day % 2], &origin.url("/page"));
        proxy.clock.advance(DAY);
    }
    // After a restart, too.
    let proxy = proxy.restart(|_| {});
    proxy.clock.advance(10 * DAY);
    for day in 0..4 {
        get_as(&proxy, ["OneBot", "OtherBot"][day % 2], &origin.url("/page"));
        proxy.clock.advance(DAY);
    }
    assert!(proxy.changes().is_empty(), "{:#?}", proxy.changes());
    let origin = origin.on("OneBot /robots.txt", ok([own, "Disallow: /more/\n"].concat()));
    for day in 0..4 {
        get_as(&proxy, ["OneBot", "OtherBot"][day % 2], &origin.url("/page"));
        proxy.clock.advance(DAY);
    }
    let change = proxy.wait_for_changes(1).remove(0);
    assert_eq!(
        (&change["kind"], &change["agent_asked"]),
        (&json!("narrower"), &json!("OneBot courtesy"))
    );
    assert_eq!(proxy.is_kept(Kind::File, &change["from"]["sha256"]), own.as_bytes());
    proxy.verify();
}

#[test]
fn each_change_that_several_agents_see_has_one_notice() {
    let file = |number| ok(format!("{BASE}Disallow: /{number}\n"));
    let agents = ["OneBot", "OtherBot", "ThirdBot"];
    // Whoever asks first after a change, and whether others do.
    for asking in [&[0, 1, 2][..], &[0, 1], &[0]] {
        let origin = Origin::start().on("/robots.txt", file(0));
        let mut proxy = Proxy::start();
        agents.iter().for_each(|agent| get_as(&proxy, agent, &origin.url("/page")));
        let mut origin = origin;
        for change in 1..=3 {
            proxy.clock.advance(DAY);
            origin = origin.on("/robots.txt", file(change));
            for agent in asking {
                get_as(&proxy, agents[(agent + change) % 3], &origin.url("/page"));
            }
            proxy.wait_for_changes(change);
        }
        proxy.stop();
        let changes = proxy.changes();
        assert_eq!(changes.len(), 3, "{asking:?}: {changes:#?}");
    }
}

#[test]
fn an_outage_that_several_agents_see_has_one_notice_and_its_end_another() {
    let agents = ["OneBot", "OtherBot", "ThirdBot"];
    let origin = Origin::with_robots(BASE);
    let proxy = Proxy::start();
    agents.iter().for_each(|agent| get_as(&proxy, agent, &origin.url("/page")));
    let mut origin = origin;
    for (number, file) in [status(503), ok(BASE), status(503), ok(BASE)].into_iter().enumerate() {
        proxy.clock.advance(DAY);
        origin = origin.on("/robots.txt", file);
        // Each asks twice, and another one first each time.
        for at in 0..6 {
            get_as(&proxy, agents[(at + number) % 3], &origin.url("/page"));
        }
        proxy.wait_for_changes(number + 1);
    }
    let mut proxy = proxy;
    proxy.stop();
    let kinds: Vec<_> = proxy.changes().iter().map(|change| change["kind"].clone()).collect();
    assert_eq!(kinds, ["unreadable", "back", "unreadable", "back"]);
    proxy.verify();
}

#[test]
fn a_change_that_is_taken_back_is_told_again_when_another_agent_sees_it() {
    let other = [BASE, "Disallow: /a/\n"].concat();
    let origin = Origin::with_robots(BASE);
    let proxy = Proxy::start();
    let ask = |origin: &Origin, agent| get_as(&proxy, agent, &origin.url("/page"));
    ["OneBot", "OtherBot"].iter().for_each(|agent| ask(&origin, agent));
    let mut origin = origin;
    // The second one has seen nothing of what the first one saw.
    for (number, (file, agent)) in
        [(&*other, "OneBot"), (BASE, "OneBot"), (&*other, "OtherBot")].into_iter().enumerate()
    {
        proxy.clock.advance(DAY);
        origin = origin.on("/robots.txt", ok(file));
        ask(&origin, agent);
        proxy.wait_for_changes(number + 1);
    }
}

#[test]
fn a_file_has_a_bounded_number_of_notices_a_day() {
    const CHANGES: u64 = 2 * 24 * 6;
    let file =
        |number| ok_with("Cache-Control: max-age=300\r\n", format!("{BASE}Disallow: /{number}\n"));
    let origin = (0..CHANGES)
        .fold(Origin::start().on("/robots.txt", file(CHANGES)), |origin, number| {
            origin.then("/robots.txt", file(number))
        });
    let mut proxy = Proxy::start();
    let fetches = |count| until("it is fetched again", || origin.count("/robots.txt") == count);
    for number in 0..=CHANGES {
        proxy.get(&origin.url("/page"));
        fetches(usize::try_from(number).expect("few") + 1);
        proxy.clock.advance(Duration::from_secs(10 * 60));
    }
    until("all are counted", || proxy.counted("mixed") == CHANGES);
    proxy.stop();
    let changes = proxy.changes().len() as u64;
    let lines = proxy.lines();
    let omitted = lines.iter().filter(|line| line["event"] == "changes_omitted");
    let counts = omitted.map(|line| {
        assert_eq!(
            (&line["why"], &line["origin"]),
            (&json!("origin_limit"), &json!(origin.url("")))
        );
        line["omitted"].as_u64().expect("a number")
    });
    assert!((2 * 24..=3 * 24).contains(&changes), "{changes}");
    assert_eq!(changes + counts.sum::<u64>(), CHANGES);
    proxy.verify();
}

#[test]
fn a_thousand_changes_delay_no_request_and_are_shared_fairly() {
    const ORIGINS: usize = 1000;
    let origin = Origin::with_robots(BASE);
    let mut proxy = Proxy::start();
    let ask_all = || {
        let mut client = proxy.client();
        for number in 0..ORIGINS {
            assert_eq!(client.get(&origin.named(&format!("n{number}"), "/page")).status(), 200);
        }
    };
    ask_all();
    let origin = origin.robots(&[BASE, "Disallow: /a/\n"].concat());
    proxy.clock.advance(DAY);
    let ask_all = || {
        let mut client = proxy.client();
        for number in 0..ORIGINS {
            assert_eq!(client.get(&origin.named(&format!("n{number}"), "/page")).status(), 200);
        }
    };
    ask_all();
    until("all are counted", || proxy.counted("narrower") == ORIGINS as u64);
    proxy.stop();
    let lines = proxy.lines();
    let omitted: Vec<_> = lines.iter().filter(|line| line["event"] == "changes_omitted").collect();
    assert_eq!((proxy.changes().len(), omitted.len()), (ORIGINS / 2, 1));
    assert_eq!(
        (&omitted[0]["omitted"], &omitted[0]["why"]),
        (&json!(ORIGINS / 2), &json!("total_limit"))
    );
}

#[test]
fn notices_that_cannot_be_written_hold_nothing_up_and_are_counted() {
    let origin = Origin::with_robots(BASE).then("/robots.txt", status(404));
    let proxy = Proxy::start();
    proxy.get(&origin.url("/page"));
    proxy.audit.close().expect("a disk that answers");
    proxy.clock.advance(DAY);
    assert_eq!(proxy.get(&origin.url("/page")).status(), 200);
    let omitted =
        || proxy.admin("/metrics").text().contains("courtesy_robots_changes_omitted_total 1\n");
    until("it is counted", omitted);
    assert_eq!(proxy.counted("gone"), 1);
}
