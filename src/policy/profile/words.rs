//! The values of a profile's knobs that are one word out of a few, as settings and records spell them.

use crate::robots::Spellings;
use crate::types::words::{words, words_of};

words! {
    /// The name of a row of the table: a dialect of robots.txt.
    pub enum ProfileName {
        Rfc9309 = "rfc9309",
        Google = "google",
        Google2019 = "google-2019",
        DraftRep00 = "draft-rep-00",
        Koster1996 = "koster-1996",
        Conservative = "conservative",
        Archival = "archival",
    }

    /// What a fetch result without a robots.txt means.
    pub enum Meaning {
        /// RFC 9309 §2.3.1.3: there is no file, everything is allowed.
        Unavailable = "allow",
        /// Access to the file is denied, which disallows everything.
        Forbidden = "disallow",
        /// RFC 9309 §2.3.1.4: the file is unreachable; see [`Outage`](super::Outage).
        Unreachable = "unreachable",
    }

    /// Whether the last good copy is used while the file is unreachable (RFC 9309 §2.3.1.4).
    pub enum OutageCopy {
        /// Its rules apply.
        Use = "use",
        /// Everything is disallowed until robots.txt is reachable again: the strictest reading.
        Disallow = "disallow",
    }

    /// Whether a record that no standard defines is obeyed.
    pub enum Obedience {
        Obey = "obey",
        Ignore = "ignore",
    }

    /// Whether everything is allowed or nothing.
    pub enum Access {
        Allow = "allow",
        Disallow = "disallow",
    }
}

words_of! { Spellings { AsWritten = "as_written", AllReadings = "all_readings" } }
