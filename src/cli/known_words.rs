//! Flags with words that are known: what parses them, and the words for completions and `--help`.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command, Error};

/// Parses a text, which may have other forms than the `words` that are shown.
#[derive(Clone, Debug)]
pub struct KnownWords<T> {
    words: Vec<&'static str>,
    parse: fn(&str) -> Result<T, String>,
}

impl<T> KnownWords<T> {
    /// A parser of `words` by `parse`.
    pub fn new(words: &[&[&'static str]], parse: fn(&str) -> Result<T, String>) -> Self {
        Self { words: words.concat(), parse }
    }
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for KnownWords<T> {
    type Value = T;

    fn parse_ref(&self, command: &Command, flag: Option<&Arg>, value: &OsStr) -> Result<T, Error> {
        self.parse.parse_ref(command, flag, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.words.iter().copied().map(PossibleValue::new)))
    }
}
