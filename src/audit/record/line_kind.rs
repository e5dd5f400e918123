//! The kind of a line, by which every reader goes.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use super::event::Event;
use super::meta_record::Notice;

/// The kind of a line: what its member `event` says, and nothing else of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    /// A record.
    Record(Event),
    /// A notice, by its word in [`Notice::WORDS`].
    Notice(&'static str),
    /// One that a later version writes.
    Unknown,
}

impl LineKind {
    /// The kind of `line`, without its line end; `None`: it is no object, or has no `event`. The line is parsed up to
    /// that member: what texts and objects in it contain is not looked at.
    pub fn of(line: &[u8]) -> Option<Self> {
        let mut found = None;
        let search = EventSearch { found: &mut found };
        // It stops at the member, which the parser takes for an error.
        let _ = serde_json::Deserializer::from_slice(line).deserialize_map(search);
        found
    }

    /// The kind that `word` names.
    fn named(word: &str) -> Self {
        let event = Event::ALL.into_iter().find(|event| event.word() == word);
        let notice = || Notice::WORDS.iter().find(|notice| **notice == word);
        match event {
            Some(event) => Self::Record(event),
            None => notice().map_or(Self::Unknown, |word| Self::Notice(word)),
        }
    }
}

/// Reads an object up to its member `event`.
struct EventSearch<'a> {
    found: &'a mut Option<LineKind>,
}

impl<'de> Visitor<'de> for EventSearch<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a line of the log")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut members: M) -> Result<(), M::Error> {
        while let Some(name) = members.next_key()? {
            match name {
                MemberName::Event => {
                    *self.found = Some(members.next_value()?);
                    return Ok(());
                }
                MemberName::Other => members.next_value::<IgnoredAny>()?,
            };
        }
        Ok(())
    }
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum MemberName {
    Event,
    #[serde(other)]
    Other,
}

impl<'de> Deserialize<'de> for LineKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Word;

        impl Visitor<'_> for Word {
            type Value = LineKind;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an event")
            }

            fn visit_str<E>(self, word: &str) -> Result<LineKind, E> {
                Ok(LineKind::named(word))
            }
        }

        deserializer.deserialize_str(Word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_a_line_is_its_event_wherever_its_texts_look_like_another() {
        for event in Event::ALL {
            assert_eq!(serde_json::to_value(event).unwrap(), event.word());
            let line = format!("{{\"agent\":null,\"event\":\"{}\",\"id\":\"x\"}}", event.word());
            assert_eq!(LineKind::of(line.as_bytes()), Some(LineKind::Record(event)));
        }
        for word in Notice::WORDS {
            let line = format!("{{\"event\":\"{word}\"}}");
            assert_eq!(LineKind::of(line.as_bytes()), Some(LineKind::Notice(word)), "{word}");
        }
        for (line, kind) in [
            (
                r#"{"agent":"a","event":"paced","id":"x","reason":"y"}"#,
                Some(LineKind::Notice("paced")),
            ),
            (
                r#"{"changes":[{"new":[{"by":"a","reason":"b","event":"denied"}]}],"event":"settings"}"#,
                Some(LineKind::Notice("settings")),
            ),
            (
                r#"{"agent":"\",\"event\":\"gap\"","event":"denied"}"#,
                Some(LineKind::Record(Event::Denied)),
            ),
            (r#"{"event":"den\u0069ed"}"#, Some(LineKind::Record(Event::Denied))),
            (
                r#"{ "x": {"event":"gap"}, "event" : "denied" }"#,
                Some(LineKind::Record(Event::Denied)),
            ),
            (r#"{"event":"fetched","origin":"https://a.example"}"#, Some(LineKind::Unknown)),
            (r#"{"event":"Denied"}"#, Some(LineKind::Unknown)),
            (r#"{"client":{"event":"denied"}}"#, None),
            (r#"{"event":7}"#, None),
            (r#"{"event":null,"event":"denied"}"#, None),
            (r#"["event","denied"]"#, None),
            (r#"{"agent":"\u00"#, None),
            ("", None),
        ] {
            assert_eq!(LineKind::of(line.as_bytes()), kind, "{line}");
        }
    }
}
