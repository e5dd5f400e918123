//! The users: their settings and password hashes.

#[cfg(test)]
mod file_tests;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use http::StatusCode;
use serde::{Deserialize, Serialize};

use super::password::{Credentials, Hash, NAMED_LIST_BYTES_MAX, Password};
use crate::policy::Mode;
use crate::runtime::files::{self, Found};
use crate::types::ClientKey;
use crate::types::agent::Token;
use crate::types::timestamp::{parse_delay, print_delay};

/// Bytes of a user's name.
const USER_NAME_BYTES_MAX: usize = 64;

/// A user, and the settings that differ for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub name: Arc<str>,
    pub password: Hash,
    /// The product token of requests without a User-Agent.
    pub agent: Option<Token>,
    pub mode: Option<Mode>,
    pub deny_status: Option<StatusCode>,
    /// The longest that a request waits for its turn, if that is less than for all.
    pub max_wait: Option<Duration>,
    /// The status of a request that would wait longer.
    pub pace_status: Option<StatusCode>,
    /// Concurrent connections; `None`: the general limit.
    pub max_connections: Option<usize>,
    /// Requests in flight; `None`: the general limit.
    pub max_requests: Option<usize>,
}

impl User {
    /// The key under which the user's connections and requests are counted.
    pub fn key(&self) -> ClientKey {
        ClientKey::User(Arc::clone(&self.name))
    }
}

/// All users by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Users(BTreeMap<Arc<str>, Arc<User>>);

/// A hash that no password matches. An unknown user is verified against it, so that it takes as
/// long as a known one.
static UNKNOWN_USER: LazyLock<Hash> = LazyLock::new(|| Hash::of(&Password::of(vec![0])));

impl Users {
    /// The user with this name.
    pub fn get(&self, name: &str) -> Option<&Arc<User>> {
        self.0.get(name)
    }

    /// All users, in the order of the file.
    pub fn all(&self) -> impl Iterator<Item = &User> {
        self.0.values().map(|user| &**user)
    }

    /// The number of users.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no users.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a user, or replaces the one of the same name.
    pub fn put(&mut self, user: User) {
        self.0.insert(Arc::clone(&user.name), Arc::new(user));
    }

    /// Computes the hash for unknown users in advance: the first verification would take longer
    /// otherwise.
    pub(super) fn prepare() {
        LazyLock::force(&UNKNOWN_USER);
    }

    /// Returns whether the user existed.
    pub fn remove(&mut self, name: &str) -> bool {
        self.0.remove(name).is_some()
    }

    /// The user with these credentials. Takes the same time whether or not the user exists.
    pub(super) fn verify(&self, credentials: &Credentials) -> Option<Arc<User>> {
        let user = self.get(&credentials.name);
        let hash = user.map_or(&*UNKNOWN_USER, |user| &user.password);
        let is_right = hash.is_of(&credentials.password);
        user.filter(|_| is_right).cloned()
    }
}

/// Whether `name` is allowed: in a record and a log line it must be one word, and in credentials it
/// ends at a colon (RFC 7617 §2). It may be an address of mail.
pub fn check_name(name: &str) -> Result<(), String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.@+".contains(&byte);
    if name.is_empty() || name.len() > USER_NAME_BYTES_MAX || !name.bytes().all(plain) {
        return Err(format!(
            "{name:?} cannot be a user's name: write up to {USER_NAME_BYTES_MAX} letters, digits, \"-\", \"_\", \".\", \"@\" or \"+\""
        ));
    }
    Ok(())
}

// The users file: TOML, one table per user. Only its owner may read it, and it is replaced
// atomically: a reader sees the users before or after a change.

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
        files::remove(&next)
            .and_then(|()| files::write_new(&next, self.users.print().as_bytes(), 0o600))
            .map_err(io_error(&next))?;
        fs::rename(&next, &self.file)
            .and_then(|()| self.directory.sync_all())
            .map_err(io_error(&self.file))
    }
}

fn read_private(file: &Path) -> Result<String, UsersError> {
    match files::read_long_text(file, NAMED_LIST_BYTES_MAX) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str, password: &str) -> User {
        User {
            name: name.into(),
            password: Hash::of(&Password::new(password).unwrap()),
            agent: None,
            mode: None,
            deny_status: None,
            max_connections: None,
            max_requests: None,
            max_wait: None,
            pace_status: None,
        }
    }

    #[test]
    fn only_name_and_password_together_are_a_user() {
        let mut users = Users::default();
        users.put(user("ada", "secret"));
        users.put(user("bob", "other"));
        let verify = |name: &str, password: &str| {
            let password = Password::of(password.into());
            users.verify(&Credentials { name: name.into(), password }).map(|user| user.name.clone())
        };
        assert_eq!(verify("ada", "secret").as_deref(), Some("ada"));
        for (name, password) in
            [("ada", "other"), ("ada", ""), ("Ada", "secret"), ("eve", "secret"), ("", "\0")]
        {
            assert_eq!(verify(name, password), None, "{name} {password}");
        }
    }

    #[test]
    fn a_name_is_one_word() {
        for name in
            ["a", "crawler-1.team_b", "ada+news@example.com", &"a".repeat(USER_NAME_BYTES_MAX)]
        {
            assert_eq!(check_name(name), Ok(()));
        }
        for name in ["", "a b", "a:b", "é", "a\n", &"a".repeat(USER_NAME_BYTES_MAX + 1)] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
    }
}
