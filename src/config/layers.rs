//! The three layers of settings, each parsed to values that have their place: a line of the file, a
//! variable, a flag. The config crate merges them; this module adds the places, the types of
//! variables, and diagnostics of unknown variables.

use std::borrow::Cow;
use std::path::Path;

use config::{ConfigError, Map, Source, Value, ValueKind};
use serde_json::Value as Json;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::diagnostics::Diagnostic;
use super::schema::Schema;
use crate::types::words::nearest;

/// The variable that names the file.
pub const FILE_VARIABLE: &str = "COURTESY_CONFIG";
const PREFIX: &str = "COURTESY__";

/// The flag that names any setting.
pub const SET_FLAG: &str = "--set";

/// A setting changed on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// Dotted: `listen.proxy`.
    pub key: Cow<'static, str>,
    pub change: Change,
    /// As written, for diagnostics: `--listen`.
    pub flag: &'static str,
}

/// How a flag changes its setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// To a text, of the setting's own type.
    Set(String),
    /// To a value as a file has it, of a key that may not exist: `--set KEY=VALUE`.
    Assign(String),
    SetList(Vec<String>),
    /// Adds to the list of file and environment.
    Add(Vec<String>),
}

/// The file's tree of values.
#[derive(Clone, Debug, Default)]
pub struct FileLayer(Map<String, Value>);

impl FileLayer {
    /// Parses a settings file.
    pub fn parse(path: &Path, text: &str) -> Result<Self, Diagnostic> {
        let place = |offset| format!("{}:{}", path.display(), line_at(text, offset));
        let table = DeTable::parse(text).map_err(|error| {
            let place = place(error.span().map_or(0, |span| span.start));
            Diagnostic::new("", Some(&place), error.message())
        })?;
        Ok(Self(table_values(table.get_ref(), &place)))
    }

    /// The same as one value, to be compared with the schema.
    pub fn tree(&self) -> Value {
        Value::new(None, self.0.clone())
    }

    /// The layer of that value.
    pub fn of_tree(tree: Value) -> Self {
        Self(tree.into_table().unwrap_or_default())
    }
}

impl Source for FileLayer {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Map<String, Value>, ConfigError> {
        Ok(self.0.clone())
    }
}

fn table_values(table: &DeTable<'_>, place: &impl Fn(usize) -> String) -> Map<String, Value> {
    let mut values = Map::new();
    for (key, value) in table {
        // The key's place, not the value's: that is the line people look for.
        let at = place(key.span().start);
        values.insert(key.get_ref().to_string(), value_of(value, at, place));
    }
    values
}

fn value_of(value: &Spanned<DeValue<'_>>, at: String, place: &impl Fn(usize) -> String) -> Value {
    let kind = match value.get_ref() {
        DeValue::String(text) => ValueKind::String(text.to_string()),
        DeValue::Boolean(truth) => ValueKind::Boolean(*truth),
        // What is no i64 fits no setting; it stays a number, so that the diagnostic calls it one.
        DeValue::Integer(digits) => match i64::from_str_radix(digits.as_str(), digits.radix()) {
            Ok(number) => ValueKind::I64(number),
            Err(_) => ValueKind::Float(f64::INFINITY),
        },
        DeValue::Float(digits) => ValueKind::Float(digits.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Datetime(date) => ValueKind::String(date.to_string()),
        DeValue::Array(items) => {
            let item = |item: &Spanned<_>| value_of(item, place(item.span().start), place);
            ValueKind::Array(items.iter().map(item).collect())
        }
        DeValue::Table(table) => ValueKind::Table(table_values(table, place)),
    };
    Value::new(Some(&at), kind)
}

fn line_at(text: &str, offset: usize) -> usize {
    1 + memchr::memchr_iter(b'\n', &text.as_bytes()[..offset.min(text.len())]).count()
}

/// The settings among the variables, as (dotted key, value).
pub fn from_environment(
    variables: &[(String, String)],
    schema: &Schema,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<(String, Value)> {
    let mut values = Vec::new();
    for (name, text) in variables.iter().filter(|(name, _)| is_ours(name)) {
        let place = format!("${name}");
        let key = name.strip_prefix(PREFIX).map(|rest| rest.to_lowercase().replace("__", "."));
        match key.as_deref().and_then(|key| Some((key, schema.at(key)?))) {
            Some((key, example)) => match typed(example, text, &place) {
                Ok(value) => values.push((key.to_owned(), value)),
                Err(problem) => diagnostics.push(Diagnostic::new(key, Some(&place), problem)),
            },
            None => diagnostics.push(unread(name, schema)),
        }
    }
    values
}

/// Whether a variable can only be meant for this program. Kubernetes sets variables of its own for
/// a service called "courtesy", and `courtesy env` one for clients; those are ignored.
fn is_ours(name: &str) -> bool {
    let of_kubernetes = name == "COURTESY_PORT"
        || name.starts_with("COURTESY_PORT_")
        || name.starts_with("COURTESY_SERVICE_HOST")
        || name.starts_with("COURTESY_SERVICE_PORT");
    let of_clients = name == "COURTESY_PROXY";
    name.starts_with("COURTESY_") && name != FILE_VARIABLE && !of_kubernetes && !of_clients
}

fn unread(name: &str, schema: &Schema) -> Diagnostic {
    let spellings: Vec<String> = schema.keys().iter().map(|key| variable(key)).collect();
    let flat = |name: &str| name.replace("__", "_").to_uppercase();
    let meant = spellings
        .iter()
        .find(|spelling| flat(spelling) == flat(name))
        .map(String::as_str)
        .or_else(|| nearest(&name.to_uppercase(), spellings.iter().map(String::as_str)));
    let hint = meant.map_or_else(
        || "settings are spelt COURTESY__TABLE__NAME, with two underscores each time".into(),
        |meant| format!("did you mean {meant}?"),
    );
    Diagnostic::new("", Some(&format!("${name}")), "no setting has this name").with_hint(Some(hint))
}

/// The variable of a dotted key.
pub fn variable(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "__").to_uppercase())
}

/// Parses a text of the environment or the command line as the type of its setting.
pub fn typed(example: &Json, text: &str, place: &String) -> Result<Value, String> {
    let kind = match example {
        Json::Bool(_) => match text {
            "true" => ValueKind::Boolean(true),
            "false" => ValueKind::Boolean(false),
            _ => return Err(format!("expected true or false, found \"{text}\"")),
        },
        Json::Number(_) => match text.parse() {
            Ok(number) => ValueKind::I64(number),
            Err(_) => return Err(format!("expected a whole number, found \"{text}\"")),
        },
        Json::Array(items) if items.first().is_some_and(Json::is_object) => {
            return Err("a list of tables can be set in the file only".into());
        }
        Json::Object(_) => return Err("is a table; set one of its settings".into()),
        Json::Array(_) => {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            return Ok(list(items.map(str::to_owned), place));
        }
        Json::String(_) | Json::Null => ValueKind::String(text.to_owned()),
    };
    Ok(Value::new(Some(place), kind))
}

fn list(items: impl Iterator<Item = String>, place: &String) -> Value {
    let items: Vec<Value> = items.map(|item| Value::new(Some(place), item)).collect();
    Value::new(Some(place), items)
}

/// The value of a flag, on top of the lower layers.
pub fn from_flag(
    flag: &Override,
    lower: Option<Value>,
    schema: &Schema,
) -> Result<Value, Diagnostic> {
    let place = flag.flag.to_owned();
    let Some(example) = schema.at(&flag.key) else {
        return Err(schema.unknown(&flag.key, Some(&place)));
    };
    match &flag.change {
        Change::Set(text) => typed(example, text, &place)
            .map_err(|problem| Diagnostic::new(&*flag.key, Some(&place), problem)),
        Change::Assign(text) => assigned(&flag.key, example, text, schema),
        Change::SetList(items) => Ok(list(items.iter().cloned(), &place)),
        Change::Add(items) => {
            let Some(Value { kind: ValueKind::Array(mut all), .. }) = lower.clone() else {
                return Ok(list(items.iter().cloned(), &place));
            };
            all.extend(items.iter().map(|item| Value::new(Some(&place), item.as_str())));
            let before = lower.as_ref().and_then(Value::origin).unwrap_or("default");
            Ok(Value::new(Some(&format!("{before} and {place}")), all))
        }
    }
}

/// The value of `--set`: as a file has it, else a text as a variable has it.
fn assigned(key: &str, example: &Json, text: &str, schema: &Schema) -> Result<Value, Diagnostic> {
    let place = SET_FLAG.to_owned();
    let value =
        DeValue::parse(text).ok().map(|value| value_of(&value, place.clone(), &|_| place.clone()));
    // A number or a word alone is a text, and a list of one, where that is wanted.
    let is_meant = |value: &Value| match example {
        Json::String(_) | Json::Null => matches!(value.kind, ValueKind::String(_)),
        Json::Array(_) => matches!(value.kind, ValueKind::Array(_)),
        _ => true,
    };
    let Some(value) = value.filter(is_meant) else {
        return typed(example, text, &place)
            .map_err(|problem| Diagnostic::new(key, Some(&place), problem));
    };
    let mut diagnostics = Vec::new();
    schema.check_at(key, &value, example, &mut diagnostics);
    diagnostics.into_iter().next().map_or(Ok(value), Err)
}

/// The values on the path of a key such as `agents.rules[0].token`, to the last that exists.
pub(super) fn tree_path<'a>(tree: &'a Value, key: &str) -> Vec<&'a Value> {
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
    tree_path(tree, key).into_iter().rev().find_map(Value::origin).map(Into::into)
}
