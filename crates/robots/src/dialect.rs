//! How a robots.txt is read and matched, as data.
//!
//! Every published reading of the format is one row of the same knobs. No code in this module
//! checks for a dialect by name; it checks a knob, so that a new reading is a new row.

use std::fmt;

/// Declares an enumeration that has a word for each variant, so that settings and records can name
/// them: `as_str`, `WORDS`, `FromStr`, `Display`.
macro_rules! words {
    ($(
        $(#[$meta:meta])*
        pub enum $name:ident {
            $($(#[$variant_meta:meta])* $variant:ident = $word:literal),+ $(,)?
        }
    )+) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$variant_meta])* $variant),+ }

        impl $name {
            /// The word of each variant, in their order.
            pub const WORDS: &[&str] = &[$($word),+];

            /// The word of this variant.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::UnknownWord;

            fn from_str(text: &str) -> Result<Self, $crate::UnknownWord> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => Err($crate::UnknownWord::new(text, Self::WORDS)),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    )+};
}

pub(super) use words;

/// One row of knobs: how a robots.txt is read and matched.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Dialect {
    /// The part of a user-agent line that is compared with a crawler's product token.
    pub agent_name: AgentName,
    /// Whether a crawler without a group of its own follows the group of the longest prefix of its
    /// token that ends before `-` or `_` (D-FALLBACK).
    pub falls_back_to_shorter_token: bool,
    /// How several groups of one agent combine.
    pub own_groups: Several,
    /// How several `*` groups combine.
    pub default_groups: Several,
    /// Whether a blank line ends a group.
    pub blank_line_ends_group: bool,
    /// Whether a record that is neither rule nor user-agent line ends a run of user-agent lines
    /// (D-OTHERREC).
    pub other_record_ends_run: bool,
    /// How keys are recognised (D-KEYS).
    pub keys: Keys,
    /// Whether a line of two words without a colon is key and value (D-COLON).
    pub colon_may_be_missing: bool,
    /// Whether a partial byte order mark at the start of the file is skipped, too (D-BOM).
    pub skips_partial_bom: bool,
    /// The effect of control bytes on their line (D-OCTETS).
    pub control_bytes: ControlBytes,
    /// Which of several matching rules decides.
    pub precedence: Precedence,
    /// Whether `*` and a final `$` are special (RFC 9309 §2.2.3) or literal.
    pub wildcards: bool,
    /// How percent-encoding is normalised on both sides.
    pub percent: Percent,
    /// The part of a URL that is compared with path patterns.
    pub compared: Compared,
    /// Whether dot segments of the URL's path are removed before the comparison (D-DOTS).
    pub removes_dot_segments: bool,
    /// Whether `/robots.txt` itself is always allowed (RFC 9309 §2.2.2, D-SELF).
    pub robots_txt_always_allowed: bool,
    /// Whether `allow: …/index.htm*` also allows `…/` (D-INDEX).
    pub index_allows_directory: bool,
    /// How many bytes of a line count; the rest is ignored (D-LINE). `None`: all.
    pub line_limit: Option<usize>,
    /// How many bytes of the file are parsed (RFC 9309 §2.5, D-SIZE). A line that the limit
    /// truncates is dropped.
    pub size_limit: usize,
    /// In which spellings a path is compared with the rules.
    pub spellings: Spellings,
    /// Whether that limit applies to fetching only, and not to the matcher itself.
    pub size_limit_is_the_fetchers: bool,
}

impl Dialect {
    /// The dialect for a file of which `length` bytes are at hand, `cut` if it has more.
    ///
    /// The last byte of a file that is cut only tells whether the line before it is whole (D-SIZE):
    /// a size limit just below it makes the parser drop the line that was cut.
    pub fn for_length(&self, length: usize, cut: bool) -> Self {
        let at_hand = if cut { length.saturating_sub(1) } else { usize::MAX };
        Self { size_limit: self.size_limit.min(at_hand), ..self.clone() }
    }
}

/// The part of a user-agent line that is compared with a crawler's product token, ignoring case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AgentName {
    /// Its leading letters, `-` and `_` (RFC 9309 §2.2.1, D-AGENT).
    Letters,
    /// The same, and if the crawler's own token has digits or dots, those too (D-DIGITS).
    LettersOrAsTheToken,
    /// All of it up to a `/`.
    UpToSlash,
}

/// How several groups for one name combine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Several {
    /// They are one group (RFC 9309 §2.2.1).
    Merged,
    /// Only the first applies.
    First,
}

/// How keys are recognised, always ignoring case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Keys {
    /// `user-agent`, `allow`, `disallow` and nothing else.
    Exact,
    /// By prefix, including frequent misspellings.
    ByHead,
}

/// The effect of control bytes on their line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ControlBytes {
    /// A rule with one, TAB excepted, is dropped.
    DropRule,
    /// NUL ends the line; the others are blanks at its ends and ordinary within.
    EndLineAtNul,
}

/// Which of several matching rules decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precedence {
    /// The one with the most bytes; allow on a tie (RFC 9309 §2.2.2).
    MostBytes,
    /// The first in the file.
    FirstMatch,
}

/// How percent-encoding is normalised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Percent {
    /// By value on both sides, except that `/` and `?` in the path of the URL are not `%2F` and
    /// `%3F`, and that `%` without two hex digits is not `%25` (RFC 9309 §2.2.2, D-RESERVED,
    /// D-PCT).
    ByValue,
    /// By value on both sides, except that `/` is not `%2F`.
    ByValueExceptSlash,
    /// Rules get upper-case hex digits, and their bytes from 0x80 encoded; the URL stays as given.
    RulesOnly,
}

words! {
    /// In which spellings a path is compared with the rules.
    pub enum Spellings {
        /// As written (RFC 9309 §2.2.2).
        AsWritten = "as_written",
        /// Also as servers that normalise paths may read it ([`Reading`](super::Reading)):
        /// disallowed if any reading is.
        AllReadings = "all_readings",
    }
}

/// The part of a URL that is compared with path patterns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compared {
    /// The path and the query.
    PathAndQuery,
    /// The path.
    Path,
}

impl Dialect {
    /// RFC 9309, with the project's decisions where its text is silent.
    pub const RFC9309: Dialect = Dialect {
        agent_name: AgentName::LettersOrAsTheToken,
        falls_back_to_shorter_token: false,
        own_groups: Several::Merged,
        default_groups: Several::Merged,
        blank_line_ends_group: false,
        other_record_ends_run: false,
        keys: Keys::Exact,
        colon_may_be_missing: false,
        skips_partial_bom: false,
        control_bytes: ControlBytes::DropRule,
        precedence: Precedence::MostBytes,
        wildcards: true,
        percent: Percent::ByValue,
        compared: Compared::PathAndQuery,
        removes_dot_segments: true,
        robots_txt_always_allowed: true,
        index_allows_directory: false,
        line_limit: None,
        size_limit: 500 * 1024,
        spellings: Spellings::AsWritten,
        size_limit_is_the_fetchers: false,
    };

    /// Google's published matcher.
    pub const GOOGLE: Dialect = Dialect {
        agent_name: AgentName::Letters,
        keys: Keys::ByHead,
        colon_may_be_missing: true,
        skips_partial_bom: true,
        control_bytes: ControlBytes::EndLineAtNul,
        percent: Percent::RulesOnly,
        removes_dot_segments: false,
        robots_txt_always_allowed: false,
        index_allows_directory: true,
        // A buffer of eight times the longest URL of its day, less the NUL that ends a C string.
        line_limit: Some(2083 * 8 - 1),
        size_limit_is_the_fetchers: true,
        ..Dialect::RFC9309
    };

    /// Google's specification and matcher of 2019.
    pub const GOOGLE_2019: Dialect = Dialect {
        falls_back_to_shorter_token: true,
        other_record_ends_run: true,
        size_limit: 500_000,
        ..Dialect::GOOGLE
    };

    /// The first draft that became RFC 9309.
    pub const DRAFT_REP_00: Dialect = Dialect {
        agent_name: AgentName::Letters,
        default_groups: Several::First,
        ..Dialect::RFC9309
    };

    /// Koster's Internet-Draft of 1996.
    pub const KOSTER_1996: Dialect = Dialect {
        agent_name: AgentName::UpToSlash,
        own_groups: Several::First,
        default_groups: Several::First,
        blank_line_ends_group: true,
        precedence: Precedence::FirstMatch,
        wildcards: false,
        percent: Percent::ByValueExceptSlash,
        compared: Compared::Path,
        removes_dot_segments: false,
        ..Dialect::RFC9309
    };

    /// The matcher by itself, for a file that was given rather than fetched (D-SIZE).
    pub fn of_matcher(&self) -> Dialect {
        let size_limit = if self.size_limit_is_the_fetchers { usize::MAX } else { self.size_limit };
        Dialect { size_limit, ..self.clone() }
    }
}

/// A text that is the word of no variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownWord {
    text: String,
    words: &'static [&'static str],
}

impl UnknownWord {
    pub(super) fn new(text: &str, words: &'static [&'static str]) -> Self {
        Self { text: text.to_owned(), words }
    }
}

impl fmt::Display for UnknownWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\" is not one of ", self.text)?;
        for (place, word) in self.words.iter().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            write!(f, "{comma}\"{word}\"")?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownWord {}
