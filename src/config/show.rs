//! The effective settings with their sources.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value as Json, json};

use super::layers::place_of;
use super::load::Loaded;
use super::schema::leaves;
use super::settings::Settings;
use crate::audit::Change;
use crate::types::sanitize::sha256_hex;
use crate::types::timestamp::Timestamp;

/// One setting as it is in effect.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Effective {
    pub key: String,
    /// As it would be written in the file; null: not set.
    pub value: Json,
    /// `default`, `courtesy.toml:12`, `$COURTESY__…` or `--flag`.
    pub from: String,
}

impl Loaded {
    /// Every setting, by name.
    pub fn effective(&self) -> Vec<Effective> {
        let filled = self.settings.filled();
        let tree = serde_json::to_value(&filled).expect("settings are made of plain values");
        let with_place = |(key, value): (String, &Json)| {
            let from = place_of(&self.merged, &key).unwrap_or_else(|| "default".into());
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
        Json::Number(number) => number.as_i64().unwrap_or(i64::MAX).into(),
        Json::String(text) => text.as_str().into(),
        Json::Null => unreachable!("a list has no gaps"),
    }
}

// The settings in the log of denials: a digest of all, and each change with its old and new value.
// Without secrets: those are in files that settings only name, and the userinfo of a URL is
// removed.

/// Bytes of a value, as JSON, in a notice of its change; a longer one is replaced by its digest.
const SETTING_BYTES_MAX: usize = 2 << 10;

/// Bytes of all values in one notice: it has to be a line of at most `RECORD_LINE_BYTES_MAX`.
const SETTINGS_BYTES_MAX: usize = 16 << 10;

impl Settings {
    /// One JSON object in canonical form (RFC 8785) with the value of every setting in effect by its dotted key:
    /// what `courtesy config show --format json` has as `key` and `value`. The digest in the log is of this.
    pub fn canonical(&self) -> Vec<u8> {
        serde_json::to_vec(&self.values()).expect("settings are made of plain values")
    }

    /// The differences to `new`, in alphabetical order of the keys.
    pub fn changes(&self, new: &Self) -> Vec<Change> {
        changes(self.values(), new.values())
    }

    /// The differences to settings of this form, which another version may have had; `None`: they are none.
    pub fn changes_since(&self, canonical: &[u8]) -> Option<Vec<Change>> {
        Some(changes(serde_json::from_slice(canonical).ok()?, self.values()))
    }

    /// The exemptions in force, as far as a notice has room for them, and how many more there are.
    pub fn exemptions_in_force(&self, now: Timestamp) -> (Vec<Json>, u64) {
        let all = self.exemptions.iter().filter(|exemption| now < exemption.until);
        let (mut left, mut omitted) = (SETTINGS_BYTES_MAX, 0);
        let has_room = |value: &Json| {
            let bytes = value.to_string().len();
            let has_room = bytes <= left;
            if has_room {
                left -= bytes
            } else {
                omitted += 1
            }
            has_room
        };
        let values = all.map(|it| canonical(&serde_json::to_value(it).expect("plain values")));
        let kept = values.filter(has_room).collect();
        (kept, omitted)
    }

    /// Every setting in effect by its dotted key.
    fn values(&self) -> BTreeMap<String, Json> {
        let tree = serde_json::to_value(self.filled()).expect("settings are made of plain values");
        leaves(&tree).into_iter().map(|(key, value)| (key, canonical(value))).collect()
    }
}

fn changes(mut old: BTreeMap<String, Json>, new: BTreeMap<String, Json>) -> Vec<Change> {
    let pairs = new.into_iter().map(|(key, new)| (old.remove(&key), key, new));
    let mut all: Vec<_> =
        pairs.map(|(old, key, new)| (key, old.unwrap_or_default(), new)).collect();
    // Of settings that there are no more.
    all.extend(old.into_iter().map(|(key, old)| (key, old, Json::Null)));
    all.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    let mut left = SETTINGS_BYTES_MAX;
    let other = all.into_iter().filter(|(_, old, new)| old != new);
    other
        .map(|(key, old, new)| Change {
            key,
            new: bounded(new, &mut left),
            old: bounded(old, &mut left),
        })
        .collect()
}

/// With its members in the order of RFC 8785 §3.2.3, and without what stands before the host in a URL.
fn canonical(value: &Json) -> Json {
    match value {
        Json::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_by_key(|(name, _)| name.encode_utf16().collect::<Vec<_>>());
            sorted
                .into_iter()
                .map(|(name, value)| (name.clone(), canonical(value)))
                .collect::<Map<_, _>>()
                .into()
        }
        Json::Array(items) => items.iter().map(canonical).collect::<Vec<_>>().into(),
        Json::String(text) => without_credentials(text).into(),
        _ => value.clone(),
    }
}

/// `https://***@example.com/` for `https://user:password@example.com/`.
fn without_credentials(text: &str) -> String {
    let parts = text.split_once("://").and_then(|(scheme, rest)| {
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let (_, host) = authority.rsplit_once('@')?;
        Some(format!("{scheme}://***@{host}{path}"))
    });
    parts.unwrap_or_else(|| text.to_owned())
}

/// Replaces values that are too long, or for which there is no room, by their digest.
fn bounded(value: Json, left: &mut usize) -> Json {
    let text = value.to_string();
    if text.len() > SETTING_BYTES_MAX.min(*left) {
        return json!({ "octets": text.len(), "sha256": sha256_hex(text.as_bytes()) });
    }
    *left -= text.len();
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Mode;

    fn digest(settings: &Settings) -> String {
        sha256_hex(&settings.canonical())
    }

    #[test]
    fn the_digest_is_of_every_setting_and_of_nothing_else() {
        let settings = Settings { state_dir: "/state".into(), ..Settings::default() };
        assert_eq!(digest(&settings), digest(&settings.clone()));
        let mut other = settings.clone();
        other.robots.mode = Mode::Observe;
        assert_ne!(digest(&settings), digest(&other));
        let keys: Vec<_> = settings.values().into_keys().collect();
        assert!(keys.is_sorted() && keys.iter().any(|key| key == "audit.node"), "{keys:?}");
    }

    #[test]
    fn a_change_has_both_values_and_no_password() {
        let settings = Settings { state_dir: "/state".into(), ..Settings::default() };
        let mut other = settings.clone();
        other.robots.mode = Mode::Observe;
        other.robots.contact = Some("https://me:secret@example.com/bot?a@b".parse().unwrap());
        let change = |key: &str, old: Json, new: Json| Change { key: key.into(), new, old };
        let expected = [
            change("robots.contact", Json::Null, "https://***@example.com/bot?a@b".into()),
            change("robots.mode", "enforce".into(), "observe".into()),
        ];
        assert_eq!(settings.changes(&other), expected);
        assert_eq!(settings.changes(&settings.clone()), []);
    }

    #[test]
    fn what_is_too_long_is_named_by_its_digest() {
        let settings = Settings { state_dir: "/state".into(), ..Settings::default() };
        let mut other = settings.clone();
        other.egress.allow_hosts =
            (0..1000).map(|n| format!("{n}.example.com").parse().unwrap()).collect();
        let changes = settings.changes(&other);
        let text = serde_json::to_string(&other.egress.allow_hosts).unwrap();
        let digest = json!({ "octets": text.len(), "sha256": sha256_hex(text.as_bytes()) });
        assert_eq!((changes.len(), &changes[0].new, &changes[0].old), (1, &digest, &json!([])));
        let mut left = 10;
        assert_eq!(bounded(json!("1234"), &mut left), json!("1234"));
        assert!(bounded(json!("1234"), &mut left).is_object(), "there is room for four more");
    }
}
