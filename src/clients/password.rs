//! A password, and the hash that is kept of it: argon2id (RFC 9106) as a PHC string.

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Argon2, Params};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::PROXY_AUTHORIZATION;

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

/// Rejected connections that are answered with the reason; more are closed without an answer.
pub const REJECTED_MAX: usize = 64;

/// Bytes of a password that is set.
pub const PASSWORD_BYTES_MAX: usize = 256;

/// The same of files with a line for each of many: users, published heads.
pub const NAMED_LIST_BYTES_MAX: usize = 16 << 20;

/// Bytes of encoded credentials that are looked at: the longest name and password, and some room.
const CREDENTIALS_BYTES_MAX: usize = 1024;

/// The name and password that a request carries. Never printed.
pub struct Credentials {
    pub name: String,
    pub password: Password,
}

impl Credentials {
    /// `None` if there are none, or none that can be parsed. More than one header is ambiguous and
    /// counts as none.
    pub fn of(fields: &HeaderMap) -> Option<Self> {
        let mut values = fields.get_all(PROXY_AUTHORIZATION).iter();
        let (Some(value), None) = (values.next(), values.next()) else { return None };
        let (scheme, encoded) = value.to_str().ok()?.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("Basic") || encoded.len() > CREDENTIALS_BYTES_MAX {
            return None;
        }
        let bytes = STANDARD.decode(encoded.trim_ascii()).ok()?;
        // A name contains no colon; a password may.
        let colon = bytes.iter().position(|byte| *byte == b':')?;
        let name = String::from_utf8(bytes[..colon].to_vec()).ok()?;
        Some(Self { name, password: Password::of(bytes[colon + 1..].to_vec()) })
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

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
    fn debug_hides_password_and_hash() {
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

    fn read(values: &[&str]) -> Option<(String, Vec<u8>)> {
        let mut fields = HeaderMap::new();
        for value in values {
            fields.append(PROXY_AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        }
        Credentials::of(&fields).map(|it| (it.name, it.password.bytes().to_vec()))
    }

    #[test]
    fn a_name_ends_at_the_first_colon_and_a_password_has_any_bytes() {
        for (encoded, name, password) in [
            // The examples of RFC 7617 §2 and §2.1.
            ("QWxhZGRpbjpvcGVuIHNlc2FtZQ==", "Aladdin", "open sesame"),
            ("dGVzdDoxMjPCow==", "test", "123\u{a3}"),
            ("YTpiOmM=", "a", "b:c"),
            ("Og==", "", ""),
        ] {
            let expected = Some((name.to_owned(), password.as_bytes().to_vec()));
            for scheme in ["Basic ", "basic ", "BASIC  "] {
                assert_eq!(read(&[&format!("{scheme}{encoded}")]), expected, "{scheme}{encoded}");
            }
        }
    }

    #[test]
    fn invalid_credentials_count_as_none() {
        let long = format!("Basic {}", STANDARD.encode(vec![b':'; CREDENTIALS_BYTES_MAX]));
        for values in [
            &[][..],
            &["Basic YTpi", "Basic YTpi"],
            &["Bearer YTpi"],
            &["Basic"],
            &["Basic "],
            &["Basic YTpi, Basic YTpi"],
            &["Basic YWI="],
            &["Basic %%"],
            &["Basic /zp4"],
            &[long.as_str()],
        ] {
            assert_eq!(read(values), None, "{values:?}");
        }
    }
}
