//! A command's end of the control socket.

use std::io::{self, BufRead, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::{ControlError, End, Line, Question, Tell, path};
use crate::admin::limits::CONTROL_TIMEOUT;

/// Bytes of a line of the answer: what is known of one origin, under every profile.
const CONTROL_LINE_BYTES_MAX: u64 = 1 << 20;

/// Asks the proxy that runs with this state directory. `None` when none does.
pub fn ask(
    state_dir: &Path,
    question: &Question,
    tell: Tell<'_>,
) -> Result<Option<End>, ControlError> {
    let mut stream = match UnixStream::connect(path(state_dir)) {
        Ok(stream) => stream,
        Err(error) if is_nobody(&error) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    stream.set_read_timeout(Some(CONTROL_TIMEOUT))?;
    stream.set_write_timeout(Some(CONTROL_TIMEOUT))?;
    stream.write_all((serde_json::to_string(question)? + "\n").as_bytes())?;
    let mut lines = io::BufReader::new(stream);
    let mut line = Vec::new();
    loop {
        line.clear();
        lines.by_ref().take(CONTROL_LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Err(io::Error::from(ErrorKind::UnexpectedEof).into());
        }
        match serde_json::from_slice(&line)? {
            Line::Item(item) => tell(item).map_err(ControlError::Tell)?,
            Line::End(end) => return Ok(Some(end)),
            Line::Failed(why) => return Err(ControlError::Failed(why)),
        }
    }
}

/// No socket, an unserved one, or a name too long for one: no proxy runs there.
fn is_nobody(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NotFound | ErrorKind::ConnectionRefused | ErrorKind::InvalidInput
    )
}
