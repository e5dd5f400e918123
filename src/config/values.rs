//! Types of single settings that have a word beside their values, such as `off` or `unlimited`, and
//! `FromStr` for types of other modules.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use bytesize::ByteSize;
use http::StatusCode;
use ipnet::IpNet;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;
use time::{Date, OffsetDateTime};

use crate::audit::AllowedLines;
use crate::egress::AddressBlock;
use crate::engine::ServerUrl;
use crate::policy::exemption::OriginPattern;
use crate::proxy::UpgradeProtocol;
use crate::types::agent::Token;
use crate::types::origin::host::Glob;
use crate::types::origin::{Host, HostPattern, Origin, Scheme, split_url};
use crate::types::sanitize;
use crate::types::timestamp::{Timestamp, bare_number};
pub use crate::types::timestamp::{parse_delay, parse_duration, print_delay, print_duration};
use crate::types::words::{serde_as_text, words};

/// The address of the admin listener, or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminAddress {
    Off,
    At(SocketAddr),
}

impl AdminAddress {
    /// The address; `None` if the listener is off.
    pub fn address(self) -> Option<SocketAddr> {
        match self {
            Self::Off => None,
            Self::At(address) => Some(address),
        }
    }
}

/// A retention time; `None`: forever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retain(pub Option<Duration>);

/// The bytes of the log and its evidence; `None`: unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetainSize(pub Option<u64>);

impl FromStr for AdminAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            _ => {
                parse_admin(text).map(Self::At).map_err(|problem| format!("{problem}, or \"off\""))
            }
        }
    }
}

impl fmt::Display for AdminAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::At(address) => address.fmt(f),
        }
    }
}

impl FromStr for Retain {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "forever" => Ok(Self(None)),
            _ => parse_duration(text)
                .map(|length| Self(Some(length)))
                .map_err(|problem| format!("{problem}, or \"forever\"")),
        }
    }
}

impl fmt::Display for Retain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("forever"),
            Some(length) => f.write_str(&print_duration(&length)),
        }
    }
}

impl FromStr for RetainSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "unlimited" => Ok(Self(None)),
            _ => parse_size(text)
                .map(|size| Self(Some(size)))
                .map_err(|problem| format!("{problem}, or \"unlimited\"")),
        }
    }
}

impl fmt::Display for RetainSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("unlimited"),
            Some(size) => f.write_str(&print_size(&size)),
        }
    }
}

impl FromStr for Glob {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            Err("is empty and would match nothing".into())
        } else {
            Ok(Self::new(text))
        }
    }
}

impl FromStr for HostPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::new(text).ok_or_else(|| {
            format!("\"{text}\" is no host; write \"example.com\", or \"*.example.com\" for those below it")
        })
    }
}

impl FromStr for AllowedLines {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let every = || text.strip_prefix("sample:")?.parse().ok();
        match text {
            "counts" => Ok(Self::Counts),
            "all" => Ok(Self::All),
            _ => every().map(Self::Sample).ok_or_else(|| {
                format!(
                    "\"{text}\" is none of \"counts\", \"all\" and, for one in 100, \"sample:100\""
                )
            }),
        }
    }
}

impl fmt::Display for AllowedLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Counts => f.write_str("counts"),
            Self::Sample(every) => write!(f, "sample:{every}"),
            Self::All => f.write_str("all"),
        }
    }
}

serde_as_text!(
    AdminAddress,
    AllowedLines,
    Retain,
    RetainSize,
    Token,
    Glob,
    HostPattern,
    AddressBlock,
    UpgradeProtocol
);

/// The default port of `listen.proxy`.
pub const PROXY_PORT: u16 = 3128;
/// The default port of `listen.admin`.
pub const ADMIN_PORT: u16 = 3129;

/// Parses `127.0.0.1:3128`, an address alone, whose port is `default`, or a port alone, whose
/// address is 127.0.0.1, as is that of `localhost`. Other names are not looked up.
///
/// # Errors
///
/// What to write instead.
pub fn parse_listen(text: &str, default: u16) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    if let Ok(ip) = bare.parse::<IpAddr>() {
        return Ok((ip, default).into());
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, number(port)),
        None => number(text).map_or((text, Some(default)), |port| ("localhost", Some(port))),
    };
    match port {
        Some(port) if host.eq_ignore_ascii_case("localhost") => {
            Ok((Ipv4Addr::LOCALHOST, port).into())
        }
        Some(port) if host.is_empty() => Err(format!(
            "\"{text}\" has no address; write \"127.0.0.1:{port}\" for this machine alone, or \"0.0.0.0:{port}\" \
             for every address of it"
        )),
        _ => Err(format!("\"{text}\" is no address to listen on; write \"127.0.0.1:{default}\"")),
    }
}

/// For the command line.
pub fn parse_proxy(text: &str) -> Result<SocketAddr, String> {
    parse_listen(text, PROXY_PORT)
}

/// For the command line: the address of an existing listener.
pub fn parse_admin(text: &str) -> Result<SocketAddr, String> {
    parse_listen(text, ADMIN_PORT)
}

fn number(port: &str) -> Option<u16> {
    port.bytes().all(|byte| byte.is_ascii_digit()).then(|| port.parse().ok())?
}

/// The URLs of an engine, without a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineUrl {
    text: String,
    servers: Vec<ServerUrl>,
}

impl EngineUrl {
    /// The servers that it names; at least one.
    pub fn servers(&self) -> &[ServerUrl] {
        &self.servers
    }
}

/// The URLs in a text, which may have a password.
///
/// # Errors
///
/// Why it is not a list of URLs; the message repeats none of it.
pub fn parse_servers(text: &str) -> Result<Vec<ServerUrl>, String> {
    let servers = text.split(',').map(|url| url.trim().parse::<ServerUrl>());
    let servers: Vec<_> = servers
        .collect::<Result<_, _>>()
        .map_err(|error| format!("{error}; write \"redis://HOST:6379\""))?;
    if servers.windows(2).any(|pair| pair[0].user != pair[1].user) {
        return Err("its URLs have different users".into());
    }
    Ok(servers)
}

impl FromStr for EngineUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let servers = parse_servers(text)?;
        if servers.iter().any(|server| server.password.is_some()) {
            return Err("it has a password; write that to a file and name it in \
                        engine.password_file, or the whole URL to one for engine.url_file"
                .into());
        }
        Ok(Self { text: text.to_owned(), servers })
    }
}

impl fmt::Display for EngineUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

serde_as_text!(EngineUrl);

// Types of the settings that name the proxy and its operator to others: the robots.txt agent, the
// contact URL, the node, and the name in `Via`.

/// The User-Agent of a robots.txt fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FetchAs {
    /// The product token of the agent that is judged, and this program.
    Agent,
    /// A fixed text.
    Text(String),
}

impl FromStr for FetchAs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "agent" => Ok(Self::Agent),
            "client" => {
                Err("the field of a client is not sent any more; write \"agent\" or a User-Agent"
                    .into())
            }
            "" => Err("is empty; write \"agent\" or a User-Agent".into()),
            _ if text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) => {
                Ok(Self::Text(text.into()))
            }
            _ => Err("a User-Agent is printable ASCII".into()),
        }
    }
}

impl fmt::Display for FetchAs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Agent => "agent",
            Self::Text(text) => text,
        })
    }
}

/// A URL at which site owners find the operator of a crawler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContactUrl(String);

/// Bytes of the URL, which is sent with each fetch.
const CONTACT_BYTES_MAX: usize = 200;

impl ContactUrl {
    /// The value as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ContactUrl {
    type Err = String;

    /// It stands in a comment (RFC 9110 §5.6.5), so it has no parentheses.
    fn from_str(text: &str) -> Result<Self, String> {
        let is_of_comment = |byte: u8| byte.is_ascii_graphic() && !b"()\\".contains(&byte);
        let is_web =
            matches!(url::Url::parse(text), Ok(url) if matches!(url.scheme(), "http" | "https"));
        if text.len() > CONTACT_BYTES_MAX {
            Err(format!("a contact URL has at most {CONTACT_BYTES_MAX} characters"))
        } else if !is_web || !text.bytes().all(is_of_comment) {
            Err(format!(
                "\"{text}\" is no URL for a User-Agent; write one such as \"https://example.com/bot\""
            ))
        } else {
            Ok(Self(text.into()))
        }
    }
}

impl fmt::Display for ContactUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of a proxy in its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeName(String);

/// Bytes. It is in each line, and as long as a name of DNS can be at least (RFC 1035 §2.3.4).
const NODE_BYTES_MAX: usize = 253;

impl NodeName {
    /// The name of the host that this process runs on.
    pub fn of_host() -> Self {
        let host = rustix::system::uname();
        Self(sanitize::text(host.nodename().to_bytes(), NODE_BYTES_MAX))
    }

    /// The value as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for NodeName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if name.trim().is_empty() {
            Err("is empty; write a name such as \"crawler-3\", or leave it out for the host's"
                .into())
        } else if name.len() > NODE_BYTES_MAX {
            Err(format!("a node's name has at most {NODE_BYTES_MAX} bytes"))
        } else if sanitize::shown(name, sanitize::escape_json) != name {
            Err("a node's name has printable characters only".into())
        } else {
            Ok(Self(name.into()))
        }
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An origin by which browsers reach the admin listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrowserOrigin(pub Origin);

impl FromStr for BrowserOrigin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match split_url(text.as_bytes()) {
            Ok((origin, path)) if *path == *b"/" && !text.ends_with('/') => Ok(Self(origin)),
            _ => Err(format!(
                "\"{text}\" is no origin; write one such as \"https://courtesy.example.com\""
            )),
        }
    }
}

impl fmt::Display for BrowserOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

serde_as_text!(FetchAs, ContactUrl, NodeName, BrowserOrigin);

words! {
    /// Who sees the pages of the console.
    #[derive(Default)]
    pub enum ConsoleAccess {
        /// A browser that `courtesy console` has let in, or that has a token.
        #[default]
        On = "on",
        /// All that can connect, which only users of this machine can.
        Open = "open",
        Off = "off",
    }

    /// The format of log lines on standard error.
    pub enum LogFormat {
        Text = "text",
        Json = "json",
    }

    /// The least important lines that are logged.
    pub enum LogLevel {
        Error = "error",
        Warn = "warn",
        Info = "info",
        /// As `info`, and a line for each request.
        Access = "access",
        Debug = "debug",
        Trace = "trace",
    }
}

// Functions from the text of a value to the value and back: `500KiB`, `10.0.0.0/8`, `2026-12-31`.
// A duration or a size of zero is refused: it has no meaning in any setting.

/// Parses `64KiB`, in bytes. A number without unit is refused: "256" is written by who means MiB.
pub fn parse_size(text: &str) -> Result<u64, String> {
    if let Some(number) = bare_number(text) {
        return Err(format!(
            "\"{number}\" has no unit; write \"{number}MiB\", or \"{number}B\" for bytes"
        ));
    }
    match text.parse::<ByteSize>() {
        Ok(ByteSize(0)) => Err("must be more than nothing".into()),
        Ok(ByteSize(bytes)) => Ok(bytes),
        Err(_) => Err(format!("\"{text}\" is not a size; write it as \"500KiB\" or \"256MiB\"")),
    }
}

/// Prints a size in the largest exact binary unit.
pub fn print_size(bytes: &u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS.iter().find(|(unit, _)| bytes.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{}{name}", bytes / unit),
        None => format!("{bytes}B"),
    }
}

/// Parses a date (its end, UTC) or a date with time (RFC 3339).
pub fn parse_date(text: &str) -> Result<Timestamp, String> {
    let moment = match Date::parse(text, format_description!("[year]-[month]-[day]")) {
        Ok(day) => day.next_day().map(|next| next.midnight().assume_utc()),
        Err(_) => OffsetDateTime::parse(text, &Rfc3339).ok(),
    };
    moment
        .and_then(|moment| u64::try_from(moment.unix_timestamp_nanos() / 1_000_000).ok())
        .filter(|millis| *millis <= Timestamp::LAST.millis())
        .map(Timestamp::from_millis)
        .ok_or_else(|| {
            format!("\"{text}\" is not a date; write \"2026-12-31\" or \"2026-12-31T12:00:00Z\"")
        })
}

/// RFC 3339 in UTC.
pub fn print_date(moment: &Timestamp) -> String {
    match in_utc(moment).map(|date| date.format(&Rfc3339)) {
        Some(Ok(text)) => text,
        _ => format!("{} s after 1970", moment.millis() / 1000),
    }
}

/// RFC 3339 has no year after 9999, which is the last also where a zone is behind UTC.
fn in_utc(moment: &Timestamp) -> Option<OffsetDateTime> {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(moment.millis()) * 1_000_000).ok()
}

/// Parses `https://example.com`.
pub fn parse_origin(text: &str) -> Result<Origin, String> {
    let (origin, rest) = split_url(text.as_bytes()).map_err(|error| error.to_string())?;
    match &*rest {
        b"/" => Ok(origin),
        _ => Err(format!("an origin ends after host and port: \"{origin}\"")),
    }
}

/// Parses a host name or an address.
pub fn parse_host(text: &str) -> Result<Host, String> {
    // A port would be ignored, against the intention of the setting.
    let has_port = text.contains(':') && !text.ends_with(']');
    match Origin::from_authority(Scheme::Https, text) {
        Ok(origin) if !has_port => Ok(origin.host().clone()),
        _ => Err(format!(
            "\"{text}\" is not a host; write \"example.com\" or \"192.0.2.7\", without a port"
        )),
    }
}

/// Parses an origin or `*.example.com`.
pub fn parse_origin_pattern(text: &str) -> Result<OriginPattern, String> {
    if text.starts_with("*.") {
        OriginPattern::parse(text).map_err(|error| error.to_string())
    } else {
        parse_origin(text).map(OriginPattern::Exact)
    }
}

/// The inverse of [`parse_origin_pattern`].
pub fn print_origin_pattern(pattern: &OriginPattern) -> String {
    match pattern {
        OriginPattern::Exact(origin) => origin.to_string(),
        OriginPattern::Below(parent) => format!("*.{parent}"),
    }
}

/// Parses `10.0.0.0/8`, or one address.
pub fn parse_block(text: &str) -> Result<IpNet, String> {
    let block = text.parse::<IpNet>().map(|block| block.trunc());
    block.or_else(|_| text.parse::<IpAddr>().map(IpNet::from)).map_err(|_| {
        format!("\"{text}\" is not an address block; write it as \"10.0.0.0/8\" or \"192.0.2.7\"")
    })
}

/// Parses a status of 400 to 599.
pub fn parse_status(code: i64) -> Result<StatusCode, String> {
    match u16::try_from(code).map(StatusCode::from_u16) {
        Ok(Ok(status)) if status.is_client_error() || status.is_server_error() => Ok(status),
        _ => Err(format!("{code} is not the status of a refusal: 400 to 599")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_only_mean_one_thing_is_taken() {
        for (text, meant) in [
            ("127.0.0.1:3128", "127.0.0.1:3128"),
            ("127.0.0.1", "127.0.0.1:3128"),
            ("0.0.0.0", "0.0.0.0:3128"),
            ("::1", "[::1]:3128"),
            ("[::1]", "[::1]:3128"),
            ("[::1]:8080", "[::1]:8080"),
            ("8080", "127.0.0.1:8080"),
            ("0", "127.0.0.1:0"),
            ("localhost:8080", "127.0.0.1:8080"),
            ("LocalHost", "127.0.0.1:3128"),
        ] {
            assert_eq!(parse_proxy(text).map(|it| it.to_string()).as_deref(), Ok(meant), "{text}");
        }
        assert_eq!(parse_admin("::1").unwrap().port(), ADMIN_PORT);
    }

    #[test]
    fn an_invalid_address_is_refused_with_the_expected_form() {
        for text in [
            "proxy.example:3128",
            "localhost:",
            "127.0.0.1:",
            "127.0.0.1:99999",
            "70000",
            "::1:x",
            "1.2.3:1",
        ] {
            let said = parse_proxy(text).unwrap_err();
            assert!(
                said.ends_with("is no address to listen on; write \"127.0.0.1:3128\""),
                "{said}"
            );
        }
        let said = parse_proxy(":8080").unwrap_err();
        assert!(
            said.contains("\"127.0.0.1:8080\" for this machine")
                && said.contains("\"0.0.0.0:8080\""),
            "{said}"
        );
    }

    #[test]
    fn a_url_of_the_settings_has_no_password() {
        for (text, expected) in [
            ("redis://engine:6379", Ok(1)),
            ("rediss://courtesy@a, rediss://courtesy@b:7000", Ok(2)),
            ("redis+unix:///run/engine.sock", Ok(1)),
            ("redis://courtesy:secret@engine", Err("engine.password_file")),
            ("redis://one@a,redis://other@b", Err("different users")),
            ("http://engine", Err("redis://HOST:6379")),
            ("", Err("redis://HOST:6379")),
        ] {
            let parsed = text.parse::<EngineUrl>();
            match expected {
                Ok(count) => {
                    let url = parsed.expect(text);
                    assert_eq!((url.servers().len(), url.to_string()), (count, text.into()));
                }
                Err(part) => {
                    let error = parsed.expect_err(text);
                    assert!(error.contains(part) && !error.contains("secret"), "{error}");
                }
            }
        }
    }

    #[test]
    fn what_is_printed_reads_back_the_same() {
        for text in ["1ms", "1500ms", "10s", "90s", "10m", "24h", "36h", "30d"] {
            assert_eq!(print_duration(&parse_duration(text).unwrap()), text);
        }
        for text in ["1B", "1500B", "500KiB", "256MiB", "2GiB"] {
            assert_eq!(print_size(&parse_size(text).unwrap()), text);
        }
        for date in ["2026-12-31T12:00:00Z", "2026-12-31T12:00:00.25Z", "9999-12-31T23:59:59Z"] {
            assert_eq!(print_date(&parse_date(date).unwrap()), date);
        }
        for text in ["https://example.com", "*.example.com", "http://[::1]:8080"] {
            assert_eq!(print_origin_pattern(&parse_origin_pattern(text).unwrap()), text);
        }
    }

    /// Of every size and length of time alike; what is zero has no unit either.
    #[test]
    fn a_number_without_unit_is_refused_with_what_to_write() {
        for text in ["256", "0", "1.5", " 256 ", "268435456"] {
            let refusal = parse_size(text).unwrap_err();
            let trimmed = text.trim();
            let expected = format!(
                "\"{trimmed}\" has no unit; write \"{trimmed}MiB\", or \"{trimmed}B\" for bytes"
            );
            assert_eq!(refusal, expected);
        }
        for text in ["10", "0", " 10"] {
            let trimmed = text.trim();
            let expected =
                format!("\"{trimmed}\" has no unit; write \"{trimmed}s\" for seconds, or m, h, d");
            assert_eq!(parse_duration(text).unwrap_err(), expected);
            assert_eq!(parse_delay(text).unwrap_err(), expected);
        }
        assert_eq!(parse_size("256B"), Ok(256));
        assert!(parse_size("").unwrap_err().contains("is not a size"));
    }

    #[test]
    fn a_host_is_a_name_or_an_address_without_port() {
        for (text, host) in [
            ("Example.COM.", "example.com"),
            ("192.0.2.7", "192.0.2.7"),
            ("[2001:DB8::1]", "[2001:db8::1]"),
        ] {
            assert_eq!(parse_host(text).unwrap().to_string(), host);
        }
        for text in ["example.com:8443", "[::1]:443", "https://example.com", "", "a b"] {
            assert!(parse_host(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_date_means_its_end() {
        assert_eq!(parse_date("2026-12-31"), parse_date("2027-01-01T00:00:00Z"));
    }

    #[test]
    fn what_could_not_be_printed_is_refused() {
        for text in ["1us", "1500us", "1s 1ns"] {
            assert!(
                parse_duration(text).unwrap_err().contains("finer than a millisecond"),
                "{text}"
            );
        }
        for text in ["9999-12-31T23:59:59-01:00", "9999-12-31", "1969-12-30"] {
            assert!(parse_date(text).unwrap_err().contains("is not a date"), "{text}");
        }
    }

    #[test]
    fn one_address_is_a_block_of_one() {
        assert_eq!(parse_block("192.0.2.7").unwrap().to_string(), "192.0.2.7/32");
        assert_eq!(parse_block("10.1.2.3/8").unwrap().to_string(), "10.0.0.0/8");
        assert!(parse_block("10.0.0.0/33").is_err());
    }
}
