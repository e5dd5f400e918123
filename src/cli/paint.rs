//! Colour and weight, for terminals only, and not where NO_COLOR is set.

use std::fmt::Display;
use std::io::{IsTerminal, stdout};

use super::environment;

/// Paints, or leaves everything as it is.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    on: bool,
}

impl Paint {
    /// No colours.
    pub const OFF: Self = Self { on: false };

    /// Colours if standard output is a terminal and `NO_COLOR` is not set.
    pub fn for_stdout() -> Self {
        Self { on: stdout().is_terminal() && !environment::is_set("NO_COLOR") }
    }

    /// Green.
    pub fn good(self, text: impl Display) -> String {
        self.with("32", text)
    }

    /// Red.
    pub fn bad(self, text: impl Display) -> String {
        self.with("31", text)
    }

    /// Yellow.
    pub fn doubtful(self, text: impl Display) -> String {
        self.with("33", text)
    }

    /// Bold.
    pub fn strong(self, text: impl Display) -> String {
        self.with("1", text)
    }

    /// Dim.
    pub fn faint(self, text: impl Display) -> String {
        self.with("2", text)
    }

    /// For bars, which say nothing but a length.
    pub fn bar(self, text: impl Display) -> String {
        self.with("34", text)
    }

    fn with(self, code: &str, text: impl Display) -> String {
        if self.on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }
}
