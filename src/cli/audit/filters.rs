//! The flags by which records are chosen: the same wherever records are read.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use serde::de::value::Error;
use serde::de::{DeserializeOwned, Deserializer, Error as _, Visitor};
use serde::forward_to_deserialize_any;

use super::time_arg;
use crate::audit::read::Filter;
use crate::audit::read::filter::{Client, Place, Profile, Rule};
use crate::audit::{Event, Notice, Reason};
use crate::cli::known_words::KnownWords;
use crate::config::ProfileName;
use crate::types::origin::host::Glob;
use crate::types::timestamp::Timestamp;
use crate::types::words::nearest;

/// Each may be given several times: any of the values will do. Of different flags, all must hold.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Which records")]
pub struct FilterFlags {
    /// From then on: 2h, 7d (ago), yesterday, 2026-11-20, '2026-11-20 12:44' (UTC), 2026-11-20T12:00:00+01:00
    #[arg(long, value_name = "TIME", value_parser = time_arg::since)]
    since: Option<Timestamp>,
    /// Until then; of a day, to its end (today and yesterday, too)
    #[arg(long, value_name = "TIME", value_parser = time_arg::until)]
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
    /// Who asked: an address, a block (10.0.0.0/8), or a name
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

fn glob(text: &str) -> Result<Glob, String> {
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

fn client(text: &str) -> Result<Client, String> {
    match text.contains('/').then(|| text.parse::<ipnet::IpNet>()) {
        Some(Err(_)) => Err("write a block as 10.0.0.0/8".into()),
        _ => Ok(Client::parse(text)),
    }
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
}
