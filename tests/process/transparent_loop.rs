//! Rules of the network that do not exempt the proxy's user: what it sends to origins comes back to it.

use std::path::Path;

use crate::transparent::run;
use crate::transparent_https::{SERVE_ORIGIN, trusting_origin};

const SCRIPT: &str = r#"
serve() { "$COURTESY" serve --listen 127.0.0.1:3128 --admin 127.0.0.1:3129 & proxy=$!; }
crawler() {
    echo "$1: $(setpriv --reuid=12345 --regid=12345 --clear-groups \
        curl -sk --max-time 30 -o /dev/null -w '%{http_code}' "$2")"
}
accepted() {
    curl -s http://127.0.0.1:3129/metrics |
        sed -n 's/^courtesy_connections_accepted_total{listener="transparent"}/accepted/p'
}
serve
"$COURTESY" redirect apply --uid 0
wait_for "$COURTESY" redirect check --uid 0 || exit 1
crawler http http://site.example/page
crawler tunnel https://site.example/page
"$COURTESY" redirect apply --uid 4242
"$COURTESY" redirect check --uid 0
# What robots.txt allows is known: the requests themselves come back.
crawler 'http again' http://site.example/page
crawler 'tunnel again' https://site.example/page
accepted
# Here the request for robots.txt comes back.
crawler 'unknown http' http://six.example/page
crawler 'unknown https' https://six.example/page
accepted
"#;

#[test]
fn a_loop_ends_at_its_first_turn_and_costs_few_connections() {
    let settings = |dir: &Path| {
        let trust = trusting_origin(dir);
        format!(
            "{trust}[https]\nmode = \"classify\"\nmixed = \"tunnel\"\n[robots]\nfetch_timeout = \"2s\"\n"
        )
    };
    let script = [SERVE_ORIGIN, SCRIPT].concat();
    let Some((said, place)) = run(&script, settings) else { return };
    let lines: Vec<_> = said.lines().collect();
    for expected in [
        "http: 200",
        "tunnel: 200",
        "the proxy's own connections (uid 0) are not exempt: a loop",
        "http again: 502",
        "tunnel again: 000",
        "unknown http: 403",
        "unknown https: 000",
    ] {
        assert!(lines.contains(&expected), "{expected} is not in:\n{said}");
    }
    assert!(said.contains("a connection of this proxy to an origin was redirected to itself"));
    let accepted = lines.iter().filter_map(|line| line.strip_prefix("accepted ")?.parse().ok());
    let accepted: Vec<u32> = accepted.collect();
    // Six of the crawler, as many that come back, and some of `redirect check`.
    assert!(accepted.len() == 2 && accepted[1] <= 25, "{accepted:?}:\n{said}");
    let reasons = place.log();
    let reasons: Vec<_> = reasons.events("denied").iter().map(|it| &it["reason"]).collect();
    assert!(reasons.iter().all(|reason| *reason == "robots_unreachable"), "{reasons:?}");
}
