//! The lines of the writer against `docs/reference/audit-record.schema.json`.

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::{Map, Value, json};

use super::*;

struct Schema {
    schemas: Schemas,
    index: SchemaIndex,
}

impl Schema {
    fn read() -> Self {
        let text = include_str!("../../../docs/reference/audit-record.schema.json");
        let (mut compiler, mut schemas) = (Compiler::new(), Schemas::new());
        compiler.add_resource("line.json", serde_json::from_str(text).unwrap()).unwrap();
        let index = compiler.compile("line.json", &mut schemas).unwrap();
        Self { schemas, index }
    }

    fn takes(&self, line: &Value) -> bool {
        self.schemas.validate(line, self.index).is_ok()
    }

    #[track_caller]
    fn holds(&self, line: &Value) {
        if let Err(error) = self.schemas.validate(line, self.index) {
            panic!("{error:#}\n{line:#}");
        }
    }
}

/// Every member that a record can have.
fn whole() -> Record {
    let mut record = full();
    record.robots.as_mut().unwrap().asked_as = Some("ExampleBot".into());
    record.rule.as_mut().unwrap().read_as = vec!["decoded".into(), "slashes_merged".into()];
    Record {
        client: Client { name: Some("jane".into()), ..record.client },
        node: Some("n".into()),
        pace_seen: Some(false),
        setting: Some("robots.mode".into()),
        sni: Some("a.example".into()),
        trace_id: Some("4bf92f3577b34da6a3ce929d0e0e4736".into()),
        url_as_received: Some("http://example.com/é".into()),
        ..record
    }
}

/// A line of each notice, and of records with the least and the most members.
fn lines() -> Vec<Value> {
    let keyed = Some(ClientAddress::Keyed("~3b1f0c9d2a7e4458".into()));
    let keyed = Record { client: Client { address: keyed, name: None }, ..minimal() };
    let records =
        [minimal(), full(), whole(), keyed].map(|record| Content::Record(Box::new(record)));
    let notices = notices::table().into_iter().map(|(notice, _)| Content::Notice(notice));
    written(notices.chain(records))
}

/// As the writer makes their lines.
fn written(contents: impl IntoIterator<Item = Content>) -> Vec<Value> {
    let mut head = Head { hash: "0".repeat(64), seq: 6 };
    let line = |content| {
        let mut line = Vec::new();
        head.push(content, &mut line);
        let mut line = serde_json::from_slice(&line).unwrap();
        lengthen(&mut line);
        line
    };
    contents.into_iter().map(line).collect()
}

/// The notices of tests have short digests.
fn lengthen(value: &mut Value) {
    match value {
        Value::String(text) if matches!(&**text, "ab" | "cd" | "ef") => *text = text.repeat(32),
        Value::Array(items) => items.iter_mut().for_each(lengthen),
        Value::Object(members) => members.values_mut().for_each(lengthen),
        _ => {}
    }
}

/// Objects whose members may have any name, or any value.
const OPEN: [&str; 5] = ["exemptions", "settings", "statuses", "new", "old"];

type Members = Map<String, Value>;

/// What is made of an object, each in words and as it becomes.
type Change = fn(&Members) -> Vec<(String, Members)>;

/// Hands a copy of `line` to `judge` for each change that `change` makes to one object in it.
fn with_each_object(line: &Value, change: Change, judge: &mut dyn FnMut(&str, &Value)) {
    change_at(line, "", change, judge);
}

fn change_at(line: &Value, pointer: &str, change: Change, judge: &mut dyn FnMut(&str, &Value)) {
    match line.pointer(pointer).unwrap() {
        Value::Object(members) => {
            for (what, changed) in change(members) {
                let mut copy = line.clone();
                *copy.pointer_mut(pointer).unwrap() = Value::Object(changed);
                judge(&format!("{what} of {pointer:?}"), &copy);
            }
            for name in members.keys().filter(|name| !OPEN.contains(&name.as_str())) {
                change_at(line, &format!("{pointer}/{name}"), change, judge);
            }
        }
        Value::Array(items) => {
            for at in 0..items.len() {
                change_at(line, &format!("{pointer}/{at}"), change, judge);
            }
        }
        _ => {}
    }
}

#[test]
fn every_kind_of_line_is_valid() {
    let schema = Schema::read();
    let reasons = Reason::ALL.map(|reason| Record { reason, ..minimal() });
    let events = Event::ALL.map(|event| Record { event, ..minimal() });
    let records = reasons.into_iter().chain(events);
    let mut lines = written(records.map(|record| Content::Record(Box::new(record))));
    lines.extend(self::lines());
    lines.iter().for_each(|line| schema.holds(line));
    for word in Notice::WORDS.iter().copied().chain(Event::ALL.map(Event::word)) {
        assert!(lines.iter().any(|line| line["event"] == word), "{word} has no line");
    }
}

#[test]
fn a_line_with_a_member_more_is_not_valid() {
    let schema = Schema::read();
    let add: Change = |members| {
        let mut members = members.clone();
        members.insert("surplus".into(), json!(1));
        vec![("one more".to_owned(), members)]
    };
    for line in lines() {
        with_each_object(&line, add, &mut |what, changed| {
            assert!(!schema.takes(changed), "{what}: {changed:#}");
        });
    }
}

#[test]
fn a_line_with_a_member_of_another_type_is_not_valid() {
    let schema = Schema::read();
    let retype: Change = |members| {
        let mut changed = Vec::new();
        // A change of settings has values of any type.
        for name in members.keys().filter(|name| !["new", "old"].contains(&name.as_str())) {
            for other in [json!("x y"), json!(-1), json!(0.5), json!([[]]), json!({ "x": [] })] {
                let was = &members[name];
                let is_same_type = std::mem::discriminant(was) == std::mem::discriminant(&other);
                // An absent text is null, and a text may be any.
                let may_be_text = was.is_null() && other.is_string();
                if !may_be_text && (!is_same_type || was.is_number()) {
                    let mut members = members.clone();
                    members.insert(name.clone(), other);
                    changed.push((name.clone(), members));
                }
            }
        }
        changed
    };
    for line in lines() {
        with_each_object(&line, retype, &mut |what, changed| {
            assert!(!schema.takes(changed), "{what}: {changed:#}");
        });
    }
}

#[test]
fn a_line_that_lacks_what_a_reader_needs_is_not_valid() {
    let schema = Schema::read();
    let mut refused = 0;
    let remove: Change = |members| {
        let without = |name: &String| {
            let mut members = members.clone();
            members.remove(name);
            (name.clone(), members)
        };
        members.keys().map(without).collect()
    };
    for line in lines() {
        with_each_object(&line, remove, &mut |what, changed| {
            let text = text_of(changed);
            if Content::parse(text.as_bytes()).is_err() {
                assert!(!schema.takes(changed), "{what}: {changed:#}");
                refused += 1;
            }
        });
    }
    assert!(refused > 200, "{refused}");
}

/// As the writer has it: the hash is the last member.
fn text_of(line: &Value) -> String {
    let mut line = line.clone();
    let hash = line.as_object_mut().unwrap().remove("hash").unwrap_or_default();
    let text = line.to_string();
    format!("{},\"hash\":{hash}}}", &text[..text.len() - 1])
}

#[test]
fn another_event_and_another_word_of_one_are_not_valid() {
    let schema = Schema::read();
    for line in lines() {
        for other in ["fetched", "Denied", ""] {
            let mut line = line.clone();
            line["event"] = json!(other);
            assert!(!schema.takes(&line), "{line:#}");
        }
    }
}
