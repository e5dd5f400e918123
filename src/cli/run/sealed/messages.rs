//! What the proxy and the process that is sealed say to each other over their [`Channel`].

use serde::{Deserialize, Serialize};

use super::super::super::exit::{Exit, Failure, OrExit};
use super::channel::Channel;
use super::mounts::Mount;

/// What the proxy sends when it serves: the command may begin.
#[derive(Debug, Serialize, Deserialize)]
pub struct Release {
    pub variables: Vec<(String, String)>,
    pub mounts: Vec<Mount>,
}

/// The letters of the sockets that follow, or why there are none.
#[derive(Debug, Serialize, Deserialize)]
pub enum Sealing {
    Done(String),
    Refused(Refusal),
}

/// A step that was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    pub step: String,
    pub kind: RefusalKind,
}

/// What the system refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RefusalKind {
    Namespaces,
    /// The namespace of processes alone: it can be left out.
    Processes,
    Sockets,
}

/// Why the command has not been executed: a number of errno(3), and words.
#[derive(Debug, Serialize, Deserialize)]
pub struct NotExecuted {
    pub number: Option<i32>,
    pub words: String,
}

/// Tells the proxy what was refused.
pub fn send_refusal(channel: &mut Channel, refusal: Refusal) -> Result<Exit, Failure> {
    channel.send(&json(&Sealing::Refused(refusal))?)?;
    Ok(Exit::Unavailable)
}

/// A value as a text of the channel.
pub fn json(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(value).or_exit(Exit::Unavailable)
}
