//! The name and password for a parent, which stand in a file of their own and in no message.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::runtime::secret_file::{self, Found};

/// Bytes of a name, and of a password: what SOCKS5 has room for (RFC 1929 §2).
const PART_BYTES_MAX: usize = 255;

/// A name and a password.
#[derive(Clone, PartialEq, Eq)]
pub struct ParentCredentials {
    pub(super) name: String,
    pub(super) password: String,
}

/// Why there are no credentials.
#[derive(Debug, thiserror::Error)]
pub enum ParentCredentialsError {
    #[error("{} (egress.parent_credentials_file): {source}", file.display())]
    Io { file: PathBuf, source: io::Error },
    #[error(
        "{} (egress.parent_credentials_file): others than its owner and group can read it; run: chmod 640 {}",
        .0.display(), .0.display()
    )]
    Exposed(PathBuf),
    #[error("{} (egress.parent_credentials_file): its one line must be NAME:PASSWORD", .0.display())]
    Invalid(PathBuf),
}

impl ParentCredentials {
    /// Reads the one line of `file`, NAME:PASSWORD.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, that others can read, or that has something else in it.
    pub fn read(file: &Path) -> Result<Self, ParentCredentialsError> {
        let text = match secret_file::read_text_of_group(file) {
            Ok(Found::Content(text)) => text,
            Ok(Found::Exposed) => return Err(ParentCredentialsError::Exposed(file.to_owned())),
            Err(source) => {
                return Err(ParentCredentialsError::Io { file: file.to_owned(), source });
            }
        };
        text.trim_end_matches(['\r', '\n'])
            .parse()
            .map_err(|()| ParentCredentialsError::Invalid(file.to_owned()))
    }

    /// As in `Proxy-Authorization` (RFC 7617 §2).
    pub(super) fn basic(&self) -> String {
        format!("Basic {}", STANDARD.encode(format!("{}:{}", self.name, self.password)))
    }
}

impl FromStr for ParentCredentials {
    type Err = ();

    fn from_str(line: &str) -> Result<Self, ()> {
        let (name, password) = line.split_once(':').ok_or(())?;
        let fits = |part: &str| {
            part.len() <= PART_BYTES_MAX && !part.bytes().any(|byte| byte.is_ascii_control())
        };
        let is_valid = !name.is_empty() && fits(name) && fits(password);
        is_valid.then(|| Self { name: name.to_owned(), password: password.to_owned() }).ok_or(())
    }
}

impl fmt::Debug for ParentCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParentCredentials").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_name_and_a_password() {
        let read: ParentCredentials = "Aladdin:open sesame".parse().unwrap();
        // The example of RFC 7617 §2.
        assert_eq!(read.basic(), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        assert!("a:b:c".parse::<ParentCredentials>().is_ok_and(|it| it.password == "b:c"));
        for line in ["", "name", ":password", "a:b\nc", &format!("a:{}", "b".repeat(256))] {
            assert!(line.parse::<ParentCredentials>().is_err(), "{line}");
        }
        assert!(!format!("{read:?}").contains("sesame"));
    }
}
