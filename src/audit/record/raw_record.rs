//! Reads members of a record from the text of its line without parsing it, for filters. A line is
//! canonical: its members have one order and one spelling, and no quotation mark is unescaped
//! within a text. So a member is found by the text before it, at the speed of a search for a few
//! bytes. For a line that is not canonical the result is undefined; `verify` finds those.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::audit::{AllowedEvent, LineKind};

/// A record's line.
#[derive(Clone, Copy, Debug)]
pub struct RawRecord<'a>(&'a [u8]);

/// How the line of every record begins.
const START: &[u8] = b"{\"agent\":";

macro_rules! markers {
    ($($name:ident = $text:literal;)+) => {$(
        static $name: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new($text));
    )+};
}

// Other objects within a record have a `reason`, a `line`, a `sha256` and a `url`, too: those
// markers contain more of their context, or are searched behind another marker.
markers! {
    CLIENT = ",\"client\":{\"address\":";
    EVENT = ",\"event\":";
    ID = ",\"id\":";
    NODE = ",\"node\":";
    ORIGIN = ",\"origin\":";
    REASON = "},\"reason\":";
    RULE = ",\"rule\":{\"directive\":";
    TIME = ",\"time\":";
    URL = ",\"url\":";
    TRACE = ",\"trace_id\":";
    EXEMPTION = ",\"exemption\":{\"by\":";
    PROFILE = ",\"profile\":{\"name\":";
    VERSION = "},\"version\":";
    ROBOTS = ",\"robots\":{";
    SHA256 = ",\"sha256\":";
    NAME = ",\"name\":";
    LINE = ",\"line\":";
    PATTERN = ",\"pattern\":";
    SEQ = ",\"seq\":";
}

impl<'a> RawRecord<'a> {
    /// `None`: the line is no record, or does not begin as one in canonical form.
    pub fn of(line: &'a [u8]) -> Option<Self> {
        let is_record = matches!(LineKind::of(line), Some(LineKind::Record(_)));
        (is_record && line.starts_with(START)).then_some(Self(line))
    }

    /// The line of an allowed request, which has the members of a record.
    pub fn of_allowed(line: &'a [u8]) -> Option<Self> {
        let is_allowed = LineKind::of(line) == Some(LineKind::Notice(AllowedEvent::WORD));
        (is_allowed && line.starts_with(START)).then_some(Self(line))
    }

    /// The member `agent`.
    pub fn agent(&self) -> Option<Cow<'a, str>> {
        text(&self.0[START.len()..])
    }

    /// The client's address.
    pub fn client_address(&self) -> Option<Cow<'a, str>> {
        text(self.after(&CLIENT)?)
    }

    /// The client's user name.
    pub fn client_name(&self) -> Option<Cow<'a, str>> {
        text(after(self.after(&CLIENT)?, &NAME)?)
    }

    /// The member `event`.
    pub fn event(&self) -> Option<Cow<'a, str>> {
        text(self.after(&EVENT)?)
    }

    /// The person who allowed the exemption.
    pub fn exempted_by(&self) -> Option<Cow<'a, str>> {
        text(self.after(&EXEMPTION)?)
    }

    /// The name of the profile.
    pub fn profile_name(&self) -> Option<Cow<'a, str>> {
        text(self.after(&PROFILE)?)
    }

    /// It stands behind the settings, which are an object.
    pub fn profile_version(&self) -> Option<u32> {
        number(after(self.after(&PROFILE)?, &VERSION)?)
    }

    /// Of the robots.txt. Settings of the profile, which may have any name, stand before the reason.
    pub fn sha256(&self) -> Option<Cow<'a, str>> {
        text(after(after(self.after(&REASON)?, &ROBOTS)?, &SHA256)?)
    }

    /// The trace that the request belonged to.
    pub fn trace_id(&self) -> Option<Cow<'a, str>> {
        text(after(self.after(&TIME)?, &TRACE)?)
    }

    /// The member `id`.
    pub fn id(&self) -> Option<Cow<'a, str>> {
        text(self.after(&ID)?)
    }

    /// None in a record of an earlier version.
    pub fn node(&self) -> Option<Cow<'a, str>> {
        text(self.after(&NODE)?)
    }

    /// The member `origin`.
    pub fn origin(&self) -> Option<Cow<'a, str>> {
        text(self.after(&ORIGIN)?)
    }

    /// The member `reason`.
    pub fn reason(&self) -> Option<Cow<'a, str>> {
        text(self.after(&REASON)?)
    }

    /// The line of the rule.
    pub fn rule_line(&self) -> Option<u32> {
        number(after(self.after(&RULE)?, &LINE)?)
    }

    /// The pattern of the rule.
    pub fn rule_pattern(&self) -> Option<Cow<'a, str>> {
        text(after(self.after(&RULE)?, &PATTERN)?)
    }

    /// The member `seq`.
    pub fn seq(&self) -> Option<u64> {
        number(self.after(&SEQ)?)
    }

    /// As it is written: all have one length, and texts sort as times do.
    pub fn time(&self) -> Option<Cow<'a, str>> {
        text(self.after(&TIME)?)
    }

    /// The member `url`.
    pub fn url(&self) -> Option<Cow<'a, str>> {
        text(after(self.after(&TIME)?, &URL)?)
    }

    fn after(&self, marker: &Finder<'_>) -> Option<&'a [u8]> {
        after(self.0, marker)
    }
}

fn after<'a>(bytes: &'a [u8], marker: &Finder<'_>) -> Option<&'a [u8]> {
    marker.find(bytes).map(|at| &bytes[at + marker.needle().len()..])
}

/// The JSON text that `bytes` begin with; none where they begin with `null`.
fn text(bytes: &[u8]) -> Option<Cow<'_, str>> {
    let inner = bytes.strip_prefix(b"\"")?;
    let end = memchr::memchr2(b'"', b'\\', inner)?;
    if inner[end] == b'"' {
        return std::str::from_utf8(&inner[..end]).ok().map(Cow::Borrowed);
    }
    let mut texts = serde_json::Deserializer::from_slice(bytes).into_iter::<String>();
    texts.next()?.ok().map(Cow::Owned)
}

fn number<T: std::str::FromStr>(bytes: &[u8]) -> Option<T> {
    let end = bytes.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(&bytes[..end]).ok()?.parse().ok()
}

/// Of an authority in normal form: an IPv6 address has brackets.
pub fn split_port(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    }
}
