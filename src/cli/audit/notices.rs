//! Notices in words, one line each.

use std::time::Duration;

use serde::Serialize;

use crate::audit::checkpoint::{Checkpoint, SignedCheckpoint};
use crate::audit::{
    Allowed, AllowedReason, Change, Changed, ChangesOmitted, Checkpointed, Exemption, Notice,
    Omission, Operated, Operation, Paced, Published, Record, RecordedCounts, Rewound, Robots,
    RobotsFile, SettingsChanged, SiteCounts, Started, Totals, print_time,
};
use crate::cli::output::{human_duration, seconds};
use crate::types::sanitize::hex;

/// Bytes of a digest that people compare.
const DIGEST_SHOWN: usize = 12;

/// The text of `notice`, beside its number, time and kind.
pub fn words(notice: &Notice) -> String {
    match notice {
        Notice::Gap(gap) => {
            let since = print_time(gap.since);
            format!(
                "{} records could not be written from {since} on, and are lost: {}",
                gap.lost, gap.why
            )
        }
        Notice::Torn(torn) => {
            format!("{} bytes at the end were no whole line and are set aside", torn.bytes)
        }
        Notice::Pruned(pruned) => format!("retention removes the lines up to {}", pruned.last_seq),
        Notice::Totals(totals) => of_totals(totals),
        Notice::Pulse(pulse) => of_totals(pulse) + " (so far)",
        Notice::Started(started) => of_start(started),
        Notice::SettingsChanged(changed) => of_settings(changed),
        Notice::Stopped(stopped) => stopped.why.clone(),
        Notice::Checkpointed(checkpointed) => of_checkpoint(checkpointed),
        Notice::Changed(changed) => of_change(changed),
        Notice::ChangesOmitted(omitted) => of_omission(omitted),
        Notice::Paced(paced) => of_delay(paced),
        Notice::Rewound(rewound) => of_rewinding(rewound),
        Notice::Operated(operated) => of_operation(operated),
        Notice::Published(Published { by, checkpoint, .. }) => {
            format!("{by} has taken the checkpoint with the SHA-256 {}", shown(checkpoint))
        }
        Notice::RobotsFile(file) => of_file(file),
        Notice::SiteCounts(counts) => of_counts(counts),
        Notice::Allowed(allowed) => of_allowed(allowed),
        Notice::EvidenceLost(lost) => {
            format!("evidence could not be kept: {}", lost.evidence.join(", "))
        }
    }
}

fn of_change(changed: &Changed) -> String {
    let Changed { origin, kind, added, removed, sampled, .. } = changed;
    let agents = changed.agents();
    let agents =
        if agents.is_empty() { String::new() } else { format!(" for {}", agents.join(", ")) };
    let (kind, seen, denied) = (kind.word(), sampled.seen, sampled.now_denied);
    let examples =
        if denied == 0 { String::new() } else { format!(": {}", sampled.examples.join(", ")) };
    format!(
        "robots.txt of {origin}: {kind}{agents}; {added} lines added, {removed} removed; {denied} of {seen} \
         sampled requests that were allowed are now denied{examples}"
    )
}

fn of_omission(omitted: &ChangesOmitted) -> String {
    let why = match omitted.why {
        Omission::OriginLimit => "the daily limit of notices for one origin was reached",
        Omission::TotalLimit => "the hourly limit of notices was reached",
        Omission::Overload => "too many changes came at once",
        Omission::Unwritten => "they could not be written",
    };
    let of = omitted.origin.as_ref().map(|origin| format!(" of {origin}")).unwrap_or_default();
    let (count, since) = (omitted.omitted, print_time(omitted.since));
    format!(
        "{count} changes of robots.txt files{of} since {since} have no line of their own: {why}"
    )
}

fn of_delay(paced: &Paced) -> String {
    let Paced { origin, line, text, delay_ms, .. } = paced;
    let agents = match &paced.group {
        Some(group) => group.token.as_str(),
        None => "agents without a group of their own",
    };
    let delay = seconds(Duration::from_millis(*delay_ms));
    let verb = if paced.observed { "would be" } else { "are" };
    let clamped = if paced.clamped { ", the most that is kept" } else { "" };
    let unseen = if paced.pace_seen == Some(false) {
        "; those inside a tunnel are not held (pace not seen)"
    } else {
        ""
    };
    let exempted = paced
        .exemption
        .as_ref()
        .map(|exemption| format!("; exempted by {}: {}", exemption.by, exemption.why));
    format!(
        "requests of {agents} to {origin} {verb} {delay} apart{clamped}: line {line} of its robots.txt, \"{text}\"{}{unseen}",
        exempted.unwrap_or_default()
    )
}

fn of_operation(operated: &Operated) -> String {
    let Operated { action, by, subject, .. } = operated;
    let subject = subject.as_deref().unwrap_or_default();
    match action {
        Operation::LogIn => format!("{by} logged in to the console as {subject}"),
        Operation::Export => format!("{by} took away {subject} by the console"),
        Operation::Person => format!("{by} looked at what is held about a person"),
        Operation::Forget => format!("{by} had {subject} forgotten by the console"),
        Operation::Fetch => format!("{by} had the robots.txt of {subject} fetched by the console"),
        Operation::Reload => format!("{by} had the settings read again by the console"),
        Operation::Verify => format!("{by} had the log read and verified again by the console"),
    }
}

fn of_rewinding(rewound: &Rewound) -> String {
    let Rewound { seen_seq, seen_hash, found_hash, .. } = rewound;
    let found = match found_hash {
        Some(hash) => format!("it is {}", shown(hash)),
        None => "there was none of that number".into(),
    };
    format!(
        "the shared engine had seen line {seen_seq} as {}, and {found}: the log was cut off or written anew",
        shown(seen_hash)
    )
}

fn of_file(file: &RobotsFile) -> String {
    let RobotsFile { origin, robots, .. } = file;
    let agent = robots.asked_as.as_ref().map(|agent| format!(" for {agent}")).unwrap_or_default();
    match (&robots.sha256, &robots.cause) {
        (Some(sha256), None) => {
            let fetched = robots.fetched_at.map(print_time).unwrap_or_default();
            format!(
                "robots.txt {} of {origin}, fetched at {fetched}, decides{agent}",
                shown(sha256)
            )
        }
        (_, cause) => {
            let cause = cause.as_deref().unwrap_or("it is not known");
            format!("{origin} is decided on without a robots.txt{agent}: {cause}")
        }
    }
}

fn of_allowed(allowed: &Allowed) -> String {
    let Record { method, url, agent, rule, group, reason, robots, .. } = &**allowed;
    let agent = agent.as_deref().unwrap_or("a client without a product token");
    let why = match (rule, group, reason) {
        (Some(rule), ..) => format!("line {}, \"{}: {}\"", rule.line, rule.directive, rule.pattern),
        (None, Some(group), _) => {
            format!("no rule of the group \"{}\" (line {}) matches", group.token, group.line)
        }
        (None, None, AllowedReason::RobotsTxtItself) => "it may always be fetched".into(),
        (None, None, AllowedReason::NoGroup) => "no group applies".into(),
        (None, None, AllowedReason::NoRule | AllowedReason::Rule) => "no rule matches".into(),
        (
            None,
            None,
            AllowedReason::Unavailable
            | AllowedReason::Unreachable
            | AllowedReason::LongUnreachable,
        ) => robots.as_ref().and_then(|robots| robots.cause.clone()).unwrap_or_default(),
    };
    format!("{method} {url} is allowed to {agent}: {why}")
}

fn of_counts(counts: &SiteCounts) -> String {
    let of = match (&counts.origin, counts.rows) {
        (Some(origin), _) => {
            format!("{} at {origin}", counts.agent.as_deref().unwrap_or("no agent"))
        }
        (None, rows) => format!("{} further agents and sites", rows.unwrap_or_default()),
    };
    let asked = [
        (counts.allowed, "allowed"),
        (counts.denied, "denied"),
        (counts.would_deny, "disallowed and observed"),
        (counts.exempted, "exempted"),
        (counts.tunnelled, "tunnelled unseen"),
        (counts.resting, "told to come back later"),
        (counts.failed, "without a response"),
    ];
    let asked = asked.into_iter().filter(|(count, _)| *count > 0);
    let statuses = counts.statuses.iter().map(|(class, count)| (*count, class.as_str()));
    let parts: Vec<_> =
        asked.chain(statuses).map(|(count, what)| format!("{count} {what}")).collect();
    let held = (counts.paced > 0).then(|| {
        let waited = human_duration(Duration::from_millis(counts.waited_ms));
        format!("; {} held, for {waited} in all", counts.paced)
    });
    let bytes = (counts.bytes > 0).then(|| format!("; {} bytes", counts.bytes));
    let file = counts.sha256.as_ref().map(|sha256| format!("; under {}", shown(sha256)));
    let more = [held, bytes, file].into_iter().flatten().collect::<String>();
    format!("{of} since {}: {}{more}", print_time(counts.since), parts.join(", "))
}

fn of_totals<E>(totals: &Totals<E>) -> String {
    let since = print_time(totals.since);
    let Totals { allowed, denied, .. } = totals;
    let recorded =
        totals.recorded.map(|RecordedCounts { denied, exempted, tunnelled, would_deny }| {
            let count = denied
                .saturating_add(exempted)
                .saturating_add(tunnelled)
                .saturating_add(would_deny);
            format!("; {count} records")
        });
    let Totals { by_parent, paced, resting, waited_ms, .. } = totals;
    let held = (*paced > 0).then(|| {
        format!("; {paced} held, for {} in all", human_duration(Duration::from_millis(*waited_ms)))
    });
    let resting = (*resting > 0).then(|| format!("; {resting} told to come back later"));
    let by_parent = (*by_parent > 0).then(|| format!("; {by_parent} by a parent proxy"));
    let parts = [recorded, by_parent, held, resting].into_iter().flatten().collect::<String>();
    format!("{allowed} allowed and {denied} denied since {since}{parts}")
}

fn of_start(started: &Started) -> String {
    let Started { version, how, profile_version, digest, .. } = started;
    let (how, digest) = (word(how), shown(digest));
    let program = started.program.as_ref().map(|sha256| format!(" ({})", shown(sha256)));
    let program = program.unwrap_or_default();
    let changes = match started.changes.as_deref() {
        None => String::new(),
        Some([]) => ", as before".to_owned(),
        Some(changes) => {
            format!("; changed since it was stopped: {}", of_changes(changes).join(", "))
        }
    };
    let in_force = started.exemptions.len() as u64 + started.exemptions_omitted;
    let exemptions = match in_force {
        0 => String::new(),
        1 => "; one exemption in force".to_owned(),
        count => format!("; {count} exemptions in force"),
    };
    format!(
        "courtesy {version}{program}, {how}; profiles {profile_version}; settings {digest}{changes}{exemptions}"
    )
}

fn of_checkpoint(checkpointed: &Checkpointed) -> String {
    match SignedCheckpoint::parse(&checkpointed.note) {
        Some(SignedCheckpoint { checkpoint: Checkpoint { origin, head, root, .. }, .. }) => {
            format!("{origin} up to line {}, root {}", head.seq, shown(&hex(&root)))
        }
        None => "it is none".into(),
    }
}

fn of_settings(changed: &SettingsChanged) -> String {
    let who = changed.who;
    let contents =
        changed.contents.iter().map(|key| format!("{key}: the file has another content"));
    let all: Vec<_> = of_changes(&changed.changes).into_iter().chain(contents).collect();
    let omitted = changed.omitted.map(|count| format!(" (with {count} changes before it)"));
    format!(
        "{who}: {}; settings {}{}",
        all.join(", "),
        shown(&changed.digest),
        omitted.unwrap_or_default()
    )
}

fn of_changes(changes: &[Change]) -> Vec<String> {
    changes.iter().map(|it| format!("{}: {} → {}", it.key, it.old, it.new)).collect()
}

fn shown(digest: &str) -> String {
    digest.chars().take(DIGEST_SHOWN).collect()
}

/// The columns. Their names are a public interface.
pub const HEADER: [&str; 37] = [
    "seq",
    "time",
    "id",
    "event",
    "reason",
    "client_address",
    "client_name",
    "method",
    "url",
    "origin",
    "path_seen",
    "agent",
    "agent_source",
    "user_agent",
    "profile",
    "profile_version",
    "group",
    "group_line",
    "rule_line",
    "rule_directive",
    "rule_pattern",
    "robots_url",
    "robots_url_reached",
    "robots_state",
    "robots_status",
    "robots_cause",
    "robots_sha256",
    "robots_fetched_at",
    "robots_since",
    "exemption_by",
    "exemption_reason",
    "exemption_ticket",
    "exemption_until",
    "hash",
    "node",
    "url_as_received",
    "setting",
];

/// The cells in the order of [`HEADER`]. A member that a record lacks is empty.
pub fn csv_row(record: &Record, hash: &str) -> [String; HEADER.len()] {
    let (group, rule) = (record.group.as_ref(), record.rule.as_ref());
    let robots = |cell: fn(&Robots) -> Option<String>| record.robots.as_deref().and_then(cell);
    let exemption =
        |cell: fn(&Exemption) -> Option<String>| record.exemption.as_ref().and_then(cell);
    [
        Some(record.seq.to_string()),
        Some(print_time(record.time)),
        Some(record.id.clone()),
        Some(word(record.event)),
        Some(word(record.reason)),
        record.client.address.as_ref().map(ToString::to_string),
        record.client.name.clone(),
        Some(record.method.clone()),
        Some(record.url.clone()),
        Some(record.origin.clone()),
        Some(record.path_seen.to_string()),
        record.agent.clone(),
        Some(word(record.agent_source)),
        record.user_agent.clone(),
        Some(record.profile.name.clone()),
        Some(record.profile.version.to_string()),
        group.map(|group| group.token.clone()),
        group.map(|group| group.line.to_string()),
        rule.map(|rule| rule.line.to_string()),
        rule.map(|rule| rule.directive.clone()),
        rule.map(|rule| rule.pattern.clone()),
        robots(|robots| Some(robots.url.clone())),
        robots(|robots| robots.url_reached.clone()),
        robots(|robots| Some(word(robots.state))),
        robots(|robots| robots.status.map(|status| status.to_string())),
        robots(|robots| robots.cause.clone()),
        robots(|robots| robots.sha256.clone()),
        robots(|robots| robots.fetched_at.map(print_time)),
        robots(|robots| robots.since.map(print_time)),
        exemption(|exemption| Some(exemption.by.clone())),
        exemption(|exemption| Some(exemption.reason.clone())),
        exemption(|exemption| exemption.ticket.clone()),
        exemption(|exemption| Some(print_time(exemption.until))),
        Some(hash.to_owned()),
        record.node.as_ref().map(ToString::to_string),
        record.url_as_received.clone(),
        record.setting.clone(),
    ]
    .map(|cell| harmless(cell.unwrap_or_default()))
}

/// The word that stands for a value in the record.
pub fn word(value: impl Serialize) -> String {
    let word = serde_json::to_value(value).expect("it is a word");
    word.as_str().unwrap_or_default().to_owned()
}

/// A spreadsheet would compute text that begins like a formula, and the text is from outside: with
/// an apostrophe before it, it stays a text.
fn harmless(cell: String) -> String {
    if cell.starts_with(['=', '+', '-', '@', '\t', '\r']) { format!("'{cell}") } else { cell }
}
