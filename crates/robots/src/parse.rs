//! Parses bytes to a [`Parsed`] file. Every input has a result (RFC 9309 §2.3.1.5: "crawlers MUST … use
//! the parseable rules"); lines that were not understood are noted.

use super::arena::Arena;
use super::dialect::{Dialect, Spellings};
use super::group::Parsed;
use super::lines::{Key, Line, lines};
use super::notes::{IgnoredBecause, Notes};
use super::pace::Paces;
use super::pattern::Pattern;
use super::rule::{Directive, StoredRule};
use super::ruleset::Ruleset;
use super::select::Namings;

/// Parses `body`.
pub(super) fn parse(body: &[u8], dialect: &Dialect) -> Parsed {
    let mut parser = Parser {
        dialect,
        place: Place::OutsideGroups,
        after_agent: false,
        agents_from: 0,
        arena: Arena::default(),
        namings: Namings::default(),
        rules: Ruleset::default(),
        notes: Notes::default(),
        paces: Paces::default(),
    };
    for (number, bytes) in lines(body, dialect) {
        parser.line(number, bytes);
    }
    parser.finish()
}

struct Parser<'d> {
    dialect: &'d Dialect,
    place: Place,
    /// The first line of the last run of user-agent lines.
    agents_from: u32,
    /// Whether the previous record was a user-agent line, so that another one belongs to the same
    /// run.
    after_agent: bool,
    arena: Arena,
    namings: Namings,
    rules: Ruleset,
    notes: Notes,
    paces: Paces,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    OutsideGroups,
    /// In the run of user-agent lines that begins a group.
    AgentRun,
    /// After that run.
    Rules,
}

impl Parser<'_> {
    fn line(&mut self, number: u32, bytes: &[u8]) {
        match Line::read(bytes, self.dialect) {
            Line::Blank if self.dialect.blank_line_ends_group => self.place = Place::OutsideGroups,
            Line::Blank | Line::Comment => {}
            Line::NoRecord => self.ignore(number, bytes, IgnoredBecause::NoRecord),
            Line::Record { key: Key::UserAgent, value } => self.user_agent(number, value),
            Line::Record { key: Key::Allow, value } => {
                self.rule(number, bytes, Directive::Allow, value)
            }
            Line::Record { key: Key::Disallow, value } => {
                self.rule(number, bytes, Directive::Disallow, value)
            }
            Line::Record { key: Key::Other(key), value } => self.other(number, bytes, key, value),
        }
    }

    fn user_agent(&mut self, number: u32, value: &[u8]) {
        let begins_group = self.place != Place::AgentRun;
        if begins_group {
            self.rules.begin_group();
            self.place = Place::AgentRun;
        }
        if begins_group || !self.after_agent {
            self.agents_from = number;
        }
        self.after_agent = true;
        self.namings.add(value, number, self.rules.last_group(), self.dialect);
    }

    fn rule(&mut self, line: u32, bytes: &[u8], directive: Directive, value: &[u8]) {
        if self.place == Place::OutsideGroups {
            return self.ignore(line, bytes, IgnoredBecause::OutsideGroups);
        }
        self.place = Place::Rules;
        self.after_agent = false;
        // RFC 9309 §2.2: `empty-pattern`. It matches nothing, but it is a rule (D-EMPTY).
        if value.is_empty() {
            return;
        }
        let written = self.arena.push(value);
        match Pattern::compile(value, self.dialect, &mut self.arena) {
            Some(pattern) => {
                self.rules.push(StoredRule { pattern, written, line, directive }, &self.arena)
            }
            None => self.ignore(line, bytes, IgnoredBecause::MatchesNothing),
        }
        if directive == Directive::Allow && self.dialect.index_allows_directory {
            self.allow_directory(line, value);
        }
    }

    /// `allow: …/index.htm*` also allows exactly `…/` (D-INDEX).
    fn allow_directory(&mut self, line: u32, value: &[u8]) {
        let Some(slash) = value.iter().rposition(|&byte| byte == b'/') else { return };
        if !value[slash..].starts_with(b"/index.htm") {
            return;
        }
        let written = self.arena.push(value);
        let directory = [&value[..=slash], b"$"].concat();
        if let Some(pattern) = Pattern::compile(&directory, self.dialect, &mut self.arena) {
            self.rules.push(
                StoredRule { pattern, written, line, directive: Directive::Allow },
                &self.arena,
            );
        }
    }

    fn other(&mut self, number: u32, bytes: &[u8], key: &[u8], value: &[u8]) {
        if self.dialect.other_record_ends_run && self.place == Place::AgentRun {
            self.place = Place::Rules;
        }
        let agents_from = (self.place != Place::OutsideGroups).then_some(self.agents_from);
        self.after_agent = false;
        if !self.paces.add(number, agents_from, key, value) {
            self.ignore(number, bytes, IgnoredBecause::BadValue);
        } else if !self.notes.record(number, agents_from, key, value, &mut self.arena) {
            self.ignore(number, bytes, IgnoredBecause::UnknownKey);
        }
    }

    fn ignore(&mut self, number: u32, bytes: &[u8], because: IgnoredBecause) {
        self.notes.ignore(number, bytes, because, &mut self.arena);
    }

    fn finish(mut self) -> Parsed {
        self.namings.sort();
        self.paces.finish(self.namings.groups(self.dialect));
        self.namings.dedup();
        self.rules.sort(self.dialect.precedence, &self.arena);
        let folded = match self.dialect.spellings {
            Spellings::AsWritten => None,
            Spellings::AllReadings => {
                self.rules.folded(self.dialect, &mut self.arena).map(Box::new)
            }
        };
        self.notes.shrink_to_fit();
        self.arena.shrink_to_fit();
        Parsed {
            dialect: self.dialect.clone(),
            arena: self.arena,
            namings: self.namings,
            rules: self.rules,
            folded,
            notes: self.notes,
            paces: self.paces,
        }
    }
}
