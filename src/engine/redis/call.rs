//! What is sent to a server, and the way of its reply.

use std::time::Instant;

use redis::{Cmd, Value};
use tokio::sync::oneshot;

use super::script::Script;
use crate::engine::error::Error;
use crate::engine::stats::Operation;

/// A command with its keys, all of one hash slot.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub operation: Operation,
    pub act: Act,
    pub keys: Vec<Vec<u8>>,
    pub arguments: Vec<Vec<u8>>,
}

/// What a server does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    Script(Script),
    /// The command has one key, before its arguments.
    Command(&'static str),
}

/// A call that waits for its reply.
#[derive(Debug)]
pub(super) struct Job {
    pub call: Call,
    pub reply: oneshot::Sender<Result<Value, Error>>,
    /// After it the call has timed out.
    pub deadline: Instant,
    /// How often another node was named by a node of the cluster.
    pub redirects: u8,
    /// Whether the node has the slot only for those who were sent to it (`ASK`).
    pub is_asking: bool,
}

impl Call {
    pub(super) fn script(
        operation: Operation,
        script: Script,
        keys: Vec<Vec<u8>>,
        arguments: Vec<Vec<u8>>,
    ) -> Self {
        Self { operation, act: Act::Script(script), keys, arguments }
    }

    pub(super) fn command(
        operation: Operation,
        name: &'static str,
        key: Vec<u8>,
        arguments: Vec<Vec<u8>>,
    ) -> Self {
        Self { operation, act: Act::Command(name), keys: vec![key], arguments }
    }

    /// The command as it is sent; `digest` is that of the script.
    pub(super) fn packed(&self, digest: &str) -> Cmd {
        let mut command = match self.act {
            Act::Script(_) => {
                let mut command = redis::cmd("EVALSHA");
                command.arg(digest).arg(self.keys.len());
                command
            }
            Act::Command(name) => redis::cmd(name),
        };
        for part in self.keys.iter().chain(&self.arguments) {
            command.arg(&part[..]);
        }
        command
    }
}

/// A number as an argument.
pub(super) fn number(value: u64) -> Vec<u8> {
    value.to_string().into_bytes()
}

/// A condition as an argument.
pub(super) fn boolean(value: bool) -> Vec<u8> {
    number(value.into())
}
