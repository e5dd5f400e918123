//! Standard output. A reader that has seen enough (`courtesy config show | head`) is no error.

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
