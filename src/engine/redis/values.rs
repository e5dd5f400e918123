//! From replies to responses.

use std::time::Duration;

use bytes::Bytes;
use redis::Value;

use super::call::{self, Call, Parts, decimal};
use super::shared::Shared;
use crate::engine::cells::RANKS_MAX;
use crate::engine::clock::{Micros, micros};
use crate::engine::error::{Error, ErrorKind};
use crate::engine::members::{
    HOURS_KEPT, HeartbeatScores, LogHead, MEMBERS_MAX, NUMBER_MAX, NamedHeads, Roster, Scores,
    in_order,
};
use crate::engine::stats::Operation;
use crate::engine::{
    GivenSlot, Hold, HoldCause, KNOWN_BYTES_MAX, LEASE, LeaseToken, LookupOutcome, LookupResponse,
    Presence, PublishOutcome, ReservedSlots, format,
};
use crate::types::LogId;
use crate::types::sanitize::digest;
use crate::types::timestamp::Timestamp;

/// Heads of logs are read in steps of about so many, and so many at most.
const HEADS_STEP: u64 = 1000;
const HEADS_MAX: usize = 100_000;
/// Members of a key of heartbeats are read so many in a step.
const SCORES_STEP: usize = 1000;

/// A stored value.
pub(super) enum StoredValue<T> {
    Absent,
    /// It was not written by this program, or it is damaged.
    Damaged,
    Intact(T),
}

impl<T> StoredValue<T> {
    /// The value; a damaged one is as absent.
    pub(super) fn intact(self) -> Option<T> {
        match self {
            Self::Intact(value) => Some(value),
            Self::Absent | Self::Damaged => None,
        }
    }
}

/// A file, from a string that is empty if there is none.
pub(super) fn file<T>(
    reply: Result<Value, Error>,
    read: impl FnOnce(&[u8]) -> Option<T>,
) -> Result<StoredValue<T>, Error> {
    let value = match reply {
        Ok(value) => call::bytes(value).ok_or_else(|| ErrorKind::Protocol.with("get_file"))?,
        Err(error) if error.kind == ErrorKind::WrongType => return Ok(StoredValue::Damaged),
        Err(error) => return Err(error),
    };
    if value.is_empty() {
        return Ok(StoredValue::Absent);
    }
    Ok(read(&value).map_or(StoredValue::Damaged, StoredValue::Intact))
}

/// The response to a lookup. A value that is damaged is as absent: the lookup is repeated as by a
/// proxy that has it already.
pub(super) async fn lookup(
    shared: &Shared,
    mut call: Call,
    first: Result<Value, Error>,
) -> Result<LookupResponse, Error> {
    let none = || ErrorKind::Protocol.with("lookup");
    let (token, response) = read_lookup(shared, &call, first?).ok_or_else(none)?;
    if let Some(response) = response {
        return Ok(response);
    }
    shared.stats.note_damaged();
    if let Some(have) = call.arguments.first_mut() {
        *have = decimal(token.0);
    }
    let gone = |_| Err(ErrorKind::Broken.with("the engine has ended"));
    let second = shared.send(call.clone())?.await.unwrap_or_else(gone)?;
    read_second_lookup(shared, &call, second).ok_or_else(none)
}

fn read_second_lookup(shared: &Shared, call: &Call, reply: Value) -> Option<LookupResponse> {
    read_lookup(shared, call, reply)?.1
}

/// The token of something newer, and all of it; `None` within if that is damaged.
fn read_lookup(
    shared: &Shared,
    call: &Call,
    reply: Value,
) -> Option<(LeaseToken, Option<LookupResponse>)> {
    let mut parts = Parts::of(reply)?;
    let (kind, number, value) = (parts.number()?, parts.number()?, parts.bytes()?);
    let presence = read_presence(&mut parts, shared.config.hold_max)?;
    let token = LeaseToken(number);
    // What is known here is never taken back: nothing older is taken up, if another program restores it.
    let have = LeaseToken(call.arguments.first().and_then(|have| call::digits(have))?);
    if matches!(kind, 1 | 2) && token <= have && have.unless_ahead(shared.now()).is_some() {
        return None;
    }
    let outcome = match kind {
        1 => {
            let redis = shared.redis.load();
            let seal = redis.seal_key.as_ref();
            let decoded = format::decode_known(call.keys.first()?, &value, seal, KNOWN_BYTES_MAX);
            // The token under the seal is the one that counts.
            match decoded {
                Some((sealed, Ok(text))) if sealed == token => {
                    LookupOutcome::Newer { token, value: Bytes::from(text) }
                }
                _ => return Some((token, None)),
            }
        }
        2 => LookupOutcome::Lease(token),
        3 => LookupOutcome::Wait(Duration::from_micros(number).min(LEASE)),
        4 => LookupOutcome::Unchanged,
        _ => return None,
    };
    Some((token, Some(LookupResponse { outcome, presence })))
}

/// A condition.
pub(super) fn condition(reply: Value) -> Option<bool> {
    call::number(&reply).map(|number| number != 0)
}

/// What became of a value that was published, and whether nothing was known before.
pub(super) fn publish_outcome(reply: Value) -> Option<(PublishOutcome, bool)> {
    let mut parts = Parts::of(reply)?;
    let (is_kept, token) = (parts.number()? == 1, LeaseToken(parts.number()?));
    let is_new = parts.number() == Some(1);
    let outcome = if is_kept { PublishOutcome::Stored } else { PublishOutcome::Superseded(token) };
    Some((outcome, is_kept && is_new))
}

/// Slots, and by how much the starts that this proxy has reserved are missing.
pub(super) fn reserved_slots(
    reply: Value,
    slack: Duration,
    hold_max: Duration,
) -> Option<(ReservedSlots, Duration)> {
    let mut parts = Parts::of(reply)?;
    let (beyond, missing) = match parts.value()? {
        Value::Int(negative @ ..=-1) => (None, negative.unsigned_abs() - 1),
        value => (Some(Duration::from_micros(call::number(&value)?)), 0),
    };
    let missing = Duration::from_micros(missing);
    let hold = read_hold(&mut parts, hold_max)?.filter(|hold| !hold.left.is_zero());
    let now = parts.number()?;
    let mut slots = Vec::new();
    while let Some(slot) = parts.value() {
        slots.push(Duration::from_micros(call::number(&slot)?));
    }
    let last = slots.last().map(|slot| now.saturating_add(micros(*slot)));
    let given = last.map(|at| GivenSlot { at, slack });
    Some((ReservedSlots { slots, beyond, hold, given }, missing))
}

/// The hold that applies.
pub(super) fn hold(reply: Value, hold_max: Duration) -> Option<Hold> {
    read_hold(&mut Parts::of(reply)?, hold_max)?
}

/// The proxies at an origin, and its hold.
pub(super) fn presence(reply: Value, hold_max: Duration) -> Option<Presence> {
    read_presence(&mut Parts::of(reply)?, hold_max)
}

fn read_presence(parts: &mut Parts, hold_max: Duration) -> Option<Presence> {
    let proxies = parts.count()?.min(MEMBERS_MAX);
    let hold = read_hold(parts, hold_max)?.filter(|hold| !hold.left.is_zero());
    Some(Presence { proxies, hold })
}

/// Left, which is no longer than this proxy holds by itself, status and cause; no hold has no
/// status.
fn read_hold(parts: &mut Parts, hold_max: Duration) -> Option<Option<Hold>> {
    let left = Duration::from_micros(parts.number()?).min(hold_max);
    let status = u16::try_from(parts.number()?).ok()?;
    let cause = HoldCause::of(&parts.bytes()?);
    let is_status = (100..=599).contains(&status);
    Some((status > 0).then_some(Hold { left, status: if is_status { status } else { 503 }, cause }))
}

/// The parts of the reply to a command that reads what concerns all origins; `None`: another program
/// has written something else there.
async fn read_shared(
    shared: &Shared,
    (operation, command): (Operation, &'static str),
    name: &str,
    arguments: Vec<Vec<u8>>,
) -> Result<Option<Parts>, Error> {
    let call = Call::command(operation, command, shared.keys.cluster(name), arguments);
    let gone = |_| Err(ErrorKind::Broken.with("the engine has ended"));
    match shared.send(call)?.await.unwrap_or_else(gone) {
        Err(error) if error.kind == ErrorKind::WrongType => Ok(None),
        reply => Parts::of(reply?).map(Some).ok_or_else(|| ErrorKind::Protocol.with(name)),
    }
}

/// The heads of all logs.
pub(super) async fn heads(shared: &Shared) -> Result<NamedHeads, Error> {
    scan_heads(shared, head_of).await.map(in_order)
}

/// The heads of a log in the last hours.
pub(super) async fn hours(shared: &Shared, log: LogId) -> Result<Vec<LogHead>, Error> {
    let fields = (0..HOURS_KEPT).map(|hour| format!("{log} {hour}").into_bytes()).collect();
    let reply = read_shared(shared, (Operation::Heads, "HMGET"), "hours", fields).await?;
    let Some(mut parts) = reply else { return Ok(Vec::new()) };
    let mut heads = Vec::new();
    while let Some(value) = parts.value() {
        let text = call::bytes(value).and_then(|text| String::from_utf8(text).ok());
        let head = text.and_then(|text| head_of(&log.to_string(), &text));
        heads.extend(head.map(|(_, head)| head));
    }
    heads.sort_by_key(|head| head.number);
    Ok(heads)
}

/// What `read` has of each head, from its place and its text.
async fn scan_heads<T>(
    shared: &Shared,
    read: impl Fn(&str, &str) -> Option<T>,
) -> Result<Vec<T>, Error> {
    let mut heads = Vec::new();
    let mut cursor = b"0".to_vec();
    loop {
        let step = vec![cursor, b"COUNT".to_vec(), decimal(HEADS_STEP)];
        let reply = read_shared(shared, (Operation::Heads, "HSCAN"), "heads", step).await?;
        let Some(mut parts) = reply else { return Ok(Vec::new()) };
        let (next, fields) = (parts.bytes(), parts.value().and_then(Parts::of));
        let (Some(next), Some(mut fields)) = (next, fields) else {
            return Err(ErrorKind::Protocol.with("heads"));
        };
        while let (Some(place), Some(text)) = (fields.bytes(), fields.bytes()) {
            if let (Ok(place), Ok(text)) = (String::from_utf8(place), String::from_utf8(text)) {
                heads.extend(read(&place, &text));
            }
        }
        if next == b"0" || heads.len() >= HEADS_MAX {
            return Ok(heads);
        }
        cursor = next;
    }
}

/// All proxies, as their heartbeats have left them.
pub(super) async fn roster(shared: &Shared) -> Result<Roster, Error> {
    let mut scores = HeartbeatScores::default();
    for (name, of) in scores.by_key() {
        *of = scores_of(shared, name).await?;
    }
    let versions = scan_heads(shared, |_, text| version_of(text)).await?;
    Ok(Roster::of(&scores, versions, shared.config.settings_word(), shared.now()))
}

/// The members of one key with their numbers; what is no name or no number is as absent.
async fn scores_of(shared: &Shared, name: &str) -> Result<Scores, Error> {
    let mut scores = Scores::new();
    for first in (0..u64::from(RANKS_MAX)).step_by(SCORES_STEP) {
        let last = first + SCORES_STEP as u64 - 1;
        let step = vec![decimal(first), decimal(last), b"WITHSCORES".to_vec()];
        let reply = read_shared(shared, (Operation::Heartbeat, "ZRANGE"), name, step).await?;
        let Some(mut parts) = reply else { break };
        let mut count = 0;
        while let (Some(member), Some(score)) = (parts.bytes(), parts.bytes()) {
            count += 1;
            let member = String::from_utf8(member).ok();
            scores.extend(member.zip(whole_number(&score)));
        }
        if count < SCORES_STEP {
            break;
        }
    }
    Ok(scores)
}

fn whole_number(text: &[u8]) -> Option<u64> {
    let number: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    let is_whole = number >= 0.0 && number <= NUMBER_MAX as f64 && number.fract() == 0.0;
    is_whole.then_some(number as u64)
}

/// The name of the proxy, when its head was noted, and its version, as in [`head_of`].
fn version_of(text: &str) -> Option<(String, Micros, String)> {
    let mut words = text.splitn(6, ' ');
    let noted = words.next()?.parse().ok()?;
    let version = words.nth(3)?.to_owned();
    Some((words.next()?.to_owned(), noted, version))
}

/// The place is that of a log or, from an earlier version, of a proxy; the text: when it was noted,
/// number, hash, time, version and name of the proxy.
fn head_of(place: &str, text: &str) -> Option<(String, LogHead)> {
    let (place, contradicts) = match place.strip_suffix('!') {
        Some(place) => (place, true),
        None => (place, false),
    };
    let mut words = text.splitn(6, ' ').skip(1);
    let number = words.next()?.parse().ok()?;
    let hash = digest(words.next()?)?;
    let time = Timestamp::from_millis(words.next()?.parse().ok()?);
    let name = words.nth(1).filter(|name| !name.is_empty());
    let log = LogId::parse(place).filter(|_| name.is_some());
    Some((name.unwrap_or(place).to_owned(), LogHead { log, number, hash, time, contradicts }))
}
