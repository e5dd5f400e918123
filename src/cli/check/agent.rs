//! The agent of a query: a product token, or a User-Agent from which it is derived.

use http::HeaderValue;
use serde::Deserialize;

use crate::types::agent::product_token;

/// The agent that is asked about.
#[derive(Clone, Debug)]
pub struct Agent {
    text: String,
    kind: AgentKind,
}

/// An agent as given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AgentKind {
    /// The product token itself: `ExampleBot`.
    Token,
    /// The value of a User-Agent: `ExampleBot/1.2 (+https://example.com/bot)`.
    Header,
}

impl Agent {
    /// Text with a version or a comment is a User-Agent, unless the caller specifies otherwise.
    pub fn new(text: &str, kind: Option<AgentKind>) -> Self {
        let guess =
            if text.contains(['/', ' ', '\t']) { AgentKind::Header } else { AgentKind::Token };
        Self { text: text.to_owned(), kind: kind.unwrap_or(guess) }
    }

    /// Courtesy itself: a query without an agent must not look like another crawler.
    pub fn ours() -> Self {
        Self::new(concat!("courtesy/", env!("CARGO_PKG_VERSION")), None)
    }

    /// As it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it is a product token or a User-Agent.
    pub const fn kind(&self) -> AgentKind {
        self.kind
    }

    /// The token that selects a group; `None`: only the group for `*` can apply.
    pub fn token(&self) -> Option<&str> {
        match self.kind {
            AgentKind::Token => Some(&self.text),
            AgentKind::Header => product_token(self.text.as_bytes()),
        }
    }

    /// The User-Agent that a robots.txt is fetched with.
    pub fn identification(&self) -> Result<HeaderValue, String> {
        HeaderValue::from_bytes(self.text.as_bytes())
            .map_err(|_| "the agent has control characters, so it cannot be a User-Agent".into())
    }
}
