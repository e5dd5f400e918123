//! The result of loading without a problem: the settings, with the merged values that they come
//! from.

use std::path::PathBuf;

use config::{Value, ValueKind};
use ipnet::IpNet;

use super::settings::Settings;
use super::tree::path;
use crate::types::timestamp::Timestamp;

/// Settings with the source of each.
#[derive(Debug)]
pub struct Loaded {
    pub settings: Settings,
    /// The file that was read.
    pub file: Option<PathBuf>,
    pub(super) merged: Value,
}

impl Loaded {
    /// The texts of a list as written, with their places.
    pub(super) fn texts(&self, key: &str) -> Vec<(String, Option<String>)> {
        let Some(Value { kind: ValueKind::Array(items), .. }) = path(&self.merged, key).pop()
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
