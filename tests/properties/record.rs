//! A record, whatever strangers' texts are in it, is one line of JSON in canonical form (RFC 8785), says
//! the same when it is read, and its hash is that of its text; the chain holds from line to line.

use std::net::IpAddr;

use courtesy::audit::{
    AgentSource, Client, Content, Event, Exemption, Group, Head, Profile, Reason, Record, Robots,
    RobotsStatus, Rule, checked_hash,
};
use courtesy::types::timestamp::Timestamp;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::input::Input;

const RECORDS_MAX: usize = 3;
/// 9999-12-31T23:59:59.999Z: RFC 3339 has no later year.
const LAST_MILLISECOND: u64 = 253_402_300_799_999;

/// Choices of what is in the records.
pub fn holds(bytes: &[u8]) {
    let mut input = Input(bytes);
    let (mut head, mut lines, mut records) = (Head::genesis(), Vec::new(), Vec::new());
    while records.len() < RECORDS_MAX && (records.is_empty() || !input.is_empty()) {
        let record = self::record(&mut input);
        records.push(Record { seq: head.seq + 1, prev: head.hash.clone(), ..record.clone() });
        head.push(Content::Record(Box::new(record)), &mut lines);
    }
    let lines: Vec<&[u8]> =
        lines.strip_suffix(b"\n").expect("a line ends").split(|byte| *byte == b'\n').collect();
    assert_eq!(lines.len(), records.len(), "one line each");
    for (line, record) in lines.into_iter().zip(records) {
        assert!(line.iter().all(|byte| *byte >= 0x20), "no control characters");
        assert_eq!(Content::parse(line), Ok(Content::Record(Box::new(record))));
        let canonical = canonical_without_hash(line);
        let digest = courtesy::types::sanitize::hex(&Sha256::digest(&canonical));
        assert_eq!(checked_hash(line), Ok(digest.as_str()));
        assert!(
            line.starts_with(&canonical[..canonical.len() - 1]),
            "it is its own canonical form"
        );
    }
}

/// One line without its end, for who needs any.
pub fn line(input: &mut Input<'_>) -> Vec<u8> {
    let (mut head, mut lines) = (Head::genesis(), Vec::new());
    head.push(Content::Record(Box::new(record(input))), &mut lines);
    lines.pop();
    lines
}

/// As `jq -cS 'del(.hash)'` has it.
fn canonical_without_hash(line: &[u8]) -> Vec<u8> {
    let mut value: Value = serde_json::from_slice(line).expect("a line is JSON");
    value.as_object_mut().expect("an object").remove("hash").expect("it has a hash");
    value.sort_all_objects();
    serde_json::to_vec(&value).expect("plain values")
}

fn record(input: &mut Input<'_>) -> Record {
    const EVENTS: [Event; 4] = [Event::Denied, Event::WouldDeny, Event::Exempted, Event::Tunnelled];
    const SOURCES: [AgentSource; 3] =
        [AgentSource::Configured, AgentSource::UserAgent, AgentSource::Absent];
    Record {
        agent: input.some(Input::text),
        agent_source: one_of(&SOURCES, input),
        client: client(input),
        event: one_of(&EVENTS, input),
        exemption: input.some(exemption),
        group: input.some(|input| Group { line: input.number() as u32, token: input.text() }),
        id: input.text(),
        method: input.text(),
        node: None,
        origin: input.text(),
        pace_seen: None,
        path_seen: input.flag(),
        prev: String::new(),
        profile: profile(input),
        reason: one_of(&Reason::ALL, input),
        robots: input.some(robots).map(Into::into),
        rule: input.some(rule),
        seq: 0,
        setting: input.some(Input::text),
        sni: None,
        time: moment(input),
        trace_id: None,
        url: input.text(),
        url_as_received: input.some(Input::text),
        user_agent: input.some(Input::text),
    }
}

fn one_of<T: Copy>(all: &[T], input: &mut Input<'_>) -> T {
    all[usize::from(input.byte()) % all.len()]
}

fn moment(input: &mut Input<'_>) -> Timestamp {
    Timestamp::from_millis(input.number() % (LAST_MILLISECOND + 1))
}

fn client(input: &mut Input<'_>) -> Client {
    let bytes = std::array::from_fn::<u8, 16, _>(|_| input.byte());
    let address: IpAddr =
        if input.flag() { bytes.into() } else { [bytes[0], bytes[1], bytes[2], bytes[3]].into() };
    Client::at(address, input.some(Input::text))
}

fn exemption(input: &mut Input<'_>) -> Exemption {
    let (by, reason) = (input.text(), input.text());
    Exemption { by, reason, ticket: input.some(Input::text), until: moment(input) }
}

fn profile(input: &mut Input<'_>) -> Profile {
    let settings = (0..input.byte() % 4).map(|_| (input.text(), input.text())).collect();
    Profile { name: input.text(), settings, version: input.number() as u32 }
}

fn robots(input: &mut Input<'_>) -> Robots {
    const STATES: [RobotsStatus; 3] =
        [RobotsStatus::Rules, RobotsStatus::Unavailable, RobotsStatus::Unreachable];
    Robots {
        asked_as: input.some(Input::text),
        capture: input.some(Input::text),
        cause: input.some(Input::text),
        confirmed_at: input.some(moment),
        cut: input.flag(),
        failed_capture: input.some(Input::text),
        failures: input.some(|input| input.number() as u32),
        fetched_at: input.some(moment),
        next_try: input.some(moment),
        result: input.some(Input::text),
        sha256: input.some(Input::text),
        since: input.some(moment),
        site_up: input.some(Input::flag),
        state: one_of(&STATES, input),
        status: input.some(|input| input.number() as u16),
        tried: input.some(moment),
        url: input.text(),
        url_reached: input.some(Input::text),
    }
}

fn rule(input: &mut Input<'_>) -> Rule {
    Rule {
        directive: input.text(),
        line: input.number() as u32,
        pattern: input.text(),
        read_as: Vec::new(),
    }
}
