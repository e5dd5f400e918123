//! Access to the admin listener.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// `[admin]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Admin {
    /// A file with the token that requests need; absent: none is required.
    pub token_file: Option<PathBuf>,
}
