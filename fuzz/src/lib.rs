//! The properties that the targets hold against bytes of the fuzzer's making. They are the package's
//! own: `tests/it/corpus.rs` holds them against the corpus on every run of its tests.

#[path = "../../tests/properties/mod.rs"]
pub mod properties;
