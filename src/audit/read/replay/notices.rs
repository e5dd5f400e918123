//! Notices that follow from evidence, made again: delays that a robots.txt asks for, and changes of one. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::Replayed;
use crate::audit::{Changed, Group, Paced, Record, RobotsStatus, Touched};
use crate::policy::change::{Kind, compare, line_counts};
use crate::policy::decision::SelectedGroup;
use crate::policy::pace::site_pace;
use crate::policy::profile::Profile;
use crate::robots::{self, RobotsTxt};

/// Stands for every agent that a file does not name.
const EVERY_AGENT: &str = "*";

/// A robots.txt of the evidence.
#[derive(Clone, Debug)]
pub struct EvidenceFile {
    pub body: Vec<u8>,
    pub rules: Arc<RobotsTxt>,
}

/// Makes a delay again from the file that the notice names, as `profile` reads it.
pub fn paced_again(paced: &Paced, profile: &Profile, file: &EvidenceFile) -> Replayed {
    let token = paced.agent.as_deref();
    if token.is_some_and(|token| token.contains('…')) {
        let why = "its product token was too long to be recorded as a whole";
        return Replayed::Undecidable(why.into());
    }
    let group = file.rules.group(token);
    let named =
        group.as_ref().map(|group| SelectedGroup { name: group.name(), line: group.line() });
    let group_name = named.as_ref().map(Group::of);
    let asked = site_pace(&file.rules, group.as_ref(), profile, Duration::MAX, paced.time);
    let was = delay_words(
        paced.group.as_deref(),
        (&paced.source, paced.line, &paced.text),
        Duration::from_millis(paced.delay_ms),
    );
    let Some(asked) = asked else {
        return Replayed::OtherNotice { was, is: "its robots.txt asks for no delay".into() };
    };
    let line = robots::lines(&file.body, &profile.dialect).find(|(line, _)| *line == asked.line);
    let text = Record::pattern(line.map(|(_, text)| text).unwrap_or_default().trim_ascii());
    let kept = Duration::from_millis(paced.delay_ms);
    // How much is kept at most, and what an exemption sets, stands in the settings.
    let is_free = paced.exemption.is_some() || paced.clamped && kept < asked.delay;
    let delay = if is_free { kept } else { asked.delay };
    let is = delay_words(group_name.as_ref(), (asked.record.as_str(), asked.line, &text), delay);
    if was == is { Replayed::Same } else { Replayed::OtherNotice { was, is } }
}

fn delay_words(
    group: Option<&Group>,
    (source, line, text): (&str, u32, &str),
    delay: Duration,
) -> String {
    let group = match group {
        Some(group) => format!("the group \"{}\" (line {})", group.token, group.line),
        None => "agents without a group".into(),
    };
    format!("{} ms for {group} by {source}, line {line}, \"{text}\"", delay.as_millis())
}

/// Makes a change again from its two files, `None` where there was none. `files`: both as a profile of that name reads
/// them, and that name.
pub fn changed_again(
    changed: &Changed,
    [before, after]: [&[u8]; 2],
    files: &[(&Touched, [Option<Arc<RobotsTxt>>; 2])],
) -> Replayed {
    let (added, removed) = line_counts(before, after);
    if (added, removed) != (changed.added, changed.removed) {
        return Replayed::OtherNotice {
            was: counts_words(changed.added, changed.removed),
            is: counts_words(added, removed),
        };
    }
    let is_of_rules = [&changed.from, &changed.to].map(|side| side.state == RobotsStatus::Rules);
    if is_of_rules != [true, true] {
        let possible = possible_kinds(changed.from.state, changed.to.state);
        return kind_of(changed.kind, possible.iter().copied().collect());
    }
    for (touched, [before, after]) in files {
        let named: Vec<_> =
            touched.agents.iter().map(String::as_str).filter(|it| *it != EVERY_AGENT).collect();
        // Those that were seen come first, and the kind is theirs; how many were is not in the notice.
        let kinds = (0..=named.len()).map(|seen| {
            let seen: Vec<_> = named[..seen].iter().copied().map(Some).collect();
            compare(before.as_deref(), after.as_deref(), &seen).kind
        });
        let kinds: BTreeSet<_> = kinds.collect();
        if !kinds.contains(&touched.kind) {
            return kind_of(touched.kind, kinds);
        }
        let all: Vec<_> = named.iter().copied().map(Some).collect();
        let concerned = compare(before.as_deref(), after.as_deref(), &all).agents;
        let is_concerned =
            |agent: &&String| concerned.iter().any(|it| it.eq_ignore_ascii_case(agent));
        if let Some(agent) = touched.agents.iter().find(|agent| !is_concerned(agent)) {
            return Replayed::OtherNotice {
                was: format!("{} for {agent}", touched.kind.word()),
                is: format!("nothing changes for {agent}"),
            };
        }
    }
    kind_of(changed.kind, files.iter().map(|(touched, _)| touched.kind).collect())
}

/// Kinds of changes between states of which one at least has no rules.
const fn possible_kinds(from: RobotsStatus, to: RobotsStatus) -> &'static [Kind] {
    match (from, to) {
        (_, RobotsStatus::Unreachable) => &[Kind::Unreadable],
        // Where access is denied, none can be read.
        (_, RobotsStatus::Unavailable) => &[Kind::Gone, Kind::Unreadable, Kind::Back],
        (RobotsStatus::Unavailable, RobotsStatus::Rules) => &[Kind::Appeared, Kind::Back],
        // An outage of a parent is none of the site.
        (RobotsStatus::Rules | RobotsStatus::Unreachable, RobotsStatus::Rules) => {
            &[Kind::Back, Kind::Wider, Kind::Narrower, Kind::Mixed, Kind::Signals]
        }
    }
}

fn kind_of(was: Kind, possible: BTreeSet<Kind>) -> Replayed {
    if possible.contains(&was) {
        return Replayed::Same;
    }
    let is: Vec<_> = possible.into_iter().map(Kind::word).collect();
    Replayed::OtherNotice { was: was.word().into(), is: is.join(" or ") }
}

fn counts_words(added: u64, removed: u64) -> String {
    format!("{added} lines added and {removed} removed")
}
