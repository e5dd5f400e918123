//! What holds for any bytes that strangers or operators may write: one property for each reader of
//! theirs. The fuzz targets under `fuzz/` look for bytes for which it does not hold; `tests/it/corpus.rs`
//! holds each against what was found before. Both are given the same function, [`ALL`] says under
//! which name.

pub mod accept;
pub mod address;
pub mod agent;
pub mod authority;
pub mod config;
pub mod decode;
pub mod freshness;
pub mod glob;
pub mod line;
pub mod messages;
pub mod pattern;
pub mod record;
pub mod redirect;
pub mod robots;
pub mod shared;
pub mod speech;
pub mod stored;
pub mod target;
pub mod text;
pub mod url;

mod engine;
mod input;
pub mod naive;
mod reader;
mod strict;

/// A property: panics where it does not hold for these bytes.
pub type Property = fn(&[u8]);

/// Every property by the name of its target and of its directory under `fuzz/corpus`.
pub const ALL: &[(&str, Property)] = &[
    ("accept", accept::holds),
    ("address", address::holds),
    ("agent", agent::holds),
    ("authority", authority::holds),
    ("config", config::holds),
    ("decode", decode::holds),
    ("freshness", freshness::holds),
    ("glob", glob::holds),
    ("line", line::holds),
    ("messages", messages::holds),
    ("pattern", pattern::holds),
    ("record", record::holds),
    ("redirect", redirect::holds),
    ("robots", robots::holds),
    ("shared", shared::holds),
    ("speech", speech::holds),
    ("stored", stored::holds),
    ("target", target::holds),
    ("text", text::holds),
    ("url", url::holds),
];
