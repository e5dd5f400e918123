//! Where what a command has to say goes: standard output, or a file. A reader that has seen enough
//! (`courtesy config show | head`) is no error.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use clap::ValueEnum;

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
