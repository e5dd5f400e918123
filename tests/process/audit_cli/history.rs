//! What was asked of one site, under which version of its robots.txt, in one command: over a proxy that served it,
//! was stopped, and served again after the file had changed.

use serde_json::{Value, json};

use crate::audit_cli::support::{audit, fails, succeeds};
use crate::testkit::processes::{Place, Robots, Site};

const RULES: &str = "User-agent: *\nDisallow: /private/\n";

#[test]
fn a_sites_history_has_each_version_and_what_was_asked_under_it() {
    let site = Site::with_rules(RULES);
    let place = Place::new("");
    let serve = place.serve();
    for (path, status) in [("/a", 200), ("/b", 200), ("/private/a", 403)] {
        assert_eq!(serve.get(&site.url(path)).status, status, "{path}");
    }
    serve.stop();
    site.says(Robots::File(format!("{RULES}Disallow: /new/\n")));
    let origin = site.url("/").trim_end_matches('/').to_owned();
    succeeds(&mut place.command(&format!("store forget {origin}")));
    let serve = place.serve();
    for (path, status) in [("/new/a", 403), ("/a", 200)] {
        assert_eq!(serve.get(&site.url(path)).status, status, "{path}");
    }
    serve.stop();

    let dir = place.audit_dir();
    let history = succeeds(&mut audit(&dir, &["history", &origin, "--format", "json"]));
    let history: Value = serde_json::from_str(&history).unwrap();
    assert_eq!(history["origin"], origin);
    let versions = history["versions"].as_array().unwrap();
    assert_eq!(versions.len(), 2, "{history}");
    let sums = |at: usize| {
        let asked = &versions[at]["asked"];
        [&asked["asked"], &asked["allowed"], &asked["denied"], &asked["statuses"]["2xx"]]
            .map(Value::clone)
    };
    assert_eq!(sums(0), [3, 2, 1, 2].map(|count: u64| json!(count)), "{history}");
    assert_eq!(sums(1), [2, 1, 1, 1].map(|count: u64| json!(count)), "{history}");
    assert_eq!(
        [&versions[1]["added"], &versions[1]["removed"]],
        [&json!(["Disallow: /new/"]), &json!([])]
    );
    assert!(versions[0]["asked"]["bytes"].as_u64().unwrap() > 0);
    let text = succeeds(&mut audit(&dir, &["history", &origin]));
    for expected in [
        "3 asked: 2 allowed, 1 denied\n",
        "1 line added and 0 removed:\n     + Disallow: /new/\n",
        "2 asked: 1 allowed, 1 denied\n",
    ] {
        assert!(text.contains(expected), "{expected} is not in\n{text}");
    }
    // Both halves have their evidence: what was refused, and the files that allowed the rest.
    succeeds(&mut audit(&dir, &["verify"]));
    let said = fails(&mut audit(&dir, &["history", "https://other.example"]), 1);
    assert!(said.contains("the log does not name that site"), "{said}");
}
