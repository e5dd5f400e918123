//! Where a parent proxy is, as it is written, and the rule that names one for some hosts.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::{fmt, io};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::runtime::files::{self, Found};
use crate::types::origin::{Host, HostPattern, Origin, Scheme};
use crate::types::words::{serde_as_text, words};

words! {
    /// How a parent is spoken to.
    pub enum ParentScheme {
        Http = "http",
        /// HTTP inside TLS.
        Https = "https",
        /// The parent is given addresses.
        Socks5 = "socks5",
        /// The parent is given names.
        Socks5h = "socks5h",
    }
}

impl ParentScheme {
    const fn default_port(self) -> u16 {
        match self {
            Self::Http => 3128,
            Self::Https => 443,
            Self::Socks5 | Self::Socks5h => 1080,
        }
    }
}

/// Scheme, host and port of a parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentAddress {
    scheme: ParentScheme,
    /// Its host and port; for TLS, the name that is verified.
    origin: Origin,
}

impl ParentAddress {
    /// How it is spoken to.
    pub const fn scheme(&self) -> ParentScheme {
        self.scheme
    }

    /// Its host, as for a DNS lookup: an IPv6 address without brackets.
    pub fn host(&self) -> String {
        match self.origin.host() {
            Host::V6(v6) => v6.to_string(),
            other => url_host(other),
        }
    }

    /// Its port.
    pub const fn port(&self) -> u16 {
        self.origin.port()
    }

    /// Its host and port, as an origin.
    pub const fn origin(&self) -> &Origin {
        &self.origin
    }
}

impl FromStr for ParentAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let usage = "write SCHEME://HOST:PORT with http, https, socks5 or socks5h";
        let (scheme, authority) = text.split_once("://").ok_or_else(|| usage.to_owned())?;
        let scheme: ParentScheme = scheme.parse().map_err(|_| usage.to_owned())?;
        if authority.contains('@') {
            return Err("it has a name or a password; write those to a file and name it in \
                        egress.parent_credentials_file"
                .to_owned());
        }
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        let origin = Origin::from_authority(Scheme::Https, authority);
        let origin = origin.map_err(|error| format!("{error}; {usage}"))?;
        let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| {
            !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
        });
        let port = if has_port { origin.port() } else { scheme.default_port() };
        Ok(Self { scheme, origin: Origin::new(Scheme::Https, origin.host().clone(), port) })
    }
}

impl fmt::Display for ParentAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}:{}", self.scheme, url_host(self.origin.host()), self.origin.port())
    }
}

/// A host as it stands in a URL (RFC 3986 §3.2.2).
pub(super) fn url_host(host: &Host) -> String {
    match host {
        Host::V6(v6) => format!("[{v6}]"),
        Host::V4(v4) => v4.to_string(),
        Host::Name(name) => name.to_string(),
    }
}

/// Hosts, and their parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentRule {
    pub host: HostPattern,
    /// `None`: connections to them are direct.
    pub parent: Option<ParentAddress>,
}

/// The word for no parent.
const DIRECT: &str = "direct";

impl FromStr for ParentRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (host, parent) =
            text.split_once('=').ok_or_else(|| "write HOST=URL or HOST=direct".to_owned())?;
        let host = HostPattern::new(host.trim()).ok_or_else(|| "it names no host".to_owned())?;
        let parent = match parent.trim() {
            DIRECT => None,
            url => Some(url.parse()?),
        };
        Ok(Self { host, parent })
    }
}

impl fmt::Display for ParentRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.parent {
            Some(parent) => write!(f, "{}={parent}", self.host),
            None => write!(f, "{}={DIRECT}", self.host),
        }
    }
}

serde_as_text!(ParentAddress, ParentRule);

/// What the parent is asked for.
#[derive(Clone, Copy, Debug)]
pub struct ParentTarget<'a> {
    pub host: &'a Host,
    pub port: u16,
}

words! {
    /// Where the names of origins are resolved when a parent makes the connection.
    #[derive(Default)]
    pub enum ParentResolve {
        /// Here, and the addresses are judged; the parent is given the name and resolves it again.
        #[default]
        Check = "check",
        /// By the parent alone: only addresses that a client names are judged.
        Parent = "parent",
    }
}

words! {
    /// How `http://` origins are reached by a parent that speaks HTTP.
    #[derive(Default)]
    pub enum ParentHttp {
        /// By CONNECT, as `https://` origins are: the parent's answers stay apart from the
        /// origin's.
        #[default]
        Connect = "connect",
        /// By requests in absolute-form (RFC 9112 §3.2.2), which the parent forwards.
        Absolute = "absolute",
    }
}

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
        let text = match files::read_text_of_group(file) {
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
    fn an_address_is_a_scheme_a_host_and_a_port() {
        for (text, expected) in [
            ("http://Proxy.example:8080", Ok("http://proxy.example:8080")),
            ("http://proxy.example", Ok("http://proxy.example:3128")),
            ("https://proxy.example/", Ok("https://proxy.example:443")),
            ("socks5://10.0.0.1", Ok("socks5://10.0.0.1:1080")),
            ("socks5h://[::1]", Ok("socks5h://[::1]:1080")),
            ("socks5h://[::1]:443", Ok("socks5h://[::1]:443")),
            ("proxy.example:3128", Err("SCHEME://HOST:PORT")),
            ("socks4://proxy.example", Err("socks5h")),
            ("http://a:secret@proxy.example", Err("egress.parent_credentials_file")),
            ("http://", Err("")),
            ("http://proxy.example:0", Err("")),
        ] {
            let parsed = text.parse::<ParentAddress>();
            match expected {
                Ok(shown) => assert_eq!(parsed.expect(text).to_string(), shown),
                Err(said) => {
                    let error = parsed.expect_err(text);
                    assert!(error.contains(said) && !error.contains("secret"), "{error}");
                }
            }
        }
    }

    #[test]
    fn a_rule_names_hosts_and_their_parent() {
        for text in ["*.example.com=http://proxy:3128", "example.com=direct"] {
            assert_eq!(text.parse::<ParentRule>().unwrap().to_string(), text);
        }
        for text in ["example.com", "example.com=", "=direct", "example.com=elsewhere"] {
            assert!(text.parse::<ParentRule>().is_err(), "{text}");
        }
    }

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
