//! A password, and the hash that is kept of it: argon2id (RFC 9106) as a PHC string.

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Argon2, Params};

use crate::clients::limits::PASSWORD_BYTES_MAX;

/// Memory that the hash of a password may ask for, in KiB: ten times what ours do.
const PASSWORD_COST_KIB_MAX: u32 = 256 << 10;

/// Passes that it may ask for.
const PASSWORD_PASSES_MAX: u32 = 16;

/// A password in clear text. Never printed, not even by `Debug`.
#[derive(PartialEq, Eq)]
pub struct Password(Vec<u8>);

/// The stored hash of a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Hash(String);

impl Password {
    pub(super) const fn of(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// A password that a user may have: not empty, and without control characters (RFC 7617 §2).
    pub fn new(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() {
            Err("the password is empty")
        } else if text.chars().any(char::is_control) {
            Err("the password has control characters")
        } else if text.len() > PASSWORD_BYTES_MAX {
            Err("the password is longer than 256 bytes")
        } else {
            Ok(Self(text.as_bytes().to_vec()))
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// With the name that it belongs to, as they stand in the authority of a URL.
    pub fn in_url(&self, name: &str) -> String {
        format!("{}:{}", percent_encoded(name.as_bytes()), percent_encoded(&self.0))
    }
}

/// For the authority of a URL (RFC 3986 §3.2.1): a name may have an `@`.
fn percent_encoded(text: &[u8]) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let spelt = |byte: &u8| match *byte {
        byte if plain(byte) => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.iter().map(spelt).collect()
}

impl Hash {
    /// A new hash with a random salt. Takes a tenth of a second, on purpose.
    pub fn of(password: &Password) -> Self {
        let hash = Argon2::default().hash_password(password.bytes());
        Self(
            hash.expect("the default parameters are sound, and the system has random numbers")
                .to_string(),
        )
    }

    /// A hash from the users file. Its cost parameters are bounded, because the proxy pays for each
    /// verification.
    pub fn parse(text: &str) -> Result<Self, String> {
        let hash =
            PasswordHash::new(text).map_err(|error| format!("is not a PHC string: {error}"))?;
        if hash.algorithm.as_str() != "argon2id" {
            return Err(format!("is a hash by {}: only argon2id is supported", hash.algorithm));
        }
        let params = Params::try_from(&hash).map_err(|error| format!("cannot be used: {error}"))?;
        if hash.hash.is_none() || hash.salt.is_none() {
            return Err("is not whole: a salt and a hash are needed".into());
        }
        if params.m_cost() > PASSWORD_COST_KIB_MAX || params.t_cost() > PASSWORD_PASSES_MAX {
            return Err(format!(
                "costs too much to verify: at most m={PASSWORD_COST_KIB_MAX} and t={PASSWORD_PASSES_MAX}"
            ));
        }
        Ok(Self(text.to_owned()))
    }

    /// Whether it is the hash of `password`, compared in constant time. Costs as much as a new
    /// hash.
    pub fn is_of(&self, password: &Password) -> bool {
        let hash = PasswordHash::new(&self.0).expect("it was checked");
        Argon2::default().verify_password(password.bytes(), &hash).is_ok()
    }

    /// The hash in the PHC string format.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Password")
    }
}

impl std::fmt::Debug for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hash")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_knows_its_password_and_no_other() {
        let password = Password::new("open sesame").unwrap();
        let (one, other) = (Hash::of(&password), Hash::of(&password));
        assert_ne!(one, other, "each has a salt of its own");
        assert!(one.as_str().starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{}", one.as_str());
        let read = Hash::parse(one.as_str()).unwrap();
        assert!(read.is_of(&password) && !read.is_of(&Password::new("open sesam").unwrap()));
    }

    #[test]
    fn a_hash_that_cannot_be_used_says_why() {
        let salt_and_hash = "$c2FsdHNhbHRzYWx0$9OlGcT0OYEXDyHNQ0Vl1lO4Rmb4lPgBBpGZUZGF0YSE";
        for (text, why) in [
            ("hunter2".to_owned(), "is not a PHC string"),
            ("$2b$12$abcdefghijklmnopqrstuv".into(), "is "),
            (format!("$argon2i$v=19$m=19456,t=2,p=1{salt_and_hash}"), "only argon2id is supported"),
            (format!("$argon2id$v=19$m=4194304,t=2,p=1{salt_and_hash}"), "costs too much"),
            (format!("$argon2id$v=19$m=19456,t=4000,p=1{salt_and_hash}"), "costs too much"),
            ("$argon2id$v=19$m=19456,t=2,p=1".into(), "is not whole"),
        ] {
            let said = Hash::parse(&text).unwrap_err();
            assert!(said.contains(why), "{text}: {said}");
        }
    }

    #[test]
    fn neither_is_ever_printed() {
        let password = Password::new("open sesame").unwrap();
        let printed = format!("{password:?} {:?}", Hash::of(&password));
        assert_eq!(printed, "Password Hash");
    }

    #[test]
    fn a_password_stands_in_a_url_with_all_that_parts_it_escaped() {
        let password = Password::new("a:b@c/d é%").unwrap();
        assert_eq!(password.in_url("ada@b.example"), "ada%40b.example:a%3Ab%40c%2Fd%20%C3%A9%25");
        for text in ["", "a\nb", "a\u{7f}", &"a".repeat(PASSWORD_BYTES_MAX + 1)] {
            assert!(Password::new(text).is_err(), "{text:?}");
        }
    }
}
