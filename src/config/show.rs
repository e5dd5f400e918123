//! The effective settings with their sources.

use std::fmt;

use serde::Serialize;
use serde_json::Value as Json;

use super::loaded::Loaded;
use super::schema::leaves;
use super::settings::Settings;
use super::tree::place_of;

/// One setting as it is in effect.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Effective {
    pub key: String,
    /// As it would be written in the file; null: not set.
    pub value: Json,
    /// `default`, `profile google`, `courtesy.toml:12`, `$COURTESY__…` or `--flag`.
    pub from: String,
}

impl Loaded {
    /// Every setting, by name.
    pub fn effective(&self) -> Vec<Effective> {
        let filled = self.settings.filled();
        let tree = serde_json::to_value(&filled).expect("settings are made of plain values");
        let with_place = |(key, value): (String, &Json)| {
            let of_profile = key.starts_with("outage.")
                || key.starts_with("robots.knobs.")
                || key == "robots.spellings";
            let from = place_of(&self.merged, &key).unwrap_or_else(|| {
                if of_profile {
                    format!("profile {}", self.settings.robots.profile)
                } else {
                    "default".into()
                }
            });
            Effective { key, value: value.clone(), from }
        };
        leaves(&tree).into_iter().map(with_place).collect()
    }
}

impl Settings {
    /// The differences to `other`, by name.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let tree = |settings: &Self| serde_json::to_value(settings.filled()).expect("plain values");
        let (ours, theirs) = (tree(self), tree(other));
        let pairs = leaves(&ours).into_iter().zip(leaves(&theirs));
        pairs.filter(|(ours, theirs)| ours != theirs).map(|((key, _), _)| key).collect()
    }
}

impl fmt::Display for Effective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let setting = match &self.value {
            Json::Null => format!("# {} is not set", self.key),
            value => format!("{} = {}", self.key, as_toml(value)),
        };
        write!(f, "{setting:<48} # {}", self.from)
    }
}

/// Settings that are not set are left out, as in a file.
fn as_toml(value: &Json) -> toml::Value {
    match value {
        Json::Bool(truth) => (*truth).into(),
        Json::Array(items) => items.iter().map(as_toml).collect::<Vec<_>>().into(),
        Json::Object(table) => {
            let set = table.iter().filter(|(_, value)| !value.is_null());
            set.map(|(name, value)| (name.clone(), as_toml(value))).collect::<toml::Table>().into()
        }
        Json::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(number) => number.into(),
            None => number.as_i64().unwrap_or(i64::MAX).into(),
        },
        Json::String(text) => text.as_str().into(),
        Json::Null => unreachable!("a list has no gaps"),
    }
}
