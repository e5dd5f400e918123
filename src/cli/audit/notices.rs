//! Notices in words, one line each.

use std::time::Duration;

use crate::audit::{
    Changed, ChangesOmitted, Notice, Omission, Paced, Recorded, Rewound, SettingsChanged, Started,
    Totals, print_time,
};
use crate::cli::audit::csv_row::word;
use crate::cli::human_duration::{human_duration, seconds};

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
        Notice::Started(started) => of_start(started),
        Notice::SettingsChanged(changed) => of_settings(changed),
        Notice::Stopped(stopped) => stopped.why.clone(),
        Notice::Changed(changed) => of_change(changed),
        Notice::ChangesOmitted(omitted) => of_omission(omitted),
        Notice::Paced(paced) => of_delay(paced),
        Notice::Rewound(rewound) => of_rewinding(rewound),
        Notice::EvidenceLost(lost) => {
            format!("evidence could not be kept: {}", lost.evidence.join(", "))
        }
    }
}

fn of_change(changed: &Changed) -> String {
    let Changed { origin, kind, added, removed, sampled, touched, .. } = changed;
    let mut agents: Vec<_> =
        touched.iter().flat_map(|touched| &touched.agents).map(String::as_str).collect();
    agents.sort_unstable();
    agents.dedup();
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

fn of_totals(totals: &Totals) -> String {
    let since = print_time(totals.since);
    let Totals { allowed, denied, .. } = totals;
    let recorded = totals.recorded.map(|Recorded { denied, exempted, tunnelled, would_deny }| {
        let count =
            denied.saturating_add(exempted).saturating_add(tunnelled).saturating_add(would_deny);
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
    format!("courtesy {version}, {how}; profiles {profile_version}; settings {digest}")
}

fn of_settings(changed: &SettingsChanged) -> String {
    let who = changed.who;
    let changes = changed.changes.iter().map(|it| format!("{}: {} → {}", it.key, it.old, it.new));
    let contents =
        changed.contents.iter().map(|key| format!("{key}: the file has another content"));
    let all: Vec<_> = changes.chain(contents).collect();
    let omitted = changed.omitted.map(|count| format!(" (with {count} changes before it)"));
    format!(
        "{who}: {}; settings {}{}",
        all.join(", "),
        shown(&changed.digest),
        omitted.unwrap_or_default()
    )
}

fn shown(digest: &str) -> String {
    digest.chars().take(DIGEST_SHOWN).collect()
}
