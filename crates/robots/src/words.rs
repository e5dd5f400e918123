//! Enumerations that have a word for each variant, so that settings and records can name them.

use std::fmt;

/// Declares such an enumeration: `as_str`, `WORDS`, `FromStr`, `Display`.
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
