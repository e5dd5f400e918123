//! Types of the settings that name the proxy and its operator to others: the robots.txt agent, the
//! contact URL, the node, and the name in `Via`.

use std::fmt;
use std::str::FromStr;

use crate::types::sanitize;
use crate::types::words::serde_as_text;

/// The User-Agent of a robots.txt fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FetchAs {
    /// The product token of the agent that is judged, and this program.
    Agent,
    /// A fixed text.
    Text(String),
}

impl FromStr for FetchAs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "agent" => Ok(Self::Agent),
            "client" => {
                Err("the field of a client is not sent any more; write \"agent\" or a User-Agent"
                    .into())
            }
            "" => Err("is empty; write \"agent\" or a User-Agent".into()),
            _ if text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) => {
                Ok(Self::Text(text.into()))
            }
            _ => Err("a User-Agent is printable ASCII".into()),
        }
    }
}

impl fmt::Display for FetchAs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Agent => "agent",
            Self::Text(text) => text,
        })
    }
}

/// A URL at which site owners find the operator of a crawler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContactUrl(String);

/// Bytes of the URL, which is sent with each fetch.
const CONTACT_BYTES_MAX: usize = 200;

impl ContactUrl {
    /// The value as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ContactUrl {
    type Err = String;

    /// It stands in a comment (RFC 9110 §5.6.5), so it has no parentheses.
    fn from_str(text: &str) -> Result<Self, String> {
        let is_of_comment = |byte: u8| byte.is_ascii_graphic() && !b"()\\".contains(&byte);
        let is_web =
            matches!(url::Url::parse(text), Ok(url) if matches!(url.scheme(), "http" | "https"));
        if text.len() > CONTACT_BYTES_MAX {
            Err(format!("a contact URL has at most {CONTACT_BYTES_MAX} characters"))
        } else if !is_web || !text.bytes().all(is_of_comment) {
            Err(format!(
                "\"{text}\" is no URL for a User-Agent; write one such as \"https://example.com/bot\""
            ))
        } else {
            Ok(Self(text.into()))
        }
    }
}

impl fmt::Display for ContactUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of a proxy in its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeName(String);

/// Bytes. It is in each line, and as long as a name of DNS can be at least (RFC 1035 §2.3.4).
const NODE_BYTES_MAX: usize = 253;

impl NodeName {
    /// The name of the host that this process runs on.
    pub fn of_host() -> Self {
        let host = rustix::system::uname();
        Self(sanitize::text(host.nodename().to_bytes(), NODE_BYTES_MAX))
    }

    /// The value as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for NodeName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if name.trim().is_empty() {
            Err("is empty; write a name such as \"crawler-3\", or leave it out for the host's"
                .into())
        } else if name.len() > NODE_BYTES_MAX {
            Err(format!("a node's name has at most {NODE_BYTES_MAX} bytes"))
        } else if sanitize::shown(name, sanitize::escape_json) != name {
            Err("a node's name has printable characters only".into())
        } else {
            Ok(Self(name.into()))
        }
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of this proxy in `Via`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Via {
    Off,
    As(String),
}

impl FromStr for Via {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            // RFC 9110 §7.6.3: a pseudonym is a token.
            _ if is_token(text, b"!#$%&'*+-.^_`|~") => Ok(Self::As(text.into())),
            _ => Err(format!(
                "\"{text}\" cannot stand in Via; write one word without blanks, or \"off\""
            )),
        }
    }
}

impl fmt::Display for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::As(name) => name,
        })
    }
}

fn is_token(text: &str, also: &[u8]) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || also.contains(&byte))
}

serde_as_text!(FetchAs, ContactUrl, NodeName, Via);
