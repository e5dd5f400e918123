//! The arguments of `courtesy check`.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, Command};
use http::HeaderValue;
use serde::Deserialize;

use crate::cli::flags::{ConfigFlags, PolicyFlags};
use crate::types::agent::product_token;

/// The arguments of `courtesy check args`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  courtesy check --agent ExampleBot https://example.com/private/a
  courtesy check --agent 'ExampleBot/1.2 (+https://example.com/bot)' --json - < urls.txt
  courtesy check --agent ExampleBot --robots robots.txt /private/a /public/b

Exit codes: 0 everything is allowed · 1 something is disallowed · 3 nothing is disallowed, but
something is undecided: its robots.txt cannot be had, so the proxy would deny it · 2 usage, or
something is no URL

--batch reads one JSON object a line, with \"url\", \"agent\" and, unless it is to be fetched,
\"robots\" (or robots_b64, url_b64; robots_parts, url_parts: lists of [text, times]); optional are
\"id\", \"agent_kind\" (token or header) and \"profile\". It answers each line in order with the id,
\"decision\", \"line\" and \"basis\", or with the id and an \"error\", and ends with 0.")]
pub struct CheckArgs {
    /// What to ask about; - or nothing: one a line from standard input, with comments after a #
    #[arg(value_name = "URL")]
    pub urls: Vec<OsString>,
    /// Agent: a product token, or a whole User-Agent [default: courtesy's own]
    #[arg(long, value_name = "AGENT")]
    pub agent: Option<String>,
    /// Ask this file (- for standard input) instead of fetching; URLs may be just paths then
    #[arg(long, value_name = "FILE", requires = "urls")]
    pub robots: Option<PathBuf>,
    /// Print one JSON object for each URL
    #[arg(long)]
    pub json: bool,
    /// Answer questions in JSON Lines on standard input
    #[arg(long, conflicts_with_all = ["urls", "robots", "json"])]
    pub batch: bool,
    #[command(flatten)]
    pub policy: PolicyFlags,
    #[command(flatten)]
    pub config: ConfigFlags,
}

impl CheckArgs {
    /// Whether the URLs come from standard input.
    pub fn reads_urls(&self) -> bool {
        match self.urls.as_slice() {
            [] if io::stdin().is_terminal() => {
                usage("name a URL, or give a list of them on standard input")
            }
            [] => true,
            [only] => only == "-",
            _ => false,
        }
    }

    /// Whether the robots.txt comes from standard input.
    pub fn reads_robots(&self) -> bool {
        self.robots.as_ref().is_some_and(|file| file.as_os_str() == "-")
    }
}

/// Ends the process as clap does for a wrong argument.
pub fn usage(message: &str) -> ! {
    let mut command = CheckArgs::augment_args(Command::new("check")).bin_name("courtesy check");
    command.error(ErrorKind::ValueValidation, message).exit()
}

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
