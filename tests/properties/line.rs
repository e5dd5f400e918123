//! Any bytes in the place of lines of a log are read or refused, never a panic, and there is a report
//! of them, also where their hashes are right; and of a line that was written, no byte can be changed,
//! taken away or added without its hash telling.

use courtesy::audit::read::Filter;
use courtesy::audit::read::report::{Request, Survey};
use courtesy::audit::{Content, Head, checked_hash, split};
use courtesy::types::origin::host::Glob;
use courtesy::types::sanitize::sha256_hex;
use courtesy::types::timestamp::Timestamp;

use super::input::Input;
use super::record;

/// Where a written line is changed and how, then the lines.
pub fn holds(bytes: &[u8]) {
    let mut input = Input(bytes);
    let (place, change, other) = (input.number(), input.byte(), input.byte());
    let lines: Vec<&[u8]> = input.0.split(|byte| *byte == b'\n').collect();
    report(&lines);
    for line in lines {
        let read = Content::parse(line);
        if let (Some((canonical, hash)), Ok(checked)) = (split(line), checked_hash(line)) {
            assert_eq!(hash, checked);
            assert!(canonical.len() < line.len());
        }
        if let Ok(content) = read {
            assert!(content.seq() > 0, "lines are counted from 1");
            let (mut head, mut lines) =
                (Head { hash: "0".repeat(64), seq: content.seq() - 1 }, Vec::new());
            head.push(content, &mut lines);
            assert!(checked_hash(lines.strip_suffix(b"\n").expect("a line")).is_ok());
        }
    }

    let written = record::line(&mut Input(bytes));
    let at = place as usize % written.len();
    let mut changed = written.clone();
    match change % 3 {
        0 => changed[at] = other,
        1 => changed.insert(at, other),
        _ => drop(changed.remove(at)),
    }
    assert!(checked_hash(&written).is_ok());
    assert!(changed == written || checked_hash(&changed).is_err(), "byte {at}");
}

/// Of the lines as they are, and as somebody would have them whose hashes are right.
fn report(lines: &[&[u8]]) {
    let nobody = Filter { agents: vec![Glob::new("nobody")], ..Filter::default() };
    for filter in [Filter::default(), nobody] {
        let mut survey = Survey::of(filter);
        for line in lines {
            survey.read(line);
            survey.read(&sealed(line));
        }
        let request = Request {
            rows_max: 5,
            made_at: Timestamp::from_millis(0),
            origins: Vec::new(),
            agents: Vec::new(),
            clients: Vec::new(),
            verified: None,
        };
        assert!(serde_json::to_vec(&survey.finish(request)).is_ok());
    }
}

/// The line with the hash that belongs to it, in the place of the one it has.
fn sealed(line: &[u8]) -> Vec<u8> {
    let text = split(line).map_or(line, |(canonical, _)| canonical);
    let hash = sha256_hex(&[text, b"}"].concat());
    [text, b",\"hash\":\"", hash.as_bytes(), b"\"}"].concat()
}
