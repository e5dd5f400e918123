//! Records as events of other systems, one line each: ECS, OCSF, CEF. Pure: `docs/reference/audit-export.md` has the
//! table of what becomes what.

mod cef;
mod ecs;
mod ocsf;
mod subject;
#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::audit::Record;
use crate::types::sanitize;

/// A format of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventFormat {
    Ecs,
    Ocsf,
    Cef,
}

impl EventFormat {
    /// The event of `record`, whose line has `hash`; without a line end, and without a character that could break the
    /// line or turn its direction, whatever the record has.
    pub fn line(self, record: &Record, hash: &str) -> String {
        match self {
            Self::Ecs => json_line(ecs::event(record, hash)),
            Self::Ocsf => json_line(ocsf::event(record, hash)),
            Self::Cef => cef::line(record, hash),
        }
    }
}

fn json_line(event: Value) -> String {
    let line = without_nulls(event).to_string();
    // JSON may have line separators and marks of direction as themselves.
    sanitize::shown(&line, sanitize::escape_json).into_owned()
}

/// Members that a record lacks are left out, and objects of which nothing is left.
fn without_nulls(value: Value) -> Value {
    let Value::Object(members) = value else { return value };
    let kept = members.into_iter().map(|(name, value)| (name, without_nulls(value)));
    let is_empty =
        |value: &Value| value.is_null() || value.as_object().is_some_and(|it| it.is_empty());
    Value::Object(kept.filter(|(_, value)| !is_empty(value)).collect())
}
