//! The form of a case, and the one place that asks the engine.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use courtesy::robots::{Dialect, Directive, Path, RobotsTxt, path_of_url};
use courtesy::types::agent::product_token;
use serde::Deserialize;

/// A directory entry beside this file.
pub fn open(name: &str) -> std::fs::File {
    let path =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance").join(name);
    std::fs::File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[derive(Deserialize)]
pub struct Case {
    pub id: String,
    pub profile: String,
    pub robots: Option<String>,
    pub robots_b64: Option<String>,
    pub robots_parts: Option<Vec<(String, usize)>>,
    pub url: Option<String>,
    pub url_b64: Option<String>,
    pub url_parts: Option<Vec<(String, usize)>>,
    pub agent: String,
    pub agent_kind: AgentKind,
    pub expect: Verdict,
    pub matched_line: Option<u32>,
    pub why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AgentKind {
    Token,
    Header,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Allow,
    Disallow,
}

/// What the engine says: the verdict, and the line of the rule that decided.
pub type Answer = (Verdict, Option<u32>);

impl Case {
    pub fn robots(&self) -> Vec<u8> {
        bytes(&self.robots, &self.robots_b64, &self.robots_parts)
    }

    pub fn url(&self) -> Vec<u8> {
        bytes(&self.url, &self.url_b64, &self.url_parts)
    }

    pub fn token(&self) -> Option<&str> {
        match self.agent_kind {
            AgentKind::Token => Some(&self.agent),
            AgentKind::Header => product_token(self.agent.as_bytes()),
        }
    }

    /// Whether `answer` is what the case expects. Not every case asserts a line.
    pub fn accepts(&self, (verdict, line): Answer) -> bool {
        verdict == self.expect && (self.matched_line.is_none() || self.matched_line == line)
    }
}

pub fn dialect(profile: &str) -> Dialect {
    match profile {
        "rfc9309" => Dialect::RFC9309,
        "google" => Dialect::GOOGLE.of_matcher(),
        "google-2019" => Dialect::GOOGLE_2019.of_matcher(),
        "draft-rep-00" => Dialect::DRAFT_REP_00,
        "koster-1996" => Dialect::KOSTER_1996,
        other => panic!("no dialect for the profile {other}"),
    }
}

/// May the crawler with this token have this URL?
pub fn ask(robots: &RobotsTxt, token: Option<&str>, url: &[u8]) -> Answer {
    let path_and_query = path_of_url(url);
    let path = Path::new(&path_and_query, robots.dialect());
    if robots.dialect().robots_txt_always_allowed && path.is_robots_txt() {
        return (Verdict::Allow, None);
    }
    match robots.group(token).and_then(|group| group.rule_for(&path)) {
        Some(rule) if rule.directive == Directive::Disallow => (Verdict::Disallow, Some(rule.line)),
        rule => (Verdict::Allow, rule.map(|rule| rule.line)),
    }
}

/// Text, base64, or parts to be repeated: exactly one of them is given.
fn bytes(
    text: &Option<String>,
    base64: &Option<String>,
    parts: &Option<Vec<(String, usize)>>,
) -> Vec<u8> {
    match (text, base64, parts) {
        (Some(text), None, None) => text.clone().into_bytes(),
        (None, Some(base64), None) => STANDARD.decode(base64).expect("base64"),
        (None, None, Some(parts)) => {
            parts.iter().map(|(text, times)| text.repeat(*times)).collect::<String>().into()
        }
        _ => panic!("a case has one of text, base64 and parts"),
    }
}
