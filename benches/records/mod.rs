//! Records of denials, the same every time: for the benches that write them.

use std::collections::BTreeMap;

use courtesy::audit::{
    AgentSource, Client, Event, Group, Profile, Reason, Record, Robots, RobotsStatus, Rule,
};
use courtesy::types::sanitize::sha256_hex;
use courtesy::types::timestamp::Timestamp;

const START: u64 = 1_795_000_000_000;
const AGENTS: [&str; 8] =
    ["ExampleBot", "Wget", "curl", "python-requests", "Scrapy", "CCBot", "ArchiveBot", "nutch"];

/// The record after line `n`: a tenth is for a robots.txt that cannot be had.
pub fn record(n: u64) -> Record {
    // Knuth's multiplicative hash: as good as chance here, and the same every time.
    let pick =
        |salt: u64, below: u64| ((n * 8 + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) % below;
    let time = Timestamp::from_millis(START + n * 37);
    let agent = AGENTS[pick(1, AGENTS.len() as u64) as usize];
    let origin = format!("https://www{}.example.com", pick(2, 5000));
    let unreachable = pick(3, 10) == 0;
    let line = 10 + pick(4, 40) as u32;
    Record {
        agent: Some(agent.into()),
        agent_source: AgentSource::UserAgent,
        client: Client::at([10, 0, pick(5, 4) as u8, pick(6, 250) as u8], None),
        event: if pick(7, 20) == 0 { Event::WouldDeny } else { Event::Denied },
        exemption: None,
        group: (!unreachable).then(|| Group { line: 9, token: "*".into() }),
        id: format!("01K{:023}", n),
        method: "GET".into(),
        pace_seen: None,
        path_seen: true,
        prev: String::new(),
        profile: Profile { name: "rfc9309".into(), settings: BTreeMap::new(), version: 1 },
        reason: if unreachable { Reason::RobotsUnreachable } else { Reason::DisallowRule },
        robots: Some(robots(&origin, time, unreachable).into()),
        rule: (!unreachable).then(|| Rule {
            directive: "disallow".into(),
            line,
            pattern: format!("/private/{}/", pick(4, 40)),
            read_as: Vec::new(),
        }),
        seq: 0,
        setting: None,
        sni: None,
        time,
        trace_id: None,
        url_as_received: None,
        url: format!("{origin}/private/{}/page-{n}.html?colour=blue&size=9", pick(4, 40)),
        user_agent: Some(format!("{agent}/1.0 (+https://example.com/bot; \"crawler\")")),
        node: None,
        origin,
    }
}

fn robots(origin: &str, time: Timestamp, unreachable: bool) -> Robots {
    let fetched = (!unreachable).then_some(time);
    let digest = |what: &str| sha256_hex(format!("{what} {origin}").as_bytes());
    Robots {
        asked_as: None,
        capture: fetched.map(|_| digest("capture")),
        cause: unreachable.then(|| "timed out".into()),
        confirmed_at: fetched,
        cut: false,
        failed_capture: unreachable.then(|| digest("failed")),
        failures: unreachable.then_some(3),
        fetched_at: fetched,
        next_try: Some(time),
        result: Some(if unreachable { "timeout" } else { "successful" }.into()),
        sha256: fetched.map(|_| digest("file")),
        since: Some(time),
        site_up: unreachable.then_some(true),
        state: if unreachable { RobotsStatus::Unreachable } else { RobotsStatus::Rules },
        status: fetched.map(|_| 200),
        tried: Some(time),
        url: format!("{origin}/robots.txt"),
        url_reached: fetched.map(|_| format!("{origin}/robots.txt")),
    }
}
