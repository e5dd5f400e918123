//! The users: their settings and password hashes.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use http::StatusCode;

use super::credentials::Credentials;
use super::password::{Hash, Password};
use crate::policy::mode::Mode;
use crate::types::agent::Token;
use crate::types::client_key::ClientKey;

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
