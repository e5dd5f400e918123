//! Settings that are one word out of a few. Each word is spelt once, here, and a word that is none
//! of them is refused with all of them named.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::complain::nearest;

/// Declares an enumeration together with its spelling in the file.
macro_rules! words {
    ($($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $word:literal),+ $(,)? })+) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$variant_meta])* $variant),+ }

        impl $name {
            /// Every word, in the order of the documentation.
            pub const WORDS: &[&str] = &[$($word),+];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(not_one_of(text, Self::WORDS)),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }
    )+};
}

words! {
    /// Which changes of a robots.txt have a notice.
    Changes {
        /// Those that mean something.
        Meaning = "meaning",
        /// Those of the text alone, too.
        All = "all",
        /// None.
        Off = "off",
    }

    /// When records are brought to the disk itself.
    Sync {
        /// Before the answer.
        Each = "each",
        /// At most 100 ms after it.
        Batch = "batch",
        /// When the system likes.
        None = "none",
    }

    /// What becomes of requests while records cannot be written.
    OnFailure {
        /// Denials go on without a record, and so does what is forwarded.
        Deny = "deny",
        /// Nothing is served.
        Stop = "stop",
    }

    /// Whether a denial is carried out.
    Mode {
        /// What is disallowed is refused.
        Enforce = "enforce",
        /// What is disallowed is forwarded and recorded as `would_deny`.
        Observe = "observe",
    }

    /// In which spellings a path is compared with the rules.
    Spellings {
        /// As it is written (RFC 9309 §2.2.2).
        AsWritten = "as_written",
        /// Also as servers that mend paths may read it.
        AllReadings = "all_readings",
    }

    /// How HTTPS is treated.
    HttpsMode {
        /// TLS is terminated here, and each request is judged.
        Intercept = "intercept",
        /// Whole hosts are judged, and tunnelled or refused.
        Classify = "classify",
    }

    /// What becomes of a host of which some paths are disallowed, when paths cannot be seen.
    Mixed {
        Refuse = "refuse",
        Tunnel = "tunnel",
    }

    /// The name of a dialect of robots.txt.
    ProfileName {
        Rfc9309 = "rfc9309",
        Google = "google",
        Google2019 = "google-2019",
        DraftRep00 = "draft-rep-00",
        Koster1996 = "koster-1996",
        Conservative = "conservative",
        Archival = "archival",
    }

    /// What the lack of a robots.txt means.
    Meaning {
        /// There are no rules: all is allowed (RFC 9309 §2.3.1.3).
        Allow = "allow",
        /// The site is closed to us.
        Disallow = "disallow",
        /// It may be there and cannot be had now (RFC 9309 §2.3.1.4).
        Unreachable = "unreachable",
    }

    /// What the last good copy is worth while its origin's robots.txt is unreachable.
    OutageCopy {
        /// Its rules go on applying (RFC 9309 §2.3.1.4).
        Use = "use",
        /// Nothing is allowed until robots.txt is back: the strictest reading.
        Disallow = "disallow",
    }

    /// Whether all may be fetched or nothing.
    Access {
        Allow = "allow",
        Disallow = "disallow",
    }

    /// Which certificate authorities are trusted towards origins.
    Roots {
        /// Those of the operating system.
        System = "system",
        /// Mozilla's, as compiled in.
        Bundled = "bundled",
    }

    /// How log lines are written to standard error.
    LogFormat {
        Text = "text",
        Json = "json",
    }

    /// The least important line that is still logged.
    LogLevel {
        Error = "error",
        Warn = "warn",
        Info = "info",
        /// As `info`, and a line for each request.
        Access = "access",
        Debug = "debug",
        Trace = "trace",
    }
}

fn not_one_of(text: &str, words: &[&str]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
    let guess = match nearest(&text.to_lowercase(), words.iter().copied()) {
        Some(word) => format!("; did you mean \"{word}\"?"),
        None => String::new(),
    };
    format!("\"{text}\" is not one of {}{guess}", quoted.join(", "))
}
