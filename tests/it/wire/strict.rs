//! A reader of HTTP/1.1 that forgives nothing: the grammar of RFC 9112 and what a proxy must send.
//! It shares no code with the proxy or its library.

/// A message that holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The request line or the status line.
    pub line: String,
    pub fields: Vec<(String, Vec<u8>)>,
    pub body: Vec<u8>,
    pub trailers: Vec<(String, Vec<u8>)>,
}

/// How bytes end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Between,
    /// Inside a message: visibly incomplete.
    Inside,
}

type Fields = Vec<(String, Vec<u8>)>;

/// What could not be read: nothing more has come, or it breaks a rule.
#[derive(Debug)]
enum Stop {
    Short,
    Breach(String),
}

impl Message {
    pub fn all(&self, name: &str) -> Vec<&[u8]> {
        let same = self.fields.iter().filter(|(it, _)| it.eq_ignore_ascii_case(name));
        same.map(|(_, value)| value.as_slice()).collect()
    }

    /// Method and target of a request.
    pub fn asked(&self) -> &str {
        self.line.rsplit_once(' ').map_or("", |(asked, _)| asked)
    }

    /// The status of a response.
    pub fn status(&self) -> u16 {
        self.line[9..12].parse().expect("checked")
    }
}

/// Requests as an origin gets them.
pub fn requests(bytes: &[u8]) -> Result<(Vec<Message>, End), String> {
    all(bytes, |reader| {
        let request = reader.head()?;
        check_request(&request)?;
        reader.content(request, true)
    })
}

/// Responses as a client gets them, to requests of these methods; interim ones are left out.
pub fn responses(bytes: &[u8], methods: &[&str]) -> Result<(Vec<Message>, End), String> {
    let mut methods = methods.iter();
    all(bytes, |reader| {
        loop {
            let response = reader.head()?;
            let status = check_response(&response)?;
            if (100..200).contains(&status) && status != 101 {
                continue;
            }
            let method = methods.next().copied().unwrap_or("GET");
            let is_tunnel = status == 101 || method == "CONNECT" && status < 300;
            if is_tunnel
                && !(response.all("content-length").is_empty()
                    && response.all("transfer-encoding").is_empty())
            {
                return breach("a tunnel that is framed");
            }
            if is_tunnel {
                return Ok(Message { body: reader.rest(), ..response });
            }
            if method == "HEAD" || matches!(status, 204 | 304) {
                return Ok(response);
            }
            return reader.content(response, false);
        }
    })
}

fn all(
    bytes: &[u8],
    mut message: impl FnMut(&mut Reader<'_>) -> Result<Message, Stop>,
) -> Result<(Vec<Message>, End), String> {
    let mut reader = Reader { bytes, at: 0 };
    let mut messages = Vec::new();
    while reader.at < bytes.len() {
        match message(&mut reader) {
            Ok(message) => messages.push(message),
            Err(Stop::Short) => return Ok((messages, End::Inside)),
            Err(Stop::Breach(rule)) => return Err(rule),
        }
    }
    Ok((messages, End::Between))
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

fn breach<T>(rule: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Breach(rule.into()))
}

impl Reader<'_> {
    fn head(&mut self) -> Result<Message, Stop> {
        let line = self.line()?;
        let line = String::from_utf8(line).or_else(|_| breach("a first line that is no ASCII"))?;
        Ok(Message { line, fields: self.fields()?, body: Vec::new(), trailers: Vec::new() })
    }

    /// A line that ends in CRLF and has no other control in it.
    fn line(&mut self) -> Result<Vec<u8>, Stop> {
        let rest = &self.bytes[self.at..];
        let end = rest.iter().position(|byte| *byte == b'\n').ok_or(Stop::Short)?;
        let Some(line) = rest[..end].strip_suffix(b"\r") else { return breach("a bare LF") };
        if line.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t') {
            return breach(format!("a control in {}", line.escape_ascii()));
        }
        self.at += end + 1;
        Ok(line.to_vec())
    }

    fn fields(&mut self) -> Result<Fields, Stop> {
        let mut fields = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok(fields);
            }
            let Some(colon) = line.iter().position(|byte| *byte == b':') else {
                return breach(format!("no colon in {}", line.escape_ascii()));
            };
            let (name, value) = (&line[..colon], &line[colon + 1..]);
            if name.is_empty() || !name.iter().all(|byte| is_token(*byte)) {
                return breach(format!("no token before the colon of {}", line.escape_ascii()));
            }
            fields.push((String::from_utf8_lossy(name).into_owned(), value.trim_ascii().to_vec()));
        }
    }

    fn content(&mut self, mut message: Message, is_request: bool) -> Result<Message, Stop> {
        let lengths = message.all("content-length");
        let codings = message.all("transfer-encoding");
        match (&lengths[..], &codings[..]) {
            ([], []) if is_request => {}
            ([], []) => {
                // Up to the end of the connection: whether it is complete cannot be seen.
                message.body = self.rest();
            }
            ([length], []) => {
                if length.is_empty() || !length.iter().all(u8::is_ascii_digit) {
                    return breach("a length that is no number");
                }
                let length =
                    String::from_utf8_lossy(length).parse().or_else(|_| breach("a length"))?;
                message.body = self.exactly(length)?;
            }
            ([], [b"chunked"]) => self.chunked(&mut message)?,
            _ => return breach("an ambiguous length"),
        }
        Ok(message)
    }

    fn chunked(&mut self, message: &mut Message) -> Result<(), Stop> {
        loop {
            let line = self.line()?;
            let size = line.split(|byte| *byte == b';').next().unwrap_or_default();
            if size.is_empty() || size.len() > 15 || !size.iter().all(u8::is_ascii_hexdigit) {
                return breach(format!("no chunk size: {}", line.escape_ascii()));
            }
            let size = usize::from_str_radix(&String::from_utf8_lossy(size), 16).expect("digits");
            if size == 0 {
                message.trailers = self.fields()?;
                return Ok(());
            }
            message.body.extend(self.exactly(size)?);
            if !self.line()?.is_empty() {
                return breach("a chunk that is longer than its size");
            }
        }
    }

    fn exactly(&mut self, count: usize) -> Result<Vec<u8>, Stop> {
        let bytes = self.bytes[self.at..].get(..count).ok_or(Stop::Short)?;
        self.at += count;
        Ok(bytes.to_vec())
    }

    fn rest(&mut self) -> Vec<u8> {
        let rest = self.bytes[self.at..].to_vec();
        self.at = self.bytes.len();
        rest
    }
}

/// What a proxy must never send to an origin.
fn check_request(request: &Message) -> Result<(), Stop> {
    let parts: Vec<&str> = request.line.split(' ').collect();
    let [method, target, "HTTP/1.1"] = parts[..] else {
        return breach(format!("no request line of HTTP/1.1: {}", request.line));
    };
    if method.is_empty() || !method.bytes().all(is_token) {
        return breach(format!("no method: {method}"));
    }
    let is_origin_form =
        target.starts_with('/') && target.bytes().all(|it| it.is_ascii_graphic() && it != b'#');
    let is_asterisk = method == "OPTIONS" && target == "*";
    if !is_origin_form && !is_asterisk {
        return breach(format!("no target in origin-form: {target}"));
    }
    if request.all("host").len() != 1 {
        return breach("not one Host");
    }
    for name in ["proxy-authorization", "proxy-connection", "keep-alive", "http2-settings"] {
        if !request.all(name).is_empty() {
            return breach(format!("{name} is for the hop before"));
        }
    }
    let options = request.all("connection").concat().to_ascii_lowercase();
    for option in
        options.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|it| !it.is_empty())
    {
        if !matches!(option, b"te" | b"upgrade") {
            return breach(format!("Connection names {}", option.escape_ascii()));
        }
    }
    if !request.all("te").is_empty() && request.all("te") != [b"trailers"] {
        return breach("TE of the hop before");
    }
    Ok(())
}

fn check_response(response: &Message) -> Result<u16, Stop> {
    let digits =
        response.line.strip_prefix("HTTP/1.1 ").or_else(|| response.line.strip_prefix("HTTP/1.0 "));
    let status =
        digits.and_then(|rest| rest.get(..3)?.parse().ok()).filter(|it| (100..600).contains(it));
    let ends = digits.is_some_and(|rest| rest[3..].starts_with(' '));
    status.filter(|_| ends).map_or_else(|| breach(format!("no status line: {}", response.line)), Ok)
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[test]
fn the_reader_forgives_nothing() {
    let good = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(requests(good.as_bytes()).map(|(all, end)| (all.len(), end)), Ok((1, End::Between)));
    assert_eq!(
        requests(&good.as_bytes()[..9]).map(|(all, end)| (all.len(), end)),
        Ok((0, End::Inside))
    );
    for bad in [
        "GET / HTTP/1.1\nHost: a\r\n\r\n",
        "GET / HTTP/1.0\r\nHost: a\r\n\r\n",
        "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /  HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\nx\r\n0\r\n\r\n",
    ] {
        assert!(requests(bad.as_bytes()).is_err(), "{bad:?}");
    }
}
