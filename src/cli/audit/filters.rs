//! The flags by which records are chosen: the same wherever records are read.

use std::time::Duration;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use serde::de::value::Error;
use serde::de::{DeserializeOwned, Deserializer, Error as _, Visitor};
use serde::forward_to_deserialize_any;
use time::Date;
use time::macros::format_description;

use crate::audit::read::Filter;
use crate::audit::read::filter::{Client, Place, Profile, Rule};
use crate::audit::{Event, Notice, Reason, parse_time, print_time};
use crate::cli::exit::{Exit, Failure, OrExit};
use crate::cli::output::KnownWords;
use crate::config::ProfileName;
use crate::runtime::clock::{Clock, SystemClock};
use crate::types::origin::host::Glob;
use crate::types::timestamp::Timestamp;
use crate::types::words::nearest;

/// Each may be given several times: any of the values will do. Of different flags, all must hold.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Which records")]
pub struct FilterFlags {
    /// From then on: 2h, 7d (ago), yesterday, 2026-11-20, '2026-11-20 12:44' (UTC), 2026-11-20T12:00:00+01:00
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<Timestamp>,
    /// Until then; of a day, to its end (today and yesterday, too)
    #[arg(long, value_name = "TIME", value_parser = until)]
    until: Option<Timestamp>,
    /// An origin (https://example.com), a host (example.com, example.com:8080), or hosts (*.example.com)
    #[arg(long, value_name = "ORIGIN", value_parser = Place::parse)]
    origin: Vec<Place>,
    /// A product token, in any case; * stands for anything
    #[arg(long, value_name = "AGENT", value_parser = glob)]
    agent: Vec<Glob>,
    /// A reason
    #[arg(long, value_name = "REASON", value_parser = KnownWords::new(&[words::<Reason>()], word::<Reason>))]
    reason: Vec<String>,
    /// What was done, or what the log says of itself (gap and the words after it)
    #[arg(long, value_name = "EVENT", value_parser = KnownWords::new(&[words::<Event>(), Notice::WORDS], event))]
    event: Vec<String>,
    /// A rule, by its line number or by its pattern as written
    #[arg(long, value_name = "RULE", value_parser = rule)]
    rule: Vec<Rule>,
    /// Who asked: an address, a block (10.0.0.0/8), a name, or a keyed hash of one
    #[arg(long, value_name = "CLIENT", value_parser = client)]
    client: Vec<Client>,
    /// An identifier, or its beginning
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    id: Vec<String>,
    /// A whole URL, in any case; * stands for anything
    #[arg(long, value_name = "PATTERN", value_parser = glob)]
    url: Vec<Glob>,
    /// The SHA-256 of the robots.txt that decided, or its beginning
    #[arg(long, value_name = "SHA256", value_parser = digits)]
    sha256: Vec<String>,
    /// A trace id, or its beginning
    #[arg(long, value_name = "TRACE", value_parser = digits)]
    trace: Vec<String>,
    /// Who allowed an exempted request (by in the settings), in any case; * stands for anything
    #[arg(long, value_name = "NAME", value_parser = glob)]
    exempted_by: Vec<Glob>,
    /// The proxy that wrote it (audit.node), in any case; * stands for anything
    #[arg(long, value_name = "NODE", value_parser = glob)]
    node: Vec<Glob>,
}

/// Apart from the others, as `courtesy audit replay` has another flag of this name.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Which records")]
pub struct ProfileFlag {
    /// The profile that decided, by its name or as NAME@VERSION
    #[arg(long, value_name = "PROFILE", value_parser = KnownWords::new(&[ProfileName::WORDS], profile))]
    pub profile: Vec<Profile>,
}

impl FilterFlags {
    /// With what the flag of its own says.
    pub fn filter_with(&self, profile: &ProfileFlag) -> Filter {
        Filter { profiles: profile.profile.clone(), ..self.filter() }
    }

    /// The filter that the flags describe.
    pub fn filter(&self) -> Filter {
        Filter {
            since: self.since,
            until: self.until,
            origins: self.origin.clone(),
            agents: self.agent.clone(),
            events: self.event.clone(),
            reasons: self.reason.clone(),
            rules: self.rule.clone(),
            clients: self.client.clone(),
            ids: self.id.iter().map(|id| id.to_ascii_uppercase()).collect(),
            seqs: Vec::new(),
            urls: self.url.clone(),
            nodes: self.node.clone(),
            sha256s: self.sha256.clone(),
            traces: self.trace.clone(),
            profiles: Vec::new(),
            exempted_by: self.exempted_by.clone(),
        }
    }
}

/// An event, or the kind of a notice.
fn event(text: &str) -> Result<String, String> {
    one_of(text, &[words::<Event>(), Notice::WORDS].concat())
}

/// A word of the enumeration `T`; they are all named when it is none.
fn word<T: DeserializeOwned>(text: &str) -> Result<String, String> {
    one_of(text, words::<T>())
}

fn one_of(text: &str, words: &[&str]) -> Result<String, String> {
    if words.contains(&text) {
        return Ok(text.to_owned());
    }
    let hint = nearest(text, words.iter().copied());
    let hint = hint.map(|word| format!("; did you mean {word}?")).unwrap_or_default();
    Err(format!("it is one of {}{hint}", words.join(", ")))
}

/// The words of an enumeration, by its deserializer.
fn words<T: DeserializeOwned>() -> &'static [&'static str] {
    let mut words: &[&str] = &[];
    let _ = T::deserialize(Listener(&mut words));
    words
}

struct Listener<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for Listener<'_> {
    type Error = Error;

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        *self.0 = variants;
        Err(Error::custom("there is nothing to read"))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("it is no enumeration"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

/// A text in which `*` stands for anything.
pub fn glob(text: &str) -> Result<Glob, String> {
    match text {
        "" => Err("it is empty; * stands for anything".into()),
        _ => Ok(Glob::new(text)),
    }
}

/// Hexadecimal, as records have it.
fn digits(text: &str) -> Result<String, String> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        Err("it is hexadecimal: digits and a to f".into())
    } else {
        Ok(text.to_ascii_lowercase())
    }
}

fn profile(text: &str) -> Result<Profile, String> {
    let (name, version) = match text.split_once('@') {
        None => (text, None),
        Some((name, version)) => {
            (name, Some(version.parse().map_err(|_| "write a version as rfc9309@1".to_owned())?))
        }
    };
    one_of(name, ProfileName::WORDS).map(|name| Profile { name, version })
}

fn rule(text: &str) -> Result<Rule, String> {
    Ok(Rule::parse(text))
}

/// An address, a block, or a name.
pub fn client(text: &str) -> Result<Client, String> {
    match text.contains('/').then(|| text.parse::<ipnet::IpNet>()) {
        Some(Err(_)) => Err("write a block as 10.0.0.0/8".into()),
        _ => Ok(Client::parse(text)),
    }
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const DAY_MILLIS: u64 = 24 * 60 * 60 * 1000;

/// From when on: of a day, its beginning (UTC).
pub fn since(text: &str) -> Result<Timestamp, String> {
    parse(text, Duration::ZERO, SystemClock.wall())
}

/// Until when: of a day, its end (UTC).
pub fn until(text: &str) -> Result<Timestamp, String> {
    parse(text, DAY, SystemClock.wall())
}

/// The end of a time as it was written: of a day that counts to its end, that day (UTC).
pub fn print_until(until: Timestamp) -> String {
    let is_end_of_day = until.millis() > 0 && until.millis().is_multiple_of(DAY_MILLIS);
    if is_end_of_day {
        print_time(Timestamp::from_millis(until.millis() - DAY_MILLIS))[..10].to_owned()
    } else {
        print_time(until)[..16].replace('T', " ")
    }
}

/// Refuses a period that ends before it begins: nothing would be found in it.
pub fn check(since: Option<Timestamp>, until: Option<Timestamp>) -> Result<(), Failure> {
    match (since, until) {
        (Some(since), Some(until)) if until <= since => {
            let [since, until] = [since, until].map(print_time);
            Err(anyhow::anyhow!("--until, {until}, is not after --since, {since}"))
                .or_exit(Exit::Usage)
        }
        _ => Ok(()),
    }
}

fn parse(text: &str, within_day: Duration, now: Timestamp) -> Result<Timestamp, String> {
    if let Ok(length) = humantime::parse_duration(text) {
        let millis = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        return Ok(Timestamp::from_millis(now.millis().saturating_sub(millis)));
    }
    let today = now.millis() - now.millis() % DAY_MILLIS;
    let start_of_day = match text {
        "today" => Some(Timestamp::from_millis(today)),
        "yesterday" => Some(Timestamp::from_millis(today.saturating_sub(DAY_MILLIS))),
        _ => day(text),
    };
    let end_of_day = start_of_day.map(|day| day.plus(within_day));
    end_of_day.or_else(|| moment(text)).ok_or_else(|| {
        "write how long ago (\"2h\", \"7d\"), a day (\"2026-11-20\", \"yesterday\", \"today\") or a moment \
         (\"2026-11-20 12:44\", in UTC, or \"2026-11-20T12:00:00+01:00\")"
            .to_owned()
    })
}

/// The beginning of a day.
fn day(text: &str) -> Option<Timestamp> {
    let day = Date::parse(text, format_description!("[year]-[month]-[day]")).ok()?;
    let seconds = day.midnight().assume_utc().unix_timestamp();
    Some(Timestamp::from_millis(u64::try_from(seconds).ok()?.saturating_mul(1000)))
}

/// RFC 3339, and the same as times are printed: with a blank, without seconds, without a zone, which is UTC then.
fn moment(text: &str) -> Option<Timestamp> {
    let (day, rest) = text.split_once(['T', 't', ' '])?;
    let (time, zone) = rest.split_at(rest.find(['Z', 'z', '+', '-']).unwrap_or(rest.len()));
    let seconds = if time.len() == "12:44".len() { ":00" } else { "" };
    let zone = if zone.is_empty() { "Z" } else { zone };
    parse_time(&format!("{day}T{time}{seconds}{zone}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_none_is_refused_with_all_that_are() {
        assert_eq!(event("would_deny"), Ok("would_deny".into()));
        assert_eq!(event("started"), Ok("started".into()));
        let refused = event("would-deny").unwrap_err();
        assert!(
            refused.starts_with("it is one of denied, would_deny, exempted, tunnelled, gap, "),
            "{refused}"
        );
        assert!(refused.ends_with("; did you mean would_deny?"), "{refused}");
        let last = Reason::ALL.last().unwrap().word();
        assert!(word::<Reason>("foo").unwrap_err().ends_with(last));
    }

    #[test]
    fn an_end_is_printed_as_it_was_written() {
        for (until, text) in [
            ("2027-01-01T00:00:00Z", "2026-12-31"),
            ("2026-12-31T12:00:00Z", "2026-12-31 12:00"),
            ("1970-01-01T00:00:00Z", "1970-01-01 00:00"),
        ] {
            assert_eq!(print_until(parse_time(until).unwrap()), text);
        }
    }

    #[test]
    fn a_moment_is_written_in_several_ways() {
        let noon = parse_time("2026-11-20T12:00:00Z").unwrap();
        for (text, within_day, expected) in [
            ("2h", Duration::ZERO, "2026-11-20T10:00:00Z"),
            ("1d 30m", Duration::ZERO, "2026-11-19T11:30:00Z"),
            ("2026-11-20", Duration::ZERO, "2026-11-20T00:00:00Z"),
            ("2026-11-20", DAY, "2026-11-21T00:00:00Z"),
            ("2026-11-20T13:00:00.5+02:00", DAY, "2026-11-20T11:00:00.5Z"),
            ("today", Duration::ZERO, "2026-11-20T00:00:00Z"),
            ("today", DAY, "2026-11-21T00:00:00Z"),
            ("yesterday", Duration::ZERO, "2026-11-19T00:00:00Z"),
            ("yesterday", DAY, "2026-11-20T00:00:00Z"),
            ("2026-11-23 12:44", Duration::ZERO, "2026-11-23T12:44:00Z"),
            ("2026-11-23 12:44", DAY, "2026-11-23T12:44:00Z"),
            ("2026-11-23T12:44", Duration::ZERO, "2026-11-23T12:44:00Z"),
            ("2026-11-23 12:44:05", Duration::ZERO, "2026-11-23T12:44:05Z"),
            ("2026-11-23 12:44+02:00", Duration::ZERO, "2026-11-23T10:44:00Z"),
            ("2026-11-23 12:44:05.5Z", Duration::ZERO, "2026-11-23T12:44:05.5Z"),
            ("2026-11-23 12:44-00:30", Duration::ZERO, "2026-11-23T13:14:00Z"),
            ("9999y", Duration::ZERO, "1970-01-01T00:00:00Z"),
        ] {
            assert_eq!(parse(text, within_day, noon), Ok(parse_time(expected).unwrap()), "{text}");
        }
        for text in [
            "tomorrow",
            "2026-13-01",
            "12:00",
            "",
            "2026-11-23 24:44",
            "2026-11-23 1:44",
            "2026-11-23 ",
        ] {
            assert!(parse(text, DAY, noon).unwrap_err().contains("7d"), "{text}");
        }
    }
}
