//! What a server's error means.

use std::error::{self, Error as _};
use std::io;
use std::sync::Arc;

use redis::{ErrorKind as RedisKind, RedisError};

use crate::engine::error::{Error, ErrorKind};
use crate::types::sanitize;

/// An error's text is shown up to this length.
const DETAIL_BYTES_MAX: usize = 300;

/// The first words of errors, and what they mean. Before Redis 7 a script's error has them within.
const CODES: [(&str, ErrorKind); 16] = [
    ("NOAUTH", ErrorKind::Authentication),
    ("WRONGPASS", ErrorKind::Authentication),
    ("NOPERM", ErrorKind::Permission),
    ("OOM", ErrorKind::Memory),
    ("MISCONF", ErrorKind::Persistence),
    ("NOREPLICAS", ErrorKind::Persistence),
    ("BUSY", ErrorKind::Busy),
    ("READONLY", ErrorKind::ReadOnly),
    ("LOADING", ErrorKind::Loading),
    ("MASTERDOWN", ErrorKind::MasterDown),
    ("CLUSTERDOWN", ErrorKind::ClusterDown),
    ("TRYAGAIN", ErrorKind::Moving),
    ("WRONGTYPE", ErrorKind::WrongType),
    ("CROSSSLOT", ErrorKind::Protocol),
    ("MOVED", ErrorKind::Settings),
    ("ASK", ErrorKind::Settings),
];

/// What servers of another kind than the settings say answer with, in lower case, and what to do.
const OTHER_KINDS: [(&str, &str); 5] = [
    ("moved ", "the server is a node of a cluster: set engine.cluster = true"),
    ("ask ", "the server is a node of a cluster: set engine.cluster = true"),
    ("cluster support disabled", "the server is of no cluster: remove engine.cluster"),
    ("unknown command `sentinel`", "the server is no sentinel: remove engine.sentinel"),
    ("unknown command 'sentinel'", "the server is no sentinel: remove engine.sentinel"),
];

/// What a script says of a user without rights to its commands or keys.
const NO_RIGHTS: [&str; 3] =
    ["can't run this command", "can't access at least one", "has no permissions"];

/// As the client holds what an error comes of.
type SharedError = Arc<dyn error::Error + Send + Sync>;

/// The error, with the server's own words.
pub(super) fn error_of(error: &RedisError) -> Error {
    let code = error.code().unwrap_or("");
    let detail = error.detail().unwrap_or("");
    let text = match (code, detail) {
        ("", _) => error.to_string(),
        (code, detail) => format!("{code} {detail}"),
    };
    let text = sanitize::text(text.as_bytes(), DETAIL_BYTES_MAX);
    let said = text.to_lowercase();
    if let Some((_, remedy)) = OTHER_KINDS.iter().find(|(words, _)| says(&said, words)) {
        return ErrorKind::Settings.with(format!("{text}: {remedy}"));
    }
    kind_of(error, code, detail).with(text)
}

/// Whether it has these words; a code, which a blank follows, as its first.
fn says(said: &str, words: &str) -> bool {
    if words.ends_with(' ') { said.starts_with(words) } else { said.contains(words) }
}

fn kind_of(error: &RedisError, code: &str, detail: &str) -> ErrorKind {
    if let Some((_, kind)) = CODES.iter().find(|(word, _)| *word == code) {
        return *kind;
    }
    if NO_RIGHTS.iter().any(|words| detail.contains(words)) {
        return ErrorKind::Permission;
    }
    let within = |word: &str| detail.split([' ', '-', ':']).any(|part| part == word);
    if let Some((_, kind)) = CODES.iter().find(|(word, _)| code == "ERR" && within(word)) {
        return *kind;
    }
    match error.kind() {
        _ if is_tls(error) => ErrorKind::Tls,
        _ if error.is_timeout() => ErrorKind::Timeout,
        RedisKind::Io => ErrorKind::Connection,
        RedisKind::AuthenticationFailed => ErrorKind::Authentication,
        _ => ErrorKind::Protocol,
    }
}

/// Whether it is of TLS: with version 1.3 a server refuses a certificate after the handshake.
fn is_tls(error: &RedisError) -> bool {
    let shared = error.source().and_then(|source| source.downcast_ref::<SharedError>());
    let source = shared.and_then(|shared| shared.downcast_ref::<io::Error>());
    let within = source.and_then(io::Error::get_ref);
    within.is_some_and(|within| within.downcast_ref::<rustls::Error>().is_some())
}

/// Whether the script is not loaded.
pub(super) fn is_no_script(error: &RedisError) -> bool {
    error.code() == Some("NOSCRIPT")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(reply: &str) -> ErrorKind {
        let value = redis::parse_redis_value(format!("-{reply}\r\n").as_bytes()).unwrap();
        error_of(&value.extract_error().unwrap_err()).kind
    }

    #[test]
    fn what_a_server_says_has_a_kind() {
        let cases = [
            ("NOAUTH Authentication required.", ErrorKind::Authentication),
            (
                "WRONGPASS invalid username-password pair or user is disabled.",
                ErrorKind::Authentication,
            ),
            (
                "NOPERM this user has no permissions to run the 'info' command",
                ErrorKind::Permission,
            ),
            ("OOM command not allowed when used memory > 'maxmemory'.", ErrorKind::Memory),
            ("MISCONF Redis is configured to save RDB snapshots", ErrorKind::Persistence),
            ("BUSY Redis is busy running a script.", ErrorKind::Busy),
            ("READONLY You can't write against a read only replica.", ErrorKind::ReadOnly),
            ("LOADING Redis is loading the dataset in memory", ErrorKind::Loading),
            ("MASTERDOWN Link with MASTER is down", ErrorKind::MasterDown),
            ("CLUSTERDOWN Hash slot not served", ErrorKind::ClusterDown),
            ("WRONGTYPE Operation against a key", ErrorKind::WrongType),
            ("TRYAGAIN Multiple keys request during rehashing of slot", ErrorKind::Moving),
            // Redis 6.2, within a script.
            (
                "ERR Error running script (call to f_4a): @user_script: 1: -READONLY You can't write",
                ErrorKind::ReadOnly,
            ),
            (
                "ERR Error running script (call to f_4a): @user_script:1: -OOM command not allowed",
                ErrorKind::Memory,
            ),
            (
                "ERR The user executing the script can't run this command or subcommand script: 4a",
                ErrorKind::Permission,
            ),
            ("ERR unknown command 'HELLO'", ErrorKind::Protocol),
            ("MOVED 3999 127.0.0.1:6381", ErrorKind::Settings),
            ("ASK 3999 127.0.0.1:6381", ErrorKind::Settings),
            ("ERR This instance has cluster support disabled", ErrorKind::Settings),
            (
                "ERR unknown command 'SENTINEL', with args beginning with: 'GET'",
                ErrorKind::Settings,
            ),
        ];
        for (reply, expected) in cases {
            assert_eq!(kind(reply), expected, "{reply}");
        }
    }

    #[test]
    fn the_words_of_the_server_are_kept_and_made_fit_to_show() {
        let value = redis::parse_redis_value(b"-OOM full\x1b[31m of keys\r\n").unwrap();
        let error = error_of(&value.extract_error().unwrap_err());
        assert!(!error.to_string().contains('\x1b'), "{error}");
        assert!(error.to_string().starts_with("out of memory: OOM full"), "{error}");
    }
}
