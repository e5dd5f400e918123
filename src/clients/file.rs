//! The users file: TOML, one table per user. Only its owner may read it, and it is replaced
//! atomically: a reader sees the users before or after a change.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use http::StatusCode;
use serde::{Deserialize, Serialize};

use super::password::Hash;
use super::users::{User, Users, check_name};
use crate::clients::limits::NAMED_LIST_BYTES_MAX;
use crate::policy::mode::Mode;
use crate::runtime::secret_file::{self, Found};
use crate::types::agent::Token;
use crate::types::duration_text::{parse_delay, print_delay};

const HEAD: &str = "\
# Who may use the proxy; written by `courtesy users`, which keeps no other comments. One table for each
# user: the hash of the password, and what is different for this user.

";

/// Why the users file cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum UsersError {
    #[error("{}: there is no such file; `courtesy users add NAME` creates it", .0.display())]
    Missing(PathBuf),
    #[error("{}: {source}", file.display())]
    Io { file: PathBuf, source: io::Error },
    #[error("{}: the password hashes are accessible to others than their owner; run: chmod 600 {}", .0.display(), .0.display())]
    Exposed(PathBuf),
    #[error("{}: {problem}", file.display())]
    Invalid { file: PathBuf, problem: String },
}

/// One table of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct UserTable {
    password: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<Mode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deny_status: Option<u16>,
    /// As `2m`, or `0s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_wait: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pace_status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_connections: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_requests: Option<usize>,
}

impl UserTable {
    fn of(user: &User) -> Self {
        Self {
            password: user.password.as_str().to_owned(),
            agent: user.agent.as_ref().map(ToString::to_string),
            mode: user.mode,
            deny_status: user.deny_status.map(|status| status.as_u16()),
            max_wait: user.max_wait.as_ref().map(print_delay),
            pace_status: user.pace_status.map(|status| status.as_u16()),
            max_connections: user.max_connections,
            max_requests: user.max_requests,
        }
    }

    fn user(self, name: String) -> Result<User, String> {
        check_name(&name)?;
        let wrong = |key: &str, problem: &str| format!("{name}.{key} {problem}");
        let password =
            Hash::parse(&self.password).map_err(|problem| wrong("password", &problem))?;
        let is_refusal = |status: &StatusCode| status.is_client_error() || status.is_server_error();
        let status = |key: &str, code: Option<u16>| match code.map(StatusCode::from_u16) {
            None => Ok(None),
            Some(Ok(status)) if is_refusal(&status) => Ok(Some(status)),
            Some(_) => Err(wrong(key, "must be from 400 to 599")),
        };
        let deny_status = status("deny_status", self.deny_status)?;
        let pace_status = status("pace_status", self.pace_status)?;
        let max_wait = self.max_wait.as_deref().map(parse_delay);
        let max_wait = max_wait.transpose().map_err(|problem| wrong("max_wait", &problem))?;
        for (key, count) in
            [("max_connections", self.max_connections), ("max_requests", self.max_requests)]
        {
            if count == Some(0) {
                return Err(wrong(key, "must be at least 1"));
            }
        }
        let agent = self.agent.map(|agent| agent.parse::<Token>());
        let agent = agent.transpose().map_err(|problem| wrong("agent", &problem))?;
        let Self { mode, max_connections, max_requests, .. } = self;
        Ok(User {
            name: name.into(),
            password,
            agent,
            mode,
            deny_status,
            max_wait,
            pace_status,
            max_connections,
            max_requests,
        })
    }
}

impl Users {
    /// Reads the file, which must exist.
    pub fn load(file: &Path) -> Result<Self, UsersError> {
        let text = read_private(file)?;
        let invalid = |problem: String| UsersError::Invalid { file: file.to_owned(), problem };
        let tables: BTreeMap<String, UserTable> =
            toml::from_str(&text).map_err(|error| invalid(without_values(&error, &text)))?;
        Self::prepare();
        let mut users = Self::default();
        for (name, entry) in tables {
            users.put(entry.user(name).map_err(invalid)?);
        }
        Ok(users)
    }

    fn print(&self) -> String {
        let tables: BTreeMap<&str, UserTable> =
            self.all().map(|user| (&*user.name, UserTable::of(user))).collect();
        HEAD.to_owned() + &toml::to_string(&tables).expect("tables of plain values")
    }
}

/// The parser's message quotes the line, which may contain a hash.
fn without_values(error: &toml::de::Error, text: &str) -> String {
    let line =
        error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
    let place = line.map(|line| format!("line {line}: ")).unwrap_or_default();
    format!("{place}{}", error.message())
}

/// Exclusive access to a users file, for a change.
#[derive(Debug)]
pub struct Change {
    pub users: Users,
    file: PathBuf,
    directory: File,
}

impl Change {
    /// Reads the file, or starts with no users if it does not exist, and locks it until
    /// [`Self::save`].
    pub fn begin(file: &Path) -> Result<Self, UsersError> {
        let parent =
            file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let directory = File::open(parent)
            .and_then(|dir| dir.lock().map(|()| dir))
            .map_err(io_error(parent))?;
        let users = match Users::load(file) {
            Err(UsersError::Missing(_)) => Users::default(),
            users => users?,
        };
        Ok(Self { users, file: file.to_owned(), directory })
    }

    /// Replaces the file with the current users.
    pub fn save(self) -> Result<(), UsersError> {
        let mut next = self.file.clone().into_os_string();
        next.push(".new");
        let next = PathBuf::from(next);
        // Left behind by a crash; this process holds the lock.
        secret_file::remove(&next)
            .and_then(|()| secret_file::write_new(&next, self.users.print().as_bytes(), 0o600))
            .map_err(io_error(&next))?;
        fs::rename(&next, &self.file)
            .and_then(|()| self.directory.sync_all())
            .map_err(io_error(&self.file))
    }
}

fn read_private(file: &Path) -> Result<String, UsersError> {
    match secret_file::read_long_text(file, NAMED_LIST_BYTES_MAX) {
        Ok(Found::Content(text)) => Ok(text),
        Ok(Found::Exposed) => Err(UsersError::Exposed(file.to_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(UsersError::Missing(file.to_owned()))
        }
        Err(error) => Err(io_error(file)(error)),
    }
}

fn io_error(file: &Path) -> impl Fn(io::Error) -> UsersError {
    let file = file.to_owned();
    move |source| UsersError::Io { file: file.clone(), source }
}
