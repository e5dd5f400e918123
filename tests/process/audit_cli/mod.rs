//! `courtesy audit` as a shell sees it: over logs of every kind of segment, and while they change.

mod bundle;
mod changes;
mod checkpoints;
mod dossier;
mod follow;
mod forms;
mod history;
pub mod kinds;
mod made_again;
mod members;
mod merge;
mod query;
mod questions;
mod show;
pub mod support;
mod tampering;
mod warc;
