//! What is printed. A reader that has seen enough (`courtesy config show | head`) is no error.

use std::io::{self, Write};

use super::exit::Failure;

/// Writes all of `text` to standard output.
pub fn print(text: impl AsRef<[u8]>) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    match output.write_all(text.as_ref()).and_then(|()| output.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => Ok(outcome?),
    }
}

/// A word as a shell reads it: plain where it can be.
pub fn quoted(word: &str) -> String {
    let plain = word.bytes().all(|octet| octet.is_ascii_alphanumeric() || b"/._-+,:@".contains(&octet));
    if plain { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}
