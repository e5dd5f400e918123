//! `Proxy-Authorization: Basic` (RFC 7617 §2, RFC 9110 §11.7.2) as a name and a password.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{HeaderMap, PROXY_AUTHORIZATION};

use super::password::Password;

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
