//! Replay: makes the decision of a record again from the stored evidence. Under the profile that
//! the record names the outcome must be the same; under another it is that profile's decision.
//! [`again`] is pure; [`Replay`] reads the evidence.

mod files;
mod notices;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::audit::evidence::CaptureRecord;
use crate::audit::{
    Allowed, AllowedReason, Group, RECORD_TEXT_BYTES_MAX, Reason, Record, Robots, Rule,
    read_as_clause,
};
use crate::policy::access::{Capture, Cause, NetworkFailure, Snapshot};
use crate::policy::decision::{
    Decision, HostDecision, Verdict, decide, decide_beginning, decide_host,
};
use crate::policy::profile::{Meaning, Profile, VERSION};
use crate::policy::state::{Policy, PolicyStatus, RobotsCopy, RobotsState, Unreachable};
use crate::robots::{Percent, RobotsTxt};
use crate::types::sanitize::{digest, text};
use crate::types::timestamp::Timestamp;
pub use files::{MakeProfile, Replay};

/// The evidence for a replay.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    pub profile: &'a Profile,
    /// The robots.txt that the record names, as the profile reads it.
    pub file: Option<&'a Arc<RobotsTxt>>,
    /// How the last attempt failed, if the record lacks it.
    pub failed: Option<&'a CaptureRecord>,
}

/// The outcome of a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replayed {
    Same,
    Differs {
        was: Box<Answer>,
        is: Answer,
    },
    /// A notice says something else than what follows from its evidence.
    OtherNotice {
        was: String,
        is: String,
    },
    /// The reason is not robots.txt: there is nothing to decide again.
    NotOfRobots(Reason),
    /// The record lacks necessary data.
    Undecidable(String),
    /// Evidence is missing or damaged: which.
    NoEvidence(String),
}

/// An answer, as records have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// On what basis, in words.
    Allowed(String),
    Disallowed {
        reason: Reason,
        group: Option<Group>,
        rule: Option<Rule>,
    },
}

/// Decides `record` again.
pub fn again(record: &Record, evidence: &Evidence<'_>) -> Replayed {
    if !record.is_of_robots() {
        return Replayed::NotOfRobots(record.reason);
    }
    match decide_record(record, evidence, record.reason == Reason::Undecided) {
        Ok((is, _)) => {
            let was = Box::new(Answer::recorded(record));
            if *was == is { Replayed::Same } else { Replayed::Differs { was, is } }
        }
        Err(Unknown(why)) => Replayed::Undecidable(why.to_owned()),
    }
}

/// Decides a request again that was allowed.
pub fn allowed_again(allowed: &Allowed, evidence: &Evidence<'_>) -> Replayed {
    match decide_record(allowed, evidence, false) {
        Ok((Answer::Allowed(_), Some((reason, rule))))
            if (reason, &rule) == (allowed.reason, &allowed.rule) =>
        {
            Replayed::Same
        }
        Ok((is, _)) => {
            let rule = allowed.rule.as_ref().map(|rule| format!("line {}", rule.line));
            let was = rule.unwrap_or_else(|| word(&allowed.reason).replace('_', " "));
            Replayed::Differs { was: Box::new(Answer::Allowed(was)), is }
        }
        Err(Unknown(why)) => Replayed::Undecidable(why.to_owned()),
    }
}

fn word(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).expect("it is a word");
    value.as_str().unwrap_or_default().to_owned()
}

/// What an answer that allows rests on.
type AllowedBasis = (AllowedReason, Option<Rule>);

fn decide_record<E, R>(
    record: &Record<E, R>,
    evidence: &Evidence<'_>,
    was_undecided: bool,
) -> Result<(Answer, Option<AllowedBasis>), Unknown> {
    let robots = record.robots.as_ref().ok_or(Unknown("it says nothing of robots.txt"))?;
    let token = record.agent.as_deref();
    if token.is_some_and(|token| token.contains('…')) {
        return Err(Unknown("its product token was too long to be recorded as a whole"));
    }
    let state = replayed_state(robots, evidence.profile, evidence.file, evidence.failed)?;
    let policy = replayed_policy(&state, evidence.profile, record.time)?;
    let asked = Asked::of(record).map_err(Unknown)?;
    if let Asked::Beginning { because, .. } = asked
        && was_undecided
    {
        // How many steps it took depended on all of it.
        return Err(Unknown(because));
    }
    let decision =
        asked.decide(&policy, token, record.url_as_received.is_some()).map_err(Unknown)?;
    let basis = match &decision {
        HostDecision::Whole(Decision { verdict: Verdict::Allow, basis }) => {
            Some((AllowedReason::of(basis), basis.rule().map(Rule::of)))
        }
        _ => None,
    };
    Ok((Answer::of(&decision), basis))
}

impl Answer {
    fn recorded(record: &Record) -> Self {
        Self::Disallowed {
            reason: record.reason,
            group: record.group.clone(),
            rule: record.rule.clone(),
        }
    }

    fn of(decision: &HostDecision<'_>) -> Self {
        match decision {
            HostDecision::Mixed(group) => {
                let group = Some(Group::of(group));
                Self::Disallowed { reason: Reason::PathNotSeen, group, rule: None }
            }
            HostDecision::Whole(decision) => match decision.verdict {
                Verdict::Allow => Self::Allowed(decision.basis.to_string()),
                Verdict::Disallow => Self::Disallowed {
                    reason: Reason::of(&decision.basis),
                    group: decision.basis.group().map(Group::of),
                    rule: decision.basis.rule().map(Rule::of),
                },
            },
        }
    }

    /// Whether the request would have been let through.
    pub const fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed(_))
    }
}

/// In the words of [`crate::policy::decision::Basis`].
impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Allowed(basis) => write!(f, "allowed: {basis}"),
            Self::Disallowed { rule: Some(rule), group, .. } => {
                write!(
                    f,
                    "disallowed: line {}, \"{}: {}\"",
                    rule.line, rule.directive, rule.pattern
                )?;
                f.write_str(&read_as_clause(&rule.read_as))?;
                match group {
                    Some(group) => {
                        let token = text(group.token.as_bytes(), RECORD_TEXT_BYTES_MAX);
                        write!(f, ", of the group \"{token}\" (line {})", group.line)
                    }
                    None => Ok(()),
                }
            }
            Self::Disallowed { reason, .. } => f.write_str(reason.row().replayed),
        }
    }
}

/// Begins the mark for the rest of a URL that was cut. No URL has that character: what is not ASCII
/// is percent-encoded in a record.
const CUT_MARK: char = '…';
/// Of a value that was redacted: `~` and so many hexadecimal digits.
const REDACTED_DIGITS: usize = 16;

/// The input of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Asked<'a> {
    Host,
    Path(&'a str),
    /// How it went on is not known.
    Beginning {
        text: &'a str,
        because: &'static str,
    },
}

/// Why a record cannot be decided on.
type Unclear = &'static str;

impl<'a> Asked<'a> {
    fn of<E, R>(record: &'a Record<E, R>) -> Result<Self, Unclear> {
        if !record.path_seen {
            return Ok(Self::Host);
        }
        let path = record.url.strip_prefix(&record.origin).ok_or("its URL is not of its origin")?;
        if let Some((begin, _)) = path.split_once(CUT_MARK) {
            // Dot segments that follow would change what is before them.
            return if begin.contains('?') {
                Ok(Self::beginning(begin, "its URL was too long to be recorded as a whole"))
            } else {
                Err("its URL was too long to be recorded as a whole")
            };
        }
        let (before_query, _) = path.split_at(path.find('?').unwrap_or(path.len()));
        if before_query.split('~').skip(1).any(begins_with_hash) {
            return Err("a part of its path is redacted");
        }
        match redacted_at(path) {
            Some(at) => Ok(Self::beginning(&path[..at], "the values of its query are redacted")),
            None => Ok(Self::Path(path)),
        }
    }

    fn beginning(text: &'a str, because: &'static str) -> Self {
        // No part of a percent-encoding at the end.
        let tail = text.len().saturating_sub(2);
        let end = text.as_bytes()[tail..]
            .iter()
            .position(|byte| *byte == b'%')
            .map_or(text.len(), |at| tail + at);
        Self::Beginning { text: &text[..end], because }
    }

    /// The decision of `policy`, if it is determined; `was_encoded`: the proxy judged the URL as it
    /// is recorded, and not as the client wrote it.
    fn decide<'p>(
        &self,
        policy: &Policy<'p>,
        token: Option<&str>,
        was_encoded: bool,
    ) -> Result<HostDecision<'p>, Unclear> {
        let spelt = |text: &'a str| {
            let as_given = !was_encoded
                && matches!(policy, Policy::Rules(copy) if copy.rules.dialect().percent == Percent::RulesOnly);
            [Some(Cow::Borrowed(text.as_bytes())), as_given.then(|| unencoded(text)).flatten()]
                .into_iter()
                .flatten()
        };
        match self {
            Self::Host => Ok(decide_host(policy, token)),
            Self::Path(text) => agreed(spelt(text).map(|path| Ok(decide(policy, token, &path)))),
            Self::Beginning { text, because } => agreed(
                spelt(text).map(|begin| decide_beginning(policy, token, &begin).ok_or(*because)),
            ),
        }
    }
}

/// The decision, if it is the same for all spellings.
fn agreed<'p>(
    mut decisions: impl Iterator<Item = Result<Decision<'p>, Unclear>>,
) -> Result<HostDecision<'p>, Unclear> {
    let first = decisions.next().expect("there is the spelling of the record")?;
    for other in decisions {
        if other? != first {
            return Err("it does not tell which bytes of its URL were percent-encoded");
        }
    }
    Ok(HostDecision::Whole(first))
}

/// A record percent-encodes what is not printable ASCII. By RFC 9309 §2.2.2 that is the same URL; but
/// a dialect may take URLs as given, and the client may have given those bytes themselves.
fn unencoded(text: &str) -> Option<Cow<'_, [u8]>> {
    let (bytes, mut given, mut at) = (text.as_bytes(), Vec::new(), 0);
    while at < bytes.len() {
        let hex =
            bytes.get(at..at + 3).filter(|triplet| triplet[0] == b'%').map(|triplet| &triplet[1..]);
        let value = hex
            .filter(|hex| !hex.iter().any(u8::is_ascii_lowercase))
            .and_then(|hex| u8::from_str_radix(str::from_utf8(hex).ok()?, 16).ok())
            .filter(|value| *value >= 0x7f);
        given.push(value.unwrap_or(bytes[at]));
        at += if value.is_some() { 3 } else { 1 };
    }
    (given.len() < bytes.len()).then_some(Cow::Owned(given))
}

/// Whether a text behind a `~` begins with the digits of a hash.
fn begins_with_hash(text: &str) -> bool {
    let digits = text.as_bytes().get(..REDACTED_DIGITS);
    digits.is_some_and(|digits| digits.iter().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f')))
}

/// Where the first redacted value of a query is.
fn redacted_at(path: &str) -> Option<usize> {
    let query = path.find('?')? + 1;
    let mut at = query;
    for pair in path[query..].split('&') {
        let value = pair.find('=').map_or(0, |equals| equals + 1);
        let digits = pair[value..].strip_prefix('~').unwrap_or_default();
        if digits.len() == REDACTED_DIGITS && begins_with_hash(digits) {
            return Some(at + value);
        }
        at += pair.len() + 1;
    }
    None
}

/// One number for each kind of outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Records that were looked at.
    pub records: u64,
    /// Decided as they were.
    pub same: u64,
    /// Disallowed before, allowed now.
    pub allowed: u64,
    /// Disallowed as before, on another basis.
    pub other_basis: u64,
    /// By the reason that is not robots.txt.
    pub not_of_robots: BTreeMap<String, u64>,
    /// Records that lack what a decision needs.
    pub undecidable: u64,
    /// Records whose evidence is missing or damaged.
    pub no_evidence: u64,
    /// Notices of delays and changes that were looked at.
    pub notices: u64,
    /// Those of them that say what their evidence does.
    pub same_notices: u64,
    /// Those of them that say something else.
    pub other_notices: u64,
    /// Records of a version of the profiles that this program does not know. They are among the others.
    pub other_version: u64,
}

impl Count {
    /// Adds `outcome`, which came of `record`.
    pub fn add<E, R>(&mut self, record: &Record<E, R>, outcome: &Replayed) {
        self.records += 1;
        self.other_version += u64::from(record.profile.version > VERSION);
        match outcome {
            Replayed::Same => self.same += 1,
            Replayed::OtherNotice { .. } => {}
            Replayed::Differs { is: Answer::Allowed(_), .. } => self.allowed += 1,
            Replayed::Differs { .. } => self.other_basis += 1,
            Replayed::NotOfRobots(reason) => {
                *self.not_of_robots.entry(word(reason)).or_default() += 1;
            }
            Replayed::Undecidable(_) => self.undecidable += 1,
            Replayed::NoEvidence(_) => self.no_evidence += 1,
        }
    }

    /// Adds `outcome`, which came of a notice.
    pub fn add_notice(&mut self, outcome: &Replayed) {
        self.notices += 1;
        match outcome {
            Replayed::OtherNotice { .. } => self.other_notices += 1,
            Replayed::Undecidable(_) => self.undecidable += 1,
            Replayed::NoEvidence(_) => self.no_evidence += 1,
            Replayed::Same => self.same_notices += 1,
            Replayed::Differs { .. } | Replayed::NotOfRobots(_) => {}
        }
    }

    /// Records that come out otherwise.
    pub const fn differing(&self) -> u64 {
        self.allowed + self.other_basis
    }
}

/// How long after a state came due a record may still rest on it: from the answer of the store to
/// the record is a moment, even where the machine is overloaded.
const REPLAY_OVERDUE_MAX: Duration = Duration::from_secs(60);

/// Data that a record lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Unknown(pub &'static str);

/// The state as `profile` has it. `file` is the stored one as that profile reads it; `failed`
/// describes the last attempt, where the record does not.
fn replayed_state(
    robots: &Robots,
    profile: &Profile,
    file: Option<&Arc<RobotsTxt>>,
    failed: Option<&CaptureRecord>,
) -> Result<RobotsState, Unknown> {
    let tried = robots.tried.ok_or(Unknown("it does not tell when robots.txt was tried"))?;
    let next_try =
        robots.next_try.ok_or(Unknown("it does not tell until when its robots.txt held"))?;
    let copy = file.map(|file| copy(robots, file, tried));
    let Some(cause) = cause(robots, profile, failed)? else {
        let copy = copy.ok_or(Unknown("it names no robots.txt"))?;
        return Ok(RobotsState::Successful {
            copy,
            at: robots.since.unwrap_or(tried),
            fresh_until: next_try,
        });
    };
    Ok(match cause.meaning(profile) {
        Meaning::Unavailable | Meaning::Forbidden => {
            let serves = |copy: &RobotsCopy| {
                tried < copy.confirmed_at.plus(profile.lifetimes.copy_after_unavailable)
            };
            RobotsState::Unavailable {
                cause,
                at: tried,
                fresh_until: next_try,
                copy: copy.filter(serves),
            }
        }
        Meaning::Unreachable => RobotsState::Unreachable(Unreachable {
            cause,
            since: robots.since.unwrap_or(tried),
            tried,
            failures: robots.failures.unwrap_or(1),
            next_try,
            copy,
            site_up: robots.site_up.unwrap_or(true),
        }),
    })
}

/// The policy in force at `now`. The state may come due between the store's answer and the time of
/// the record; a state that was due for longer could not decide.
fn replayed_policy<'a>(
    state: &'a RobotsState,
    profile: &Profile,
    now: Timestamp,
) -> Result<Policy<'a>, Unknown> {
    let (learnt, until) = (state.tried_at().unwrap_or(now), state.next_try().unwrap_or(now));
    let overdue = now.since(until) > REPLAY_OVERDUE_MAX;
    let at = if now < until { now } else { learnt };
    match state.policy_status(profile, at) {
        PolicyStatus::Current(replayed_policy) if !overdue => Ok(replayed_policy),
        _ => Err(Unknown("its robots.txt was to be asked for again before its time")),
    }
}

fn copy(robots: &Robots, file: &Arc<RobotsTxt>, tried: Timestamp) -> RobotsCopy {
    let fetched_at = robots.fetched_at.unwrap_or(tried);
    let snapshot = Snapshot {
        // The rules have been read from it; nothing else asks for it.
        body: bytes::Bytes::new(),
        sha256: robots.sha256.as_deref().and_then(digest).unwrap_or_default(),
        cut: robots.cut,
        status: 200,
        url: robots.url_reached.clone().unwrap_or_else(|| robots.url.clone()),
        hops: 0,
        fetched_at,
        content_type: None,
        etag: None,
        last_modified: None,
        capture: Capture::none(),
    };
    RobotsCopy {
        rules: Arc::clone(file),
        snapshot: Arc::new(snapshot),
        confirmed_at: robots.confirmed_at.unwrap_or(fetched_at),
    }
}

/// Why the last attempt brought no file; none where it did.
fn cause(
    robots: &Robots,
    profile: &Profile,
    failed: Option<&CaptureRecord>,
) -> Result<Option<Cause>, Unknown> {
    let status = || {
        let answered =
            failed.and_then(|capture| capture.answers.last()).map(|answer| answer.status);
        // Where the copy decided, the record's status is that of the copy.
        let recorded = robots.status.filter(|_| robots.cause.is_some());
        answered
            .or(recorded)
            .ok_or(Unknown("it does not tell which status the server answered with"))
    };
    let word =
        robots.result.as_deref().ok_or(Unknown("it does not tell how robots.txt was asked for"))?;
    Ok(Some(match word {
        "successful" => return Ok(None),
        // A page that was read as the file. One that was not has a capture of its own.
        "not_robots_txt" if robots.failed_capture.is_none() => return Ok(None),
        // Before any fetch it has no file.
        "not_modified" => Cause::Status { code: 304, retry_after: None },
        "status" => Cause::Status { code: status()?, retry_after: None },
        "too_many_redirects" => Cause::TooManyRedirects { limit: profile.redirects_max },
        "redirect_loop" => Cause::RedirectLoop,
        "redirect_without_location" => Cause::RedirectWithoutLocation { code: status()? },
        word => {
            let failure = NetworkFailure::ALL.into_iter().find(|failure| failure.word() == word);
            let failure = failure
                .ok_or(Unknown("the word for how robots.txt could not be had is not known"))?;
            Cause::failed(failure, "")
        }
    }))
}

/// Whether the status of the last attempt stands in its capture alone.
fn needs_capture(robots: &Robots) -> bool {
    robots.cause.is_none()
        && matches!(robots.result.as_deref(), Some("status" | "redirect_without_location"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redacted_values_are_told_from_others() {
        for (path, begin) in [
            ("/a?q=~0123456789abcdef", Some("/a?q=")),
            ("/a?q=1&r=~0123456789abcdef&s=2", Some("/a?q=1&r=")),
            ("/a?~0123456789abcdef", Some("/a?")),
            ("/a?q=~0123456789abcdef0", None),
            ("/a?q=~0123456789abcdeg", None),
            ("/~0123456789abcdef", None),
            ("/a?q=x~0123456789abcdef", None),
        ] {
            assert_eq!(redacted_at(path).map(|at| &path[..at]), begin, "{path}");
        }
    }

    #[test]
    fn a_beginning_ends_before_half_an_byte() {
        for (text, expected) in
            [("/a?b", "/a?b"), ("/?a%", "/?a"), ("/?a%4", "/?a"), ("/?a%41", "/?a%41"), ("/", "/")]
        {
            let expected = Asked::Beginning { text: expected, because: "" };
            assert_eq!(Asked::beginning(text, ""), expected);
        }
    }

    #[test]
    fn bytes_that_a_record_encodes_are_given_back() {
        let given = |text| unencoded(text).map(Cow::into_owned);
        assert_eq!(given("/%C3%A9%41%c3%7F%"), Some(b"/\xc3\xa9%41%c3\x7f%".to_vec()));
        assert_eq!(given("/%41%c3%A9".strip_suffix("%A9").unwrap()), None);
        assert_eq!(given("/a"), None);
    }
}
