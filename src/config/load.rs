//! From file, environment and flags to [`Settings`]: later layers win, and everything that is wrong
//! is said at once as far as it can be told apart.

use std::path::{Path, PathBuf};

use config::{Config, ConfigError, Value, ValueKind};

use super::complain::{Complaint, Refusal};
use super::layers::{FILE_VARIABLE, FileLayer, Override, from_environment, from_flag};
use super::settings::Settings;
use super::shape::Shape;
use super::sound;

const DEFAULT_FILE: &str = "/etc/courtesy/config.toml";

/// Settings together with where each came from.
#[derive(Debug)]
pub struct Loaded {
    pub settings: Settings,
    /// The file that was read.
    pub file: Option<PathBuf>,
    pub(super) merged: Value,
}

/// Reads the settings. `named` is the file of `--config`; `environment` is the process's, handed in
/// because only the program floor reads it.
pub fn load(
    named: Option<&Path>,
    environment: impl IntoIterator<Item = (String, String)>,
    flags: &[Override],
) -> Result<Loaded, Refusal> {
    let variables: Vec<_> = environment.into_iter().collect();
    let shape = Shape::new();
    let (file, layer) = read_file(named, &variables).map_err(|complaint| Refusal(vec![complaint]))?;

    let mut complaints = Vec::new();
    shape.check(&layer.tree(), &mut complaints);
    let from_variables = from_environment(&variables, &shape, &mut complaints);
    let merged = merge(layer, from_variables, flags, &shape, &mut complaints);
    refuse_if_any(complaints)?;

    let mut settings = Settings::from_merged(&merged)?;
    if settings.state_dir.as_os_str().is_empty() {
        settings.state_dir = state_dir(&variables).map_err(|complaint| Refusal(vec![complaint]))?;
    }
    let mut complaints = Vec::new();
    sound::check(&settings, |key| place_of(&merged, key), &mut complaints);
    refuse_if_any(complaints)?;
    Ok(Loaded { settings, file, merged })
}

impl Settings {
    fn from_merged(merged: &Value) -> Result<Self, Refusal> {
        merged.clone().try_deserialize().map_err(|error| Refusal(vec![explain(error, merged)]))
    }
}

fn refuse_if_any(complaints: Vec<Complaint>) -> Result<(), Refusal> {
    if complaints.is_empty() { Ok(()) } else { Err(Refusal(complaints)) }
}

/// A file that was named must be there; the default one need not.
fn read_file(
    named: Option<&Path>,
    variables: &[(String, String)],
) -> Result<(Option<PathBuf>, FileLayer), Complaint> {
    let variable = variables.iter().find(|(name, _)| name == FILE_VARIABLE);
    let (path, by) = match (named, variable) {
        (Some(path), _) => (path, Some("--config".to_owned())),
        (None, Some((name, path))) => (Path::new(path), Some(format!("${name}"))),
        (None, None) => (Path::new(DEFAULT_FILE), None),
    };
    match std::fs::read_to_string(path) {
        Ok(text) => Ok((Some(path.to_owned()), FileLayer::parse(path, &text)?)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && by.is_none() => {
            Ok((None, FileLayer::default()))
        }
        Err(error) => {
            Err(Complaint::new("", by.as_deref(), format!("cannot read {}: {error}", path.display())))
        }
    }
}

fn merge(
    file: FileLayer,
    variables: Vec<(String, Value)>,
    flags: &[Override],
    shape: &Shape,
    complaints: &mut Vec<Complaint>,
) -> Value {
    let mut builder = Config::builder().add_source(file);
    for (key, value) in variables {
        builder = builder.set_override(&key, value).expect("keys of settings are plain names");
    }
    for flag in flags {
        let lower = builder.clone().build().ok().and_then(|config| find(&config.cache, flag.key).cloned());
        match from_flag(flag, lower, shape) {
            Ok(value) => builder = builder.set_override(flag.key, value).expect("as above"),
            Err(complaint) => complaints.push(complaint),
        }
    }
    builder.build().map(|config| config.cache).unwrap_or_else(|error| {
        complaints.push(Complaint::new("", None, error.to_string()));
        Value::new(None, ValueKind::Nil)
    })
}

/// `$STATE_DIRECTORY` (systemd), else the XDG state directory.
fn state_dir(variables: &[(String, String)]) -> Result<PathBuf, Complaint> {
    let variable = |wanted: &str| {
        let mut with_name = variables.iter().filter(|(name, _)| name == wanted);
        with_name.next().map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    };
    if let Some(dirs) = variable("STATE_DIRECTORY") {
        // More than one StateDirectory= are joined by colons; ours is the first.
        return Ok(dirs.split(':').next().unwrap_or(dirs).into());
    }
    if let Some(dir) = variable("XDG_STATE_HOME") {
        return Ok(Path::new(dir).join("courtesy"));
    }
    match variable("HOME") {
        Some(home) => Ok(Path::new(home).join(".local/state/courtesy")),
        None => Err(Complaint::new("state_dir", None, "there is no home directory to keep state in")
            .with_hint(Some("set state_dir or give --state-dir".into()))),
    }
}

/// Follows `outage.retry_min` or `agents.rules[0].token` as far down as there are values.
fn walk<'a>(tree: &'a Value, key: &str) -> impl Iterator<Item = Option<&'a Value>> {
    let steps: Vec<String> = key.split(['.', '[']).filter(|step| !step.is_empty()).map(Into::into).collect();
    steps.into_iter().scan(Some(tree), |at, step| {
        *at = at.and_then(|value| match &value.kind {
            ValueKind::Table(table) => table.get(&step),
            ValueKind::Array(items) => items.get(step.strip_suffix(']')?.parse::<usize>().ok()?),
            _ => None,
        });
        Some(*at)
    })
}

fn find<'a>(tree: &'a Value, key: &str) -> Option<&'a Value> {
    walk(tree, key).last().flatten()
}

/// Where a setting was set, or else what it would stand in; none where nothing was set.
pub(super) fn place_of(tree: &Value, key: &str) -> Option<String> {
    walk(tree, key).flatten().filter_map(Value::origin).last().map(Into::into)
}

/// The config crate's error as a complaint with a place.
fn explain(error: ConfigError, merged: &Value) -> Complaint {
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
    Complaint::new(key, place.as_deref(), problem)
}

/// The config crate writes `rules[0]token` for `rules[0].token`.
fn with_dots(key: &str) -> String {
    key.replace(']', "].").replace("].[", "][").replace("..", ".").trim_end_matches('.').to_owned()
}
