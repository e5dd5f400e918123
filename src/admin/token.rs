//! The word by which the operator is known where others can reach the admin listener. Only a keyed
//! hash of it is kept, so that neither a dump of memory nor the time that a comparison takes tells it.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::{fmt, io};

use arc_swap::ArcSwapOption;
use hmac::{Hmac, KeyInit, Mac};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use sha2::Sha256;

use crate::runtime::crypto_provider;
use crate::runtime::files::{self, Found};

/// What is asked for; nothing, where no file was named. It can change while the listener is served.
#[derive(Debug, Default)]
pub struct Token(ArcSwapOption<Secret>);

/// A token that was read, as it can be compared with another.
#[derive(Clone)]
pub struct Secret {
    tag: SecretTag,
}

/// A keyed hash of a token, of this process alone.
pub type SecretTag = [u8; 32];

/// Random for each process, so that a tag reveals nothing elsewhere.
static KEYED: LazyLock<Hmac<Sha256>> = LazyLock::new(|| {
    let mut key = [0; 32];
    crypto_provider().secure_random.fill(&mut key).expect("the system has random numbers");
    Hmac::new_from_slice(&key).expect("a key of any length is one")
});

/// Why a file's token cannot be used. `setting` names the file.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("{} ({setting}): {source}", file.display())]
    Io { file: PathBuf, setting: &'static str, source: io::Error },
    #[error("{} ({setting}): the token is open to others than its owner and group; run: chmod 640 {}", file.display(), file.display())]
    Exposed { file: PathBuf, setting: &'static str },
    #[error(
        "{} ({setting}): a token is {TOKEN_BYTES_MIN} characters or more, letters, digits and any of \
         -._~+/=; run: openssl rand -hex 32 > {}", file.display(), file.display()
    )]
    Invalid { file: PathBuf, setting: &'static str },
}

/// The setting of the operator's token.
pub const OPERATOR_TOKEN: &str = "admin.token_file";

/// The setting of the viewers' token.
pub const VIEWER_TOKEN: &str = "admin.viewer_token_file";

/// Fewer can be found by trying.
const TOKEN_BYTES_MIN: usize = 16;

/// A token as it stands in its file: one line, readable to its owner and, as secrets come in
/// Kubernetes and from systemd, to its group.
pub fn read(file: &Path, setting: &'static str) -> Result<String, TokenError> {
    let named = || file.to_owned();
    let text = match files::read_text_of_group(file) {
        Ok(Found::Content(text)) => text,
        Ok(Found::Exposed) => return Err(TokenError::Exposed { file: named(), setting }),
        Err(source) => return Err(TokenError::Io { file: named(), setting, source }),
    };
    let token = text.trim_ascii();
    // RFC 6750 §2.1.
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    if token.len() >= TOKEN_BYTES_MIN && token.bytes().all(fits) {
        Ok(token.to_owned())
    } else {
        Err(TokenError::Invalid { file: named(), setting })
    }
}

impl Secret {
    /// The token of a file, which `setting` names.
    pub fn read(file: &Path, setting: &'static str) -> Result<Self, TokenError> {
        read(file, setting).map(|token| Self::of(&token))
    }

    pub(super) fn of(token: &str) -> Self {
        Self { tag: tag(token.as_bytes()).finalize().into_bytes().into() }
    }

    /// In a time that does not depend on how much of it is right.
    fn is(&self, given: &[u8]) -> bool {
        tag(given).verify_slice(&self.tag).is_ok()
    }
}

fn tag(token: &[u8]) -> Hmac<Sha256> {
    let mut keyed = KEYED.clone();
    keyed.update(token);
    keyed
}

impl Token {
    /// From now on this one is asked for. Whether it is another than before.
    pub fn change(&self, secret: Option<Secret>) -> bool {
        let tag = |secret: &Secret| secret.tag;
        let is_other = self.0.load().as_deref().map(tag) != secret.as_ref().map(tag);
        self.0.store(secret.map(Into::into));
        is_other
    }

    /// Whether a token is required.
    pub(super) fn is_asked(&self) -> bool {
        self.0.load().is_some()
    }

    /// The tag of `given`, if it is the token.
    pub(super) fn tag_of(&self, given: &str) -> Option<SecretTag> {
        let secret = self.0.load();
        secret.as_deref().filter(|secret| secret.is(given.trim_ascii().as_bytes())).map(|it| it.tag)
    }

    /// Whether it is still the token of that tag.
    pub(super) fn has_tag(&self, tag: &SecretTag) -> bool {
        self.0.load().as_deref().is_some_and(|secret| secret.tag == *tag)
    }

    /// Whether a request brings it (RFC 6750 §2.1), where one is asked for.
    pub(super) fn is_in(&self, headers: &HeaderMap) -> bool {
        let secret = self.0.load();
        let Some(secret) = &*secret else { return true };
        let mut given = headers.get_all(AUTHORIZATION).iter();
        let (Some(field), None) = (given.next(), given.next()) else { return false };
        // RFC 9110 §11.1: the scheme in any case, then blanks.
        let Some((scheme, token)) = field.as_bytes().split_at_checked("Bearer ".len()) else {
            return false;
        };
        scheme.eq_ignore_ascii_case(b"Bearer ") && secret.is(token.trim_ascii())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    #[track_caller]
    fn is_in(values: &[&str]) -> bool {
        let token = Token::default();
        token.change(Some(Secret::of(TOKEN)));
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, value.parse().unwrap());
        }
        token.is_in(&headers)
    }

    #[test]
    fn only_the_token_itself_opens() {
        assert!(is_in(&[&format!("Bearer {TOKEN}")]) && is_in(&[&format!("bearer  {TOKEN}")]));
        for wrong in ["", "Bearer", "Bearer ", "Bearer 0123456789abcde", "Bearer 0123456789abcdef0"]
        {
            assert!(!is_in(&[wrong]), "{wrong}");
        }
        assert!(!is_in(&[]) && !is_in(&[&format!("Basic {TOKEN}")]) && !is_in(&[TOKEN]));
        let right = format!("Bearer {TOKEN}");
        assert!(!is_in(&[&right, &right]), "given twice");
        assert!(Token::default().is_in(&HeaderMap::new()), "no token is asked for");
    }

    #[test]
    fn a_file_that_everybody_reads_or_whose_token_can_be_guessed_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        let with = |text: &str, mode: u32| {
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            read(&file, OPERATOR_TOKEN)
        };
        assert_eq!(with("0123456789abcdef\n", 0o640).unwrap(), TOKEN);
        assert!(matches!(with("0123456789abcdef\n", 0o644), Err(TokenError::Exposed { .. })));
        for text in [
            "",
            "short",
            "0123456789abcde",
            "0123456789 abcdef",
            "0123456789abcdef\n0123456789abcdef",
        ] {
            let refused = with(text, 0o600).unwrap_err();
            assert!(refused.to_string().contains("openssl rand"), "{refused}");
        }
        std::fs::remove_file(&file).unwrap();
        assert!(matches!(read(&file, OPERATOR_TOKEN), Err(TokenError::Io { .. })));
    }

    #[test]
    fn a_secret_is_not_shown() {
        assert_eq!(format!("{:?}", Secret::of(TOKEN)), "Secret");
    }
}
