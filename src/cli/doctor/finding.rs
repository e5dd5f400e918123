//! One thing that was looked at, and what to do about it.

use std::fmt;

use serde::Serialize;

/// Whether what was looked at works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Well,
    Bad,
    /// It does not, which is known, and no fault of this machine.
    Known,
    /// It could not be tried.
    Untried,
}

/// One line of the diagnosis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at, in a word or two.
    pub subject: String,
    pub state: State,
    pub detail: String,
    /// What to do.
    pub remedy: Option<String>,
}

impl Finding {
    /// It works.
    pub fn well(subject: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { subject: subject.into(), state: State::Well, detail: detail.into(), remedy: None }
    }

    /// It does not work.
    pub fn bad(
        subject: impl Into<String>,
        detail: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { state: State::Bad, remedy: Some(remedy.into()), ..Self::well(subject, detail) }
    }

    /// It does not work, and cannot: a property of the client.
    pub fn known(
        subject: impl Into<String>,
        detail: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { state: State::Known, ..Self::bad(subject, detail, remedy) }
    }

    /// It could not be tried.
    pub fn untried(subject: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { state: State::Untried, ..Self::well(subject, detail) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.state {
            State::Well => '✓',
            State::Bad => '✗',
            State::Known => '!',
            State::Untried => '–',
        };
        let detail = self.detail.trim_end().replace('\n', "\n    ");
        writeln!(f, "{mark} {}: {detail}", self.subject)?;
        match &self.remedy {
            Some(remedy) => writeln!(f, "    → {remedy}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remedy_stands_on_its_own_line() {
        let bad = Finding::bad("curl", "goes around\nthe proxy", "set http_proxy");
        assert_eq!(bad.to_string(), "✗ curl: goes around\n    the proxy\n    → set http_proxy\n");
        assert_eq!(Finding::well("curl", "it does").to_string(), "✓ curl: it does\n");
        assert_eq!(
            Finding::untried("java", "not installed").to_string(),
            "– java: not installed\n"
        );
    }
}
