//! The one table of knobs on which the published texts about robots.txt differ.
//!
//! A profile is a row of plain values: how a file is read (its dialect), and what follows from the
//! result of its fetch. No other code checks a profile's name.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use super::access::{Cause, Freshness, NetworkFailure};
use crate::robots::{Dialect, Spellings};
use crate::types::words::{words, words_of};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The version of this table, named in records: a knob that changes its meaning needs another
/// version. Since 2, `conservative` takes every 4xx but 404 and 410 as access denied, and judges
/// all readings of a path.
pub const VERSION: u32 = 2;

/// How a robots.txt is fetched and read, and what follows from each result.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    pub name: &'static str,
    pub dialect: Dialect,
    pub meanings: Meanings,
    /// Redirects that a fetch follows (RFC 9309 §2.3.1.2: at least five).
    pub redirects_max: u8,
    /// Whether a refresh may send `If-None-Match` and `If-Modified-Since`.
    pub conditional: bool,
    pub lifetimes: Lifetimes,
    pub outage: Outage,
    pub pace: PaceKnobs,
}

/// Which records for the pace of a crawler are obeyed. None is of RFC 9309; §2.2.4 permits others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaceKnobs {
    pub crawl_delay: Obedience,
    pub request_rate: Obedience,
    pub visit_time: Obedience,
}

/// What the statuses of a robots.txt mean (RFC 9309 §2.3.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meanings {
    /// 401 and 403.
    pub unauthorized: Meaning,
    /// 404 and 410.
    pub not_found: Meaning,
    /// 429.
    pub too_many_requests: Meaning,
    pub other_4xx: Meaning,
    /// 5xx, and network errors of every kind.
    pub server_error: Meaning,
    /// 1xx, 206 and unsolicited 304, 3xx that cannot be followed, 600 and above.
    pub other_status: Meaning,
    pub too_many_redirects: Meaning,
    pub redirect_loop: Meaning,
    pub redirect_without_location: Meaning,
}

/// How long a result may be used before it is fetched again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// Without freshness of its own.
    pub default: Duration,
    /// A site may shorten the lifetime to this minimum only: less would cost it a fetch per
    /// request.
    pub floor: Duration,
    /// The most that a site may ask for.
    pub ceiling: Duration,
    /// Whether `Expires` counts without `max-age`.
    pub obeys_expires: bool,
    /// Of a result that says that there is no file.
    pub unavailable: Duration,
    /// After a 4xx, a good copy may be used up to this age (draft-rep-00 §2.3.1.3); zero: it is
    /// dropped.
    pub copy_after_unavailable: Duration,
}

/// What applies while the file is unreachable, and when to retry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    /// From the first failure, disallow everything for this long, whatever else is set.
    pub pause: Duration,
    pub copy: OutageCopy,
    /// What applies without a copy.
    pub without_copy: Access,
    /// What applies once the outage has been observed for `after_time`.
    pub after: Access,
    /// How long the outage must have been observed before `after` applies.
    pub after_time: Duration,
    /// Whether `after` also ends the use of a copy.
    pub after_drops_copy: bool,
    /// Whether `after = Allow` requires that the site's pages respond.
    pub after_needs_site_up: bool,
    /// The wait before the first retry; it doubles.
    pub retry_min: Duration,
    /// The longest wait before a retry.
    pub retry_max: Duration,
}

const RFC9309: Profile = Profile {
    name: "rfc9309",
    dialect: Dialect::RFC9309,
    meanings: Meanings {
        unauthorized: Meaning::Unavailable,
        not_found: Meaning::Unavailable,
        // §2.3.1.3 leaves it open (MAY access); a throttling site is not an open one.
        too_many_requests: Meaning::Unreachable,
        other_4xx: Meaning::Unavailable,
        server_error: Meaning::Unreachable,
        other_status: Meaning::Unreachable,
        // §2.3.1.2: more than five MAY be taken as unavailable, and is.
        too_many_redirects: Meaning::Unavailable,
        redirect_loop: Meaning::Unreachable,
        redirect_without_location: Meaning::Unreachable,
    },
    redirects_max: 5,
    conditional: true,
    lifetimes: Lifetimes {
        // §2.4: SHOULD NOT use the cached version for more than 24 hours.
        default: DAY,
        floor: Duration::from_secs(5 * MINUTE.as_secs()),
        ceiling: DAY,
        obeys_expires: true,
        unavailable: DAY,
        copy_after_unavailable: Duration::ZERO,
    },
    outage: Outage {
        pause: Duration::ZERO,
        // §2.3.1.4: MAY continue to use a cached copy.
        copy: OutageCopy::Use,
        // §2.3.1.4: MUST assume complete disallow.
        without_copy: Access::Disallow,
        // §2.3.1.4: after, for example, 30 days MAY assume unavailable, or use a cached copy.
        after: Access::Allow,
        after_time: Duration::from_secs(30 * DAY.as_secs()),
        after_drops_copy: false,
        after_needs_site_up: false,
        retry_min: Duration::from_secs(30 * SECOND.as_secs()),
        retry_max: Duration::from_secs(10 * MINUTE.as_secs()),
    },
    pace: PaceKnobs {
        crawl_delay: Obedience::Obey,
        request_rate: Obedience::Obey,
        // A crawl of a site that opens four hours a day would not end.
        visit_time: Obedience::Ignore,
    },
};

const GOOGLE: Profile = Profile {
    name: "google",
    dialect: Dialect::GOOGLE,
    meanings: Meanings { redirect_loop: Meaning::Unavailable, ..RFC9309.meanings },
    conditional: false,
    lifetimes: Lifetimes {
        // "may increase or decrease the cache lifetime": the increase is bounded.
        ceiling: Duration::from_secs(30 * DAY.as_secs()),
        obeys_expires: false,
        ..RFC9309.lifetimes
    },
    // "12 hours stop, 30 days the last good version, then as the site is generally available."
    outage: Outage {
        pause: Duration::from_secs(12 * HOUR.as_secs()),
        without_copy: Access::Allow,
        after_drops_copy: true,
        after_needs_site_up: true,
        ..RFC9309.outage
    },
    // "Fields like crawl-delay aren't supported."
    pace: PaceKnobs {
        crawl_delay: Obedience::Ignore,
        request_rate: Obedience::Ignore,
        ..RFC9309.pace
    },
    ..RFC9309
};

const GOOGLE_2019: Profile = Profile {
    name: "google-2019",
    dialect: Dialect::GOOGLE_2019,
    meanings: Meanings { too_many_requests: Meaning::Unavailable, ..GOOGLE.meanings },
    conditional: false,
    lifetimes: GOOGLE.lifetimes,
    // "until another status comes"; a copy "may be cached longer where refreshing is not possible".
    outage: Outage { after: Access::Disallow, ..RFC9309.outage },
    pace: GOOGLE.pace,
    ..RFC9309
};

const DRAFT_REP_00: Profile = Profile {
    name: "draft-rep-00",
    dialect: Dialect::DRAFT_REP_00,
    meanings: Meanings { too_many_requests: Meaning::Unavailable, ..RFC9309.meanings },
    // §2.3.1.3: MAY use a cached version for up to 24 hours.
    lifetimes: Lifetimes { copy_after_unavailable: DAY, ..RFC9309.lifetimes },
    ..RFC9309
};

const KOSTER_1996: Profile = Profile {
    name: "koster-1996",
    dialect: Dialect::KOSTER_1996,
    // §3.1: 401 and 403 restrict completely; a temporary failure defers visits.
    meanings: Meanings {
        unauthorized: Meaning::Forbidden,
        other_4xx: Meaning::Unreachable,
        too_many_redirects: Meaning::Unreachable,
        ..RFC9309.meanings
    },
    // §3.4: "Expires", else 7 days.
    lifetimes: Lifetimes {
        default: Duration::from_secs(7 * DAY.as_secs()),
        ceiling: Duration::from_secs(30 * DAY.as_secs()),
        ..RFC9309.lifetimes
    },
    outage: Outage { copy: OutageCopy::Disallow, after: Access::Disallow, ..RFC9309.outage },
    ..RFC9309
};

/// Of no published text: for operators who prefer to ask for permission.
const CONSERVATIVE: Profile = Profile {
    name: "conservative",
    dialect: Dialect { spellings: Spellings::AllReadings, ..Dialect::RFC9309 },
    meanings: Meanings {
        unauthorized: Meaning::Forbidden,
        other_4xx: Meaning::Forbidden,
        ..RFC9309.meanings
    },
    outage: Outage { after: Access::Disallow, ..RFC9309.outage },
    pace: PaceKnobs { visit_time: Obedience::Obey, ..RFC9309.pace },
    ..RFC9309
};

/// Of no published text: the practice of web archives.
const ARCHIVAL: Profile = Profile {
    name: "archival",
    outage: Outage { without_copy: Access::Allow, ..RFC9309.outage },
    ..RFC9309
};

/// A knob by the name that records give it: how its value is written, and how it is set.
type Knob = (&'static str, fn(&Profile) -> String, fn(&mut Profile, &str) -> Result<(), String>);

/// A knob whose value is written by `Display` and read by `FromStr`.
macro_rules! knob {
    ($name:literal, $($field:ident).+) => {
        ($name, |it| it.$($field).+.to_string(), |it, text| set(&mut it.$($field).+, text))
    };
}

/// A length of time, in milliseconds.
macro_rules! knob_millis {
    ($name:literal, $($field:ident).+) => {
        ($name, |it| format!("{}ms", it.$($field).+.as_millis()), |it, text| {
            let mut millis = 0_u64;
            set(&mut millis, text.strip_suffix("ms").unwrap_or(text))?;
            it.$($field).+ = Duration::from_millis(millis);
            Ok(())
        })
    };
}

/// The knobs that a record repeats where they differ from the row. Those named `outage.…` and
/// `robots.knobs.…` were settings once: records of then are decided again.
const KNOBS: [Knob; 15] = [
    knob!("outage.after", outage.after),
    knob_millis!("outage.after_time", outage.after_time),
    knob!("outage.copy", outage.copy),
    knob_millis!("outage.retry_max", outage.retry_max),
    knob_millis!("outage.retry_min", outage.retry_min),
    knob!("robots.knobs.conditional", conditional),
    knob!("robots.knobs.crawl_delay", pace.crawl_delay),
    knob!("robots.knobs.request_rate", pace.request_rate),
    knob!("robots.knobs.status_401_403", meanings.unauthorized),
    knob!("robots.knobs.status_429", meanings.too_many_requests),
    knob!("robots.knobs.status_other_4xx", meanings.other_4xx),
    knob!("robots.knobs.visit_time", pace.visit_time),
    knob!("robots.max_redirects", redirects_max),
    (
        "robots.max_size",
        |it| format!("{}B", it.dialect.size_limit),
        |it, text| set(&mut it.dialect.size_limit, text.strip_suffix('B').unwrap_or(text)),
    ),
    knob!("robots.spellings", dialect.spellings),
];

fn set<T: FromStr<Err: Display>>(place: &mut T, text: &str) -> Result<(), String> {
    *place = text.parse().map_err(|problem: T::Err| problem.to_string())?;
    Ok(())
}

impl ProfileName {
    /// The row of that name.
    pub fn row(self) -> Profile {
        match self {
            Self::Rfc9309 => RFC9309,
            Self::Google => GOOGLE,
            Self::Google2019 => GOOGLE_2019,
            Self::DraftRep00 => DRAFT_REP_00,
            Self::Koster1996 => KOSTER_1996,
            Self::Conservative => CONSERVATIVE,
            Self::Archival => ARCHIVAL,
        }
    }

    /// The row of that name as `version` of the table had it; the latest, where the version is newer.
    pub fn row_in(self, version: u32) -> Profile {
        let mut row = self.row();
        if version < 2 && self == Self::Conservative {
            row.meanings.other_4xx = RFC9309.meanings.other_4xx;
            row.dialect = RFC9309.dialect;
        }
        row
    }
}

impl Profile {
    /// Every profile.
    pub const ALL: [Self; 7] =
        [RFC9309, GOOGLE, GOOGLE_2019, DRAFT_REP_00, KOSTER_1996, CONSERVATIVE, ARCHIVAL];

    /// The profile with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.name == name)
    }

    /// What `cause` means under this profile.
    pub fn meaning(&self, cause: &Cause) -> Meaning {
        let meanings = &self.meanings;
        match cause {
            Cause::Status { code, .. } => match code {
                401 | 403 => meanings.unauthorized,
                404 | 410 => meanings.not_found,
                429 => meanings.too_many_requests,
                400..=499 => meanings.other_4xx,
                500..=599 => meanings.server_error,
                _ => meanings.other_status,
            },
            Cause::TooManyRedirects { .. } => meanings.too_many_redirects,
            Cause::RedirectLoop => meanings.redirect_loop,
            Cause::RedirectWithoutLocation { .. } => meanings.redirect_without_location,
            // No profile reads what a parent proxy does as a word of the origin.
            Cause::Failed { failure: NetworkFailure::Parent, .. } => Meaning::Unreachable,
            Cause::Failed { .. } => meanings.server_error,
        }
    }
}

impl Default for Profile {
    fn default() -> Self {
        RFC9309
    }
}

impl Lifetimes {
    /// How long a file with freshness `freshness` may be used. RFC 9111 §5.3: `max-age` takes precedence
    /// over `Expires`.
    pub fn of_copy(&self, freshness: &Freshness) -> Duration {
        let expires_in = freshness.expires_in.filter(|_| self.obeys_expires);
        let wished = if freshness.no_cache {
            Some(Duration::ZERO)
        } else {
            freshness.max_age.or(expires_in)
        };
        wished.unwrap_or(self.default).min(self.ceiling).max(self.floor)
    }
}

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
        /// RFC 9309 §2.3.1.4: the file is unreachable; see [`Outage`](Outage).
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

impl Profile {
    /// The knobs by which the profile differs from the row of its name. Records repeat them, so that
    /// a decision can be replayed without the configuration.
    pub fn changes(&self) -> BTreeMap<String, String> {
        let Some(row) = Self::named(self.name).filter(|row| row != self) else {
            return BTreeMap::new();
        };
        let differs = |(name, print, _): &Knob| {
            let ours = print(self);
            (ours != print(&row)).then(|| ((*name).to_owned(), ours))
        };
        KNOBS.iter().filter_map(differs).collect()
    }

    /// The profile that a record names: the row `name` of that `version` of the table, with these
    /// [`Profile::changes`].
    ///
    /// # Errors
    ///
    /// What makes no profile, by its name.
    pub fn recorded(
        name: &str,
        version: u32,
        changes: &BTreeMap<String, String>,
    ) -> Result<Self, String> {
        let mut profile = name.parse::<ProfileName>()?.row_in(version);
        for (key, text) in changes {
            let knob = KNOBS.iter().find(|(name, ..)| name == key);
            let (_, _, set) = knob.ok_or_else(|| format!("{key}: there is no such knob"))?;
            set(&mut profile, text).map_err(|problem| format!("{key}: {problem}"))?;
        }
        Ok(profile)
    }
}

impl Meanings {
    /// The meanings of the row as one word, a letter each in the order of the table. Profiles with
    /// the same word observe the same outages.
    pub fn word(&self) -> String {
        let Self {
            unauthorized,
            not_found,
            too_many_requests,
            other_4xx,
            server_error,
            other_status,
            too_many_redirects,
            redirect_loop,
            redirect_without_location,
        } = self;
        let row = [
            unauthorized,
            not_found,
            too_many_requests,
            other_4xx,
            server_error,
            other_status,
            too_many_redirects,
            redirect_loop,
            redirect_without_location,
        ];
        row.into_iter().filter_map(|it| it.as_str().chars().next()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(name: &str, version: u32, changes: &[(&str, &str)]) -> Result<Profile, String> {
        let changes = changes.iter().map(|(key, text)| (key.to_string(), text.to_string()));
        Profile::recorded(name, version, &changes.collect())
    }

    #[test]
    fn every_profile_is_made_again_from_its_name_and_its_changes() {
        let changes = [
            ("outage.after", "disallow"),
            ("outage.after_time", "3600000ms"),
            ("outage.copy", "disallow"),
            ("outage.retry_max", "7200000ms"),
            ("outage.retry_min", "1500ms"),
            ("robots.knobs.conditional", "false"),
            ("robots.knobs.crawl_delay", "ignore"),
            ("robots.knobs.request_rate", "ignore"),
            ("robots.knobs.status_401_403", "disallow"),
            ("robots.knobs.status_429", "allow"),
            ("robots.knobs.status_other_4xx", "unreachable"),
            ("robots.knobs.visit_time", "obey"),
            ("robots.max_redirects", "7"),
            ("robots.max_size", "1048577B"),
            ("robots.spellings", "all_readings"),
        ];
        let changed = recorded("rfc9309", VERSION, &changes).unwrap();
        let again = changed.changes();
        let again: Vec<_> = again.iter().map(|(key, text)| (&**key, &**text)).collect();
        assert_eq!(again, changes);
        for row in Profile::ALL {
            assert_eq!(Profile::recorded(row.name, VERSION, &row.changes()), Ok(row));
        }
    }

    #[test]
    fn a_record_of_an_older_version_names_the_row_that_it_was_made_by() {
        let meaning = |version, changes: &[(&str, &str)]| {
            recorded("conservative", version, changes).unwrap().meanings.other_4xx
        };
        let shut = [("robots.knobs.status_other_4xx", "disallow")];
        assert_eq!(
            (meaning(1, &[]), meaning(1, &shut)),
            (Meaning::Unavailable, Meaning::Forbidden)
        );
        assert_eq!(
            (meaning(2, &[]), meaning(VERSION + 1, &[])),
            (Meaning::Forbidden, Meaning::Forbidden)
        );
        assert_eq!(recorded("google", 1, &[]), Ok(Profile::named("google").unwrap()));
    }

    #[test]
    fn what_makes_no_profile_is_refused_by_its_name() {
        for (name, changes, expected) in [
            ("gogle", &[][..], "\"gogle\" is not one of"),
            (
                "google",
                &[("robots.knobs.status_500", "allow")],
                "robots.knobs.status_500: there is no such knob",
            ),
            ("google", &[("outage.after", "perhaps")], "outage.after: \"perhaps\" is not one of"),
            ("google", &[("outage.after_time", "1d")], "outage.after_time: "),
            ("google", &[("listen.admin", "off")], "listen.admin: there is no such knob"),
        ] {
            let refusal = recorded(name, VERSION, changes).unwrap_err();
            assert!(refusal.starts_with(expected), "{refusal}");
        }
    }

    #[test]
    fn every_profile_has_a_name_here_and_every_name_a_profile() {
        let named: Vec<_> = Profile::ALL.iter().map(|profile| profile.name).collect();
        assert_eq!(ProfileName::WORDS, named);
        for name in ProfileName::WORDS {
            assert_eq!(Profile::named(name), Some(name.parse::<ProfileName>().unwrap().row()));
        }
    }
}
