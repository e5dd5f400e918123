//! A placeholder in the place of an invalid value: a valid example of the setting, so that the
//! problems of the others are found in the same round. Settings with a placeholder are checked and
//! never used.

use config::{Value, ValueKind};
use serde_json::Value as Json;

use super::schema::Schema;

/// Replaces the value at `key`, such as `agents.rules[0].token`, by the example of the schema;
/// removes it if there is no such setting. False: there is no such key in the tree.
pub fn put_placeholder(tree: &mut Value, key: &str, schema: &Schema) -> bool {
    let steps: Vec<&str> = key.split(['.', '[']).filter(|step| !step.is_empty()).collect();
    let Some((last, way)) = steps.split_last() else { return false };
    let mut at = tree;
    for step in way {
        let below = match &mut at.kind {
            ValueKind::Table(table) => table.get_mut(*step),
            ValueKind::Array(items) => index(step).and_then(|index| items.get_mut(index)),
            _ => None,
        };
        let Some(value) = below else { return false };
        at = value;
    }
    let example = schema.example(key).filter(|example| !example.is_null()).map(value_of);
    match (&mut at.kind, example) {
        (ValueKind::Table(table), Some(example)) => {
            table.insert((*last).to_owned(), example);
            true
        }
        (ValueKind::Table(table), None) => table.remove(*last).is_some(),
        (ValueKind::Array(items), Some(example)) => {
            let item = index(last).and_then(|index| items.get_mut(index));
            item.map(|item| *item = example).is_some()
        }
        _ => false,
    }
}

/// Whether one of the keys is the other or contains it: a diagnostic about the one may be caused by
/// the replacement of the other.
pub fn is_within(one: &str, other: &str) -> bool {
    let below = |whole: &str, part: &str| {
        part.strip_prefix(whole).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    below(one, other) || below(other, one)
}

fn index(step: &str) -> Option<usize> {
    step.strip_suffix(']')?.parse().ok()
}

fn value_of(example: &Json) -> Value {
    let kind = match example {
        Json::Null => ValueKind::Nil,
        Json::Bool(truth) => ValueKind::Boolean(*truth),
        Json::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(number) => ValueKind::Float(number),
            None => ValueKind::I64(number.as_i64().unwrap_or(i64::MAX)),
        },
        Json::String(text) => ValueKind::String(text.clone()),
        Json::Array(items) => ValueKind::Array(items.iter().map(value_of).collect()),
        Json::Object(table) => {
            // What is not set is left out of a file, too.
            let set = table.iter().filter(|(_, value)| !value.is_null());
            ValueKind::Table(set.map(|(name, value)| (name.clone(), value_of(value))).collect())
        }
    };
    Value::new(None, kind)
}
