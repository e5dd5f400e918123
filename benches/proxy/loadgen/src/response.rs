//! Finds the end of each response (RFC 9112 §6.3) and throws its body away.

const HEAD_MAX: usize = 64 * 1024;
const LINE_MAX: usize = 8 * 1024;
const FIELDS_MAX: usize = 64;

/// What cannot be a response.
#[derive(Debug)]
pub struct Malformed;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Head,
    Length(u64),
    ChunkSize,
    /// Its bytes, and the line end after them.
    Chunk(u64),
    Trailer,
    UntilClose,
    Done,
}

#[derive(Debug)]
pub struct Response {
    state: State,
    /// A head that came in pieces.
    head: Vec<u8>,
    /// A line of the chunked framing that came in pieces.
    line: Vec<u8>,
    /// To a CONNECT.
    bodiless: bool,
    pub status: u16,
    pub body: u64,
    pub keep_alive: bool,
}

impl Response {
    pub fn new() -> Self {
        Self {
            state: State::Head,
            head: Vec::new(),
            line: Vec::new(),
            bodiless: false,
            status: 0,
            body: 0,
            keep_alive: true,
        }
    }

    /// Makes it ready for the next one, and keeps its buffers.
    pub fn reset(&mut self, bodiless: bool) {
        self.head.clear();
        self.line.clear();
        let (head, line) = (std::mem::take(&mut self.head), std::mem::take(&mut self.line));
        *self = Self { head, line, bodiless, ..Self::new() };
    }

    /// Whether anything of it has come.
    pub fn started(&self) -> bool {
        self.state != State::Head || !self.head.is_empty()
    }

    /// Takes what was read, and says whether the response is complete. Bytes after its end are malformed.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<bool, Malformed> {
        loop {
            match self.state {
                State::Done if bytes.is_empty() => return Ok(true),
                State::Done => return Err(Malformed),
                _ if bytes.is_empty() => return Ok(false),
                State::Head => bytes = self.head(bytes)?,
                State::Length(left) => {
                    let taken = self.take(&mut bytes, left);
                    self.state = if taken == left { State::Done } else { State::Length(left - taken) };
                }
                State::Chunk(left) => {
                    let taken = self.take(&mut bytes, left);
                    self.state = if taken == left { State::ChunkSize } else { State::Chunk(left - taken) };
                }
                State::ChunkSize | State::Trailer => bytes = self.line(bytes)?,
                State::UntilClose => {
                    self.take(&mut bytes, u64::MAX);
                }
            }
        }
    }

    /// The other side closed: whether that was the end of the response.
    pub fn closed(&self) -> bool {
        self.state == State::UntilClose
    }

    fn take(&mut self, bytes: &mut &[u8], wanted: u64) -> u64 {
        let taken = wanted.min(bytes.len() as u64);
        self.body += taken;
        *bytes = &bytes[taken as usize..];
        taken
    }

    /// Reads the head, or keeps what there is of it. What is left of `bytes`.
    fn head<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], Malformed> {
        // Nearly always it comes in one piece.
        if self.head.is_empty()
            && let Some(length) = self.parse(bytes)?
        {
            return Ok(&bytes[length..]);
        }
        let before = self.head.len();
        let mut head = std::mem::take(&mut self.head);
        head.extend_from_slice(bytes);
        let parsed = self.parse(&head)?;
        match parsed {
            Some(length) => {
                head.clear();
                self.head = head;
                Ok(&bytes[length - before..])
            }
            None if head.len() > HEAD_MAX => Err(Malformed),
            None => {
                self.head = head;
                Ok(&[])
            }
        }
    }

    /// The length of the head, if all of it is there.
    fn parse(&mut self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut head = httparse::Response::new(&mut fields);
        let httparse::Status::Complete(length) = head.parse(bytes).map_err(|_| Malformed)? else {
            return Ok(None);
        };
        self.status = head.code.unwrap_or_default();
        let mut close = head.version == Some(0);
        let mut framing = State::UntilClose;
        for field in head.headers.iter() {
            let is = |name: &str| field.name.eq_ignore_ascii_case(name);
            if is("content-length") {
                let text = str::from_utf8(field.value).map_err(|_| Malformed)?;
                let length = text.trim().parse().map_err(|_| Malformed)?;
                framing = if length == 0 { State::Done } else { State::Length(length) };
            } else if is("transfer-encoding") {
                framing = State::ChunkSize;
            } else if is("connection") || is("proxy-connection") {
                close = field.value.eq_ignore_ascii_case(b"close")
                    || (close && !field.value.eq_ignore_ascii_case(b"keep-alive"));
            }
        }
        self.state = match self.status {
            100..=199 => State::Head,
            204 | 304 => State::Done,
            200..=299 if self.bodiless => State::Done,
            _ => framing,
        };
        self.keep_alive = !close && self.state != State::UntilClose;
        Ok(Some(length))
    }

    /// Reads a line of the chunked framing (RFC 9112 §7.1). What is left of `bytes`.
    fn line<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], Malformed> {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        self.line.extend_from_slice(&bytes[..end.unwrap_or(bytes.len())]);
        if self.line.len() > LINE_MAX {
            return Err(Malformed);
        }
        let Some(end) = end else { return Ok(&[]) };
        let line = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        self.state = match (self.state, line.is_empty()) {
            (State::Trailer, true) => State::Done,
            (State::Trailer, false) => State::Trailer,
            // The end of the chunk before.
            (_, true) => State::ChunkSize,
            (_, false) => match chunk_size(line)? {
                0 => State::Trailer,
                size => State::Chunk(size),
            },
        };
        self.line.clear();
        Ok(&bytes[end + 1..])
    }
}

fn chunk_size(line: &[u8]) -> Result<u64, Malformed> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or(line);
    let text = str::from_utf8(digits).map_err(|_| Malformed)?;
    u64::from_str_radix(text.trim(), 16).map_err(|_| Malformed)
}

#[cfg(test)]
mod tests;
