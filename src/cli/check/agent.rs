//! For whom a question is asked: a product token, or a whole User-Agent that it is derived from.

use http::HeaderValue;
use serde::Deserialize;

use crate::types::agent::product_token;

#[derive(Clone, Debug)]
pub struct Agent {
    text: String,
    kind: AgentKind,
}

/// What a text says about an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AgentKind {
    /// The product token itself: `ExampleBot`.
    Token,
    /// The value of a User-Agent: `ExampleBot/1.2 (+https://example.com/bot)`.
    Header,
}

impl Agent {
    /// What has a version or a comment is a User-Agent, unless the asker says otherwise.
    pub fn new(text: &str, kind: Option<AgentKind>) -> Self {
        let guess =
            if text.contains(['/', ' ', '\t']) { AgentKind::Header } else { AgentKind::Token };
        Self { text: text.to_owned(), kind: kind.unwrap_or(guess) }
    }

    /// Ourselves: whoever asks without saying for whom must not look like somebody else.
    pub fn ours() -> Self {
        Self::new(concat!("courtesy/", env!("CARGO_PKG_VERSION")), None)
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub const fn kind(&self) -> AgentKind {
        self.kind
    }

    /// What groups are found by; `None`: only the group for `*` can apply.
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
