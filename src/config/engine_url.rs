//! Where the engine is, as it is written: one URL, or several with commas between them.

use std::fmt;
use std::str::FromStr;

use crate::engine::ServerUrl;
use crate::types::words::serde_as_text;

/// The URLs of an engine, without a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineUrl {
    text: String,
    servers: Vec<ServerUrl>,
}

impl EngineUrl {
    /// The servers that it names; at least one.
    pub fn servers(&self) -> &[ServerUrl] {
        &self.servers
    }
}

/// The URLs in a text, which may have a password.
///
/// # Errors
///
/// Why it is not a list of URLs; the message repeats none of it.
pub fn parse_servers(text: &str) -> Result<Vec<ServerUrl>, String> {
    let servers = text.split(',').map(|url| url.trim().parse::<ServerUrl>());
    let servers: Vec<_> = servers
        .collect::<Result<_, _>>()
        .map_err(|error| format!("{error}; write \"redis://HOST:6379\""))?;
    if servers.windows(2).any(|pair| pair[0].user != pair[1].user) {
        return Err("its URLs have different users".into());
    }
    Ok(servers)
}

impl FromStr for EngineUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let servers = parse_servers(text)?;
        if servers.iter().any(|server| server.password.is_some()) {
            return Err("it has a password; write that to a file and name it in \
                        engine.password_file, or the whole URL to one for engine.url_file"
                .into());
        }
        Ok(Self { text: text.to_owned(), servers })
    }
}

impl fmt::Display for EngineUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

serde_as_text!(EngineUrl);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_of_the_settings_has_no_password() {
        for (text, expected) in [
            ("redis://engine:6379", Ok(1)),
            ("rediss://courtesy@a, rediss://courtesy@b:7000", Ok(2)),
            ("redis+unix:///run/engine.sock", Ok(1)),
            ("redis://courtesy:secret@engine", Err("engine.password_file")),
            ("redis://one@a,redis://other@b", Err("different users")),
            ("http://engine", Err("redis://HOST:6379")),
            ("", Err("redis://HOST:6379")),
        ] {
            let parsed = text.parse::<EngineUrl>();
            match expected {
                Ok(count) => {
                    let url = parsed.expect(text);
                    assert_eq!((url.servers().len(), url.to_string()), (count, text.into()));
                }
                Err(part) => {
                    let error = parsed.expect_err(text);
                    assert!(error.contains(part) && !error.contains("secret"), "{error}");
                }
            }
        }
    }
}
