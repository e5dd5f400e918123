//! The merged values by key, before they are deserialised to [`Settings`](super::Settings).

use config::{Value, ValueKind};

/// The values on the path of a key such as `agents.rules[0].token`, to the last that exists.
pub(super) fn path<'a>(tree: &'a Value, key: &str) -> Vec<&'a Value> {
    let mut values = Vec::new();
    let mut at = tree;
    for step in key.split(['.', '[']).filter(|step| !step.is_empty()) {
        let below = match &at.kind {
            ValueKind::Table(table) => table.get(step),
            ValueKind::Array(items) => {
                step.trim_end_matches(']').parse().ok().and_then(|n: usize| items.get(n))
            }
            _ => None,
        };
        let Some(value) = below else { break };
        values.push(value);
        at = value;
    }
    values
}

/// The source of a setting, or else of its table; `None` if neither is set.
pub(super) fn place_of(tree: &Value, key: &str) -> Option<String> {
    path(tree, key).into_iter().rev().find_map(Value::origin).map(Into::into)
}
