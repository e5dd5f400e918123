//! The control socket: how a command of the same user asks the running proxy for what only that can
//! do, because the store is open in one process at a time. One question a connection, a line of JSON;
//! the answer is lines of JSON, the last of which says how it ended, so that a cut one is not taken
//! for a whole one. No public interface: both ends are of one version.

mod answer;
mod client;
mod server;

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use answer::{Running, StoreAdmin, answer};
pub use client::ask;
pub(super) use server::serve;
pub use server::{Socket, SocketError};

use crate::store::disk::OpenError;

/// What can be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
pub enum Question {
    /// How much the store has. One item.
    StoreStats,
    /// What is known of an origin. One item, or none.
    StoreGet { origin: String },
    /// To forget an origin. One item: whether anything was known.
    StoreForget { origin: String },
    /// What is kept of each origin. An item for each.
    StoreExport,
}

/// What takes the items of an answer.
pub type Tell<'a> = &'a mut dyn FnMut(Value) -> io::Result<()>;

/// How an answer ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Origins of which what is kept does not hold; they are left out.
    pub broken: u64,
}

/// Why there is no whole answer.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    #[error(transparent)]
    Store(#[from] OpenError),
    #[error("\"{origin}\" is no origin: {why}")]
    Origin { origin: String, why: String },
    #[error("nothing is kept on the disk (store.enabled is false)")]
    Disabled,
    #[error(
        "another courtesy uses {} and cannot be asked: it could not make its control socket, as its log says",
        .0.display()
    )]
    Silent(PathBuf),
    #[error("cannot ask the running proxy")]
    Io(#[from] io::Error),
    #[error("the running proxy answers: {0}")]
    Failed(String),
    /// The two are of different versions.
    #[error("the running proxy is not understood; is it of another version?")]
    Malformed(#[from] serde_json::Error),
    /// The receiver of the items failed.
    #[error(transparent)]
    Tell(io::Error),
}

/// A line of the answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    Item(Value),
    /// The answer is whole.
    End(End),
    /// It is not, and this is why.
    Failed(String),
}

fn path(state_dir: &Path) -> PathBuf {
    state_dir.join("control.sock")
}
