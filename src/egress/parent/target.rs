//! What a parent is asked for.

use crate::types::origin::Host;

/// What the parent is asked for.
#[derive(Clone, Copy, Debug)]
pub struct ParentTarget<'a> {
    pub host: &'a Host,
    pub port: u16,
}
