//! Loads [`Settings`] from file, environment and flags: later layers win, and all problems are
//! reported at once as far as they can be separated.

use std::path::{Path, PathBuf};

use config::builder::DefaultState;
use config::{Config, ConfigBuilder, ConfigError, Value, ValueKind};
use ipnet::IpNet;
use serde_json::Value as Json;

use super::diagnostics::{Diagnostic, InvalidSettings};
use super::host_defaults::{SettingsFile, body_memory, runtime_dir, state_dir};
use super::layers::{FileLayer, Override, from_environment, from_flag, place_of, tree_path};
use super::schema::Schema;
use super::settings::Settings;
use super::validate;
use crate::runtime::files;
use crate::types::timestamp::Timestamp;

/// Invalid values reported in one round.
const DIAGNOSTICS_MAX: usize = 100;

/// The result of loading.
#[derive(Debug)]
pub struct LoadReport {
    /// The settings; those that `diagnostics` name have an example value.
    pub loaded: Option<Loaded>,
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads the settings. `named` is the file of `--config`; `environment` is the process's, handed in
/// because only the program layer reads it.
pub fn load(
    named: Option<&Path>,
    environment: impl IntoIterator<Item = (String, String)>,
    flags: &[Override],
) -> Result<Loaded, InvalidSettings> {
    load_and_report(named, environment, flags).into_result()
}

/// As [`load`], continuing after problems: all are reported in one round.
pub fn load_and_report(
    named: Option<&Path>,
    environment: impl IntoIterator<Item = (String, String)>,
    flags: &[Override],
) -> LoadReport {
    let variables: Vec<_> = environment.into_iter().collect();
    match read_file(named, &variables) {
        Ok((file, layer)) => from_layers(file, layer, &variables, flags),
        Err(diagnostic) => LoadReport { loaded: None, diagnostics: vec![diagnostic] },
    }
}

/// As [`load`], where the file at `path` has this text.
pub fn load_text(
    path: &Path,
    text: &str,
    environment: impl IntoIterator<Item = (String, String)>,
) -> Result<Loaded, InvalidSettings> {
    let variables: Vec<_> = environment.into_iter().collect();
    let layer =
        FileLayer::parse(path, text).map_err(|diagnostic| InvalidSettings(vec![diagnostic]))?;
    from_layers(Some(path.to_owned()), layer, &variables, &[]).into_result()
}

impl LoadReport {
    /// The settings, if there are no problems.
    pub fn into_result(self) -> Result<Loaded, InvalidSettings> {
        match self.loaded {
            Some(loaded) if self.diagnostics.is_empty() => Ok(loaded),
            _ => Err(InvalidSettings(self.diagnostics)),
        }
    }

    /// Whether one of these keys has an example value.
    pub fn has_placeholder(&self, keys: &[&str]) -> bool {
        let reported =
            |key: &str| self.diagnostics.iter().any(|diagnostic| is_within(&diagnostic.key, key));
        keys.iter().any(|key| reported(key))
    }
}

fn from_layers(
    file: Option<PathBuf>,
    layer: FileLayer,
    variables: &[(String, String)],
    flags: &[Override],
) -> LoadReport {
    let schema = Schema::new();
    let mut diagnostics = Vec::new();
    let mut tree = layer.tree();
    schema.check(&tree, &mut diagnostics);
    // Those of a list from its end: where one is removed, the others keep their numbers.
    for diagnostic in diagnostics.iter().rev() {
        put_placeholder(&mut tree, &diagnostic.key, &schema);
    }
    let from_variables = from_environment(variables, &schema, &mut diagnostics);
    let mut lowest = Config::builder().add_source(FileLayer::of_tree(tree));
    if let Some(dir) = state_dir(variables) {
        lowest = lowest.set_default("state_dir", dir).expect("a plain name");
    }
    if let Some(size) = body_memory() {
        lowest = lowest.set_default("limits.body_memory", size).expect("a plain name");
    }
    let mut merged = merge(lowest, from_variables, flags, &schema, &mut diagnostics);
    let Some(mut settings) = settings(&mut merged, &schema, &mut diagnostics) else {
        return LoadReport { loaded: None, diagnostics };
    };
    settings.runtime_dir = runtime_dir(variables);
    let mut together = Vec::new();
    validate::check(&settings, |key| place_of(&merged, key), &mut together);
    // What was put in the place of a fault has been reported already.
    let is_new = |it: &Diagnostic| !diagnostics.iter().any(|known| is_within(&known.key, &it.key));
    together.retain(is_new);
    diagnostics.extend(together);
    LoadReport { loaded: Some(Loaded { settings, file, merged }), diagnostics }
}

/// The settings of a tree. Each invalid value is reported and replaced by an example; `None` if
/// that does not lead to settings.
fn settings(
    merged: &mut Value,
    schema: &Schema,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Settings> {
    for _ in 0..DIAGNOSTICS_MAX {
        match Settings::from_merged(merged) {
            Ok(settings) => return Some(settings),
            Err(InvalidSettings(found)) => {
                let key = found.first()?.key.clone();
                let is_known = diagnostics.iter().any(|diagnostic| diagnostic.key == key);
                if !is_known || diagnostics.is_empty() {
                    diagnostics.extend(found);
                }
                if is_known || !put_placeholder(merged, &key, schema) {
                    return None;
                }
            }
        }
    }
    None
}

impl Settings {
    pub(super) fn from_merged(merged: &Value) -> Result<Self, InvalidSettings> {
        merged
            .clone()
            .try_deserialize()
            .map_err(|error| InvalidSettings(vec![explain(error, merged)]))
    }
}

/// A named file must exist; the default one need not.
fn read_file(
    named: Option<&Path>,
    variables: &[(String, String)],
) -> Result<(Option<PathBuf>, FileLayer), Diagnostic> {
    let file = SettingsFile::find(named, variables);
    match file.read().and_then(|bytes| bytes.map(files::text).transpose()) {
        Ok(Some(text)) => {
            let layer = FileLayer::parse(&file.path, &text)?;
            Ok((Some(file.path), layer))
        }
        Ok(None) => Ok((None, FileLayer::default())),
        Err(error) => {
            let problem = format!("cannot read {}: {error}", file.path.display());
            let is_denied = error.kind() == std::io::ErrorKind::PermissionDenied;
            Err(Diagnostic { is_denied, ..Diagnostic::new("", file.by.as_deref(), problem) })
        }
    }
}

fn merge(
    mut builder: ConfigBuilder<DefaultState>,
    variables: Vec<(String, Value)>,
    flags: &[Override],
    schema: &Schema,
    diagnostics: &mut Vec<Diagnostic>,
) -> Value {
    for (key, value) in variables {
        builder = builder.set_override(&key, value).expect("a plain name");
    }
    for flag in flags {
        let lower = builder
            .clone()
            .build()
            .ok()
            .and_then(|config| tree_path(&config.cache, &flag.key).pop().cloned());
        match from_flag(flag, lower, schema) {
            Ok(value) => builder = builder.set_override(&*flag.key, value).expect("a plain name"),
            Err(diagnostic) => diagnostics.push(diagnostic),
        }
    }
    builder.build().map(|config| config.cache).unwrap_or_else(|error| {
        diagnostics.push(Diagnostic::new("", None, error.to_string()));
        Value::new(None, ValueKind::Nil)
    })
}

/// The config crate's error as a diagnostic with a place.
fn explain(error: ConfigError, merged: &Value) -> Diagnostic {
    let (key, problem) = match error {
        ConfigError::Type { unexpected, expected, key, .. } => {
            (key, format!("expected {expected}, found {unexpected}"))
        }
        ConfigError::NotFound(key) => (Some(key), "is required".into()),
        ConfigError::At { error, key, .. } => (key, error.to_string()),
        other => (None, other.to_string()),
    };
    let key = with_dots(&key.unwrap_or_default());
    let place = place_of(merged, &key);
    Diagnostic::new(key, place.as_deref(), problem)
}

/// The config crate writes `rules[0]token` for `rules[0].token`.
fn with_dots(key: &str) -> String {
    key.replace(']', "].").replace("].[", "][").replace("..", ".").trim_end_matches('.').to_owned()
}

// A placeholder in the place of an invalid value: a valid example of the setting, so that the
// problems of the others are found in the same round. Settings with a placeholder are checked and
// never used.

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
        Json::Number(number) => ValueKind::I64(number.as_i64().unwrap_or(i64::MAX)),
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

// The result of loading without a problem: the settings, with the merged values that they come
// from.

/// Settings with the source of each.
#[derive(Debug)]
pub struct Loaded {
    pub settings: Settings,
    /// The file that was read.
    pub file: Option<PathBuf>,
    pub(super) merged: Value,
}

impl Loaded {
    /// Whether a flag of the command line, rather than a file or a variable, sets this setting.
    pub fn is_flagged(&self, key: &str) -> bool {
        place_of(&self.merged, key).is_some_and(|place| place.starts_with("--"))
    }

    /// The texts of a list as written, with their places.
    pub(super) fn texts(&self, key: &str) -> Vec<(String, Option<String>)> {
        let Some(Value { kind: ValueKind::Array(items), .. }) = tree_path(&self.merged, key).pop()
        else {
            return Vec::new();
        };
        let text = |item: &Value| {
            Some((item.clone().into_string().ok()?, item.origin().map(str::to_owned)))
        };
        items.iter().filter_map(text).collect()
    }

    /// As [`Settings::notices`], and those of the settings as written.
    pub fn notices(&self, now: Timestamp) -> Vec<String> {
        let mut notices = self.settings.notices(now);
        for key in ["clients.allow", "egress.allow", "egress.deny"] {
            let texts = self.texts(key);
            let wider =
                texts.iter().filter_map(|(text, place)| Some((text, with_host_bits(text)?, place)));
            notices.extend(wider.map(|(text, block, place)| {
                let place = place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default();
                format!(
                    "{place}{key}: \"{text}\" stands for the whole block {block}; write that, or one address"
                )
            }));
        }
        notices
    }
}

/// The block of a text that names an address within it.
fn with_host_bits(text: &str) -> Option<IpNet> {
    // Of `[fd00::1/64]:443` and `10.0.0.5/8:443` the part before the port.
    let block = text
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
        .map_or(text, |(block, _)| block);
    let (address, length) = block.split_once('/')?;
    let length = length.split(':').next()?;
    let block: IpNet = format!("{address}/{length}").parse().ok()?;
    (block.trunc() != block).then(|| block.trunc())
}
