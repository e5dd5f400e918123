//! Enumerations that have a word for each variant, in settings, records and on the command line. The
//! words are written once, beside the variants.

use std::fmt::Write as _;

/// How alike a word must be to be suggested for another, from 0 to 1.
const ALIKE_MIN: f64 = 0.6;

/// Declares an enumeration whose variants have words: `as_str`, `WORDS`, `FromStr`, `Display`,
/// `Serialize` and `Deserialize`. Any other text is refused with a list of the words.
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

        $crate::types::words::words_of! { $name { $($variant = $word),+ } }
    )+};
}

/// Gives words to an enumeration that is declared elsewhere, as [`words!`] does.
macro_rules! words_of {
    ($name:ident { $($variant:ident = $word:literal),+ $(,)? }) => {
        impl $name {
            /// Every word, in the order of the documentation.
            pub const WORDS: &[&str] = &[$($word),+];

            /// The word of this variant.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => Err($crate::types::words::not_one_of(text, Self::WORDS)),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        $crate::types::words::serde_as_text!($name);
    };
}

/// Implements `Serialize` by `Display`, and `Deserialize` by `FromStr`.
macro_rules! serde_as_text {
    ($($name:ty),+ $(,)?) => {$(
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )+};
}

pub(crate) use {serde_as_text, words, words_of};

/// The message for a text that is not one of `words`, with the nearest of them.
pub fn not_one_of(text: &str, words: &[&str]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
    let mut message = format!("\"{text}\" is not one of {}", quoted.join(", "));
    if let Some(word) = nearest(&text.to_lowercase(), words.iter().copied()) {
        let _ = write!(message, "; did you mean \"{word}\"?");
    }
    message
}

/// The candidate that `text` was probably meant to be.
pub fn nearest<'a>(text: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .map(|candidate| (strsim::normalized_damerau_levenshtein(text, candidate), candidate))
        .filter(|(alike, _)| *alike >= ALIKE_MIN)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, candidate)| candidate)
}
