//! The table of clients, `clients.toml`: one for the command line and for the proxy's own page.

use std::sync::LazyLock;

use serde::Deserialize;

/// The table.
pub static TABLE: LazyLock<Table> =
    LazyLock::new(|| toml::from_str(include_str!("clients.toml")).expect("a test reads it"));

/// What is known of clients; the file says what each member means.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    pub variables: Vec<VariableRow>,
    pub clients: Vec<Client>,
    pub trials: Vec<TrialRow>,
    pub files: Vec<TrialFile>,
}

/// An environment variable that clients honour.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VariableRow {
    pub name: String,
    pub kind: VariableKind,
    pub who: String,
}

/// The kind of a variable's value.
#[derive(Clone, Copy, Debug, Deserialize)]
pub enum VariableKind {
    Proxy,
    NoProxy,
    Yes,
    Authority,
    Bundle,
    Wgetrc,
    JavaOptions,
    PhpScanDir,
}

/// A client and its names.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Client {
    pub names: Vec<String>,
    pub help: String,
}

/// How a client is made to fetch one URL, and what to do if it fails.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrialRow {
    pub name: String,
    pub programs: Vec<String>,
    pub arguments: Vec<String>,
    pub probe: Vec<String>,
    #[serde(default)]
    pub is_known: bool,
    /// Its default one for the begin of a response, in seconds; 0: none.
    #[serde(default)]
    pub timeout: u64,
    pub remedy: String,
    pub trust: String,
}

/// A program that has to be in a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrialFile {
    pub name: String,
    pub text: String,
}

impl Client {
    /// Case-insensitive.
    pub fn named(name: &str) -> Option<&'static Self> {
        let name = name.to_ascii_lowercase();
        TABLE.clients.iter().find(|client| client.names.contains(&name))
    }
}

impl std::fmt::Display for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}", self.names.join(", "))?;
        self.help.lines().try_for_each(|line| writeln!(f, "  {line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_can_be_read() {
        assert!(TABLE.clients.len() > 10 && TABLE.trials.len() > 10);
    }
}
