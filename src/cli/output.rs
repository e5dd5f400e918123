//! Where what a command has to say goes: standard output, or a file. A reader that has seen enough
//! (`courtesy config show | head`) is no error.

use std::ffi::OsStr;
use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write, stderr, stdout};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command, Error, ValueEnum};

use super::environment;
use super::exit::Failure;

/// For people or for programs.
#[derive(ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    #[default]
    Text,
    Json,
}

/// Writes all of `text` to standard output.
pub fn print(text: impl AsRef<[u8]>) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    match output.write_all(text.as_ref()).and_then(|()| output.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => Ok(outcome?),
    }
}

/// Makes a file with mode 0600: records say which client asked for what.
pub fn create_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// A word as a shell reads it: plain where it can be.
pub fn quoted(word: &str) -> String {
    let plain =
        word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-+,:@".contains(&byte));
    if plain { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// Paints, or leaves everything as it is.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    on: bool,
}

impl Paint {
    /// No colours.
    pub const OFF: Self = Self { on: false };

    /// Colours if standard output is a terminal that has them, and `NO_COLOR` is not set.
    pub fn for_stdout() -> Self {
        Self { on: stdout().is_terminal() && may_paint() }
    }

    /// The same for standard error.
    pub fn for_stderr() -> Self {
        Self { on: stderr().is_terminal() && may_paint() }
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

/// Whether the environment has nothing against colours.
pub fn may_paint() -> bool {
    let is_dumb = environment::variable("TERM").is_some_and(|terminal| terminal == "dumb");
    !is_dumb && !environment::is_set("NO_COLOR")
}

/// The largest unit and the next, where there is any of it; nothing finer.
pub fn human_duration(duration: Duration) -> String {
    // To the nearest second: what was fetched 40 ms ago is current for a whole day.
    let seconds = (duration + Duration::from_millis(500)).as_secs();
    let parts = [
        (seconds / 86_400, "d"),
        (seconds / 3600 % 24, "h"),
        (seconds / 60 % 60, "min"),
        (seconds % 60, "s"),
    ];
    let first = parts.iter().position(|(count, _)| *count > 0).unwrap_or(parts.len() - 1);
    let (count, unit) = parts[first];
    match parts.get(first + 1) {
        Some((next, next_unit)) if *next > 0 => format!("{count} {unit} {next} {next_unit}"),
        _ => format!("{count} {unit}"),
    }
}

/// As [`human_duration`], with parts of a second where it is shorter than a minute.
pub fn seconds(duration: Duration) -> String {
    if duration >= Duration::from_secs(60) || duration.subsec_millis() == 0 {
        return human_duration(duration);
    }
    let seconds = duration.as_secs_f64();
    let digits = format!("{seconds:.3}");
    format!("{} s", digits.trim_end_matches('0'))
}

/// Breaks text at blanks. A word longer than a line has a line of its own.
pub fn wrapped(words: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in words.split_whitespace() {
        let line = lines.last_mut().expect("there is one from the start");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

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

/// Bytes of a robots.txt or a URL that a line of `check --batch` may describe.
pub const BATCH_BYTES_MAX: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_second_where_there_are_some() {
        for (millis, text) in [
            (500, "0.5 s"),
            (1, "0.001 s"),
            (2_000, "2 s"),
            (12_340, "12.34 s"),
            (61_500, "1 min 2 s"),
        ] {
            assert_eq!(seconds(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn two_units_at_most() {
        for (millis, text) in [
            (0, "0 s"),
            (400, "0 s"),
            (45_000, "45 s"),
            (120_000, "2 min"),
            (86_280_000, "23 h 58 min"),
            (86_399_900, "1 d"),
            (90_061_000, "1 d 1 h"),
        ] {
            assert_eq!(human_duration(Duration::from_millis(millis)), text);
        }
    }
}
