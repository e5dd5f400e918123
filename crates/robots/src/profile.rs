//! The one table of knobs on which the published texts about robots.txt differ.
//!
//! A profile is a row of plain values: how a file is read (its dialect), and what follows from the
//! result of its fetch. No other code checks a profile's name.

use std::time::Duration;

use super::dialect::{Dialect, Spellings, words};
use super::outage::{Access, Outage, OutageCopy};
use super::pace::Obeyed;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How a robots.txt is fetched and read, and what follows from each result.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Its name, such as `rfc9309`.
    pub name: &'static str,
    /// How a file is read and matched.
    pub dialect: Dialect,
    /// What a fetch without a file means.
    pub meanings: Meanings,
    /// Redirects that a fetch follows (RFC 9309 §2.3.1.2: at least five).
    pub redirects_max: u8,
    /// Whether a refresh may send `If-None-Match` and `If-Modified-Since`.
    pub conditional: bool,
    /// How long a result may be used.
    pub lifetimes: Lifetimes,
    /// What applies while the file is unreachable.
    pub outage: Outage,
    /// Which records for the pace are obeyed.
    pub pace: PaceKnobs,
}

/// Which records for the pace of a crawler are obeyed. None is of RFC 9309; §2.2.4 permits others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaceKnobs {
    /// `Crawl-delay`.
    pub crawl_delay: Obedience,
    /// `Request-rate`.
    pub request_rate: Obedience,
    /// `Visit-time`.
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
    /// The other statuses from 400 to 499.
    pub other_4xx: Meaning,
    /// 5xx, and network errors of every kind.
    pub server_error: Meaning,
    /// 1xx, 206 and unsolicited 304, 3xx that cannot be followed, 600 and above.
    pub other_status: Meaning,
    /// More redirects than [`Profile::redirects_max`] (RFC 9309 §2.3.1.2).
    pub too_many_redirects: Meaning,
    /// Redirects that lead back.
    pub redirect_loop: Meaning,
    /// A redirect that does not say where to.
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

impl Profile {
    /// RFC 9309, with the project's decisions where its text is silent. The default.
    pub const RFC9309: Profile = Profile {
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

    /// Google's published matcher and [pages](https://developers.google.com/search/docs/crawling-indexing/robots/robots_txt).
    pub const GOOGLE: Profile = Profile {
        name: "google",
        dialect: Dialect::GOOGLE,
        meanings: Meanings { redirect_loop: Meaning::Unavailable, ..Self::RFC9309.meanings },
        conditional: false,
        lifetimes: Lifetimes {
            // "may increase or decrease the cache lifetime": the increase is bounded.
            ceiling: Duration::from_secs(30 * DAY.as_secs()),
            obeys_expires: false,
            ..Self::RFC9309.lifetimes
        },
        // "12 hours stop, 30 days the last good version, then as the site is generally available."
        outage: Outage {
            pause: Duration::from_secs(12 * HOUR.as_secs()),
            without_copy: Access::Allow,
            after_drops_copy: true,
            after_needs_site_up: true,
            ..Self::RFC9309.outage
        },
        // "Fields like crawl-delay aren't supported."
        pace: PaceKnobs {
            crawl_delay: Obedience::Ignore,
            request_rate: Obedience::Ignore,
            ..Self::RFC9309.pace
        },
        ..Self::RFC9309
    };

    /// Google's specification and matcher of 2019.
    pub const GOOGLE_2019: Profile = Profile {
        name: "google-2019",
        dialect: Dialect::GOOGLE_2019,
        meanings: Meanings { too_many_requests: Meaning::Unavailable, ..Self::GOOGLE.meanings },
        conditional: false,
        lifetimes: Self::GOOGLE.lifetimes,
        // "until another status comes"; a copy "may be cached longer where refreshing is not possible".
        outage: Outage { after: Access::Disallow, ..Self::RFC9309.outage },
        pace: Self::GOOGLE.pace,
        ..Self::RFC9309
    };

    /// The first draft that became RFC 9309.
    pub const DRAFT_REP_00: Profile = Profile {
        name: "draft-rep-00",
        dialect: Dialect::DRAFT_REP_00,
        meanings: Meanings { too_many_requests: Meaning::Unavailable, ..Self::RFC9309.meanings },
        // §2.3.1.3: MAY use a cached version for up to 24 hours.
        lifetimes: Lifetimes { copy_after_unavailable: DAY, ..Self::RFC9309.lifetimes },
        ..Self::RFC9309
    };

    /// Koster's Internet-Draft of 1996.
    pub const KOSTER_1996: Profile = Profile {
        name: "koster-1996",
        dialect: Dialect::KOSTER_1996,
        // §3.1: 401 and 403 restrict completely; a temporary failure defers visits.
        meanings: Meanings {
            unauthorized: Meaning::Forbidden,
            other_4xx: Meaning::Unreachable,
            too_many_redirects: Meaning::Unreachable,
            ..Self::RFC9309.meanings
        },
        // §3.4: "Expires", else 7 days.
        lifetimes: Lifetimes {
            default: Duration::from_secs(7 * DAY.as_secs()),
            ceiling: Duration::from_secs(30 * DAY.as_secs()),
            ..Self::RFC9309.lifetimes
        },
        outage: Outage {
            copy: OutageCopy::Disallow,
            after: Access::Disallow,
            ..Self::RFC9309.outage
        },
        ..Self::RFC9309
    };

    /// Of no published text: for operators who prefer to ask for permission.
    pub const CONSERVATIVE: Profile = Profile {
        name: "conservative",
        dialect: Dialect { spellings: Spellings::AllReadings, ..Dialect::RFC9309 },
        meanings: Meanings {
            unauthorized: Meaning::Forbidden,
            other_4xx: Meaning::Forbidden,
            ..Self::RFC9309.meanings
        },
        outage: Outage { after: Access::Disallow, ..Self::RFC9309.outage },
        pace: PaceKnobs { visit_time: Obedience::Obey, ..Self::RFC9309.pace },
        ..Self::RFC9309
    };

    /// Of no published text: the practice of web archives.
    pub const ARCHIVAL: Profile = Profile {
        name: "archival",
        outage: Outage { without_copy: Access::Allow, ..Self::RFC9309.outage },
        ..Self::RFC9309
    };

    /// Every profile.
    pub const ALL: [Self; 7] = [
        Self::RFC9309,
        Self::GOOGLE,
        Self::GOOGLE_2019,
        Self::DRAFT_REP_00,
        Self::KOSTER_1996,
        Self::CONSERVATIVE,
        Self::ARCHIVAL,
    ];

    /// The profile with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.name == name)
    }
}

impl Default for Profile {
    fn default() -> Self {
        Self::RFC9309
    }
}

/// How a fetch of a robots.txt ended that returned no file (RFC 9309 §2.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchFailure {
    /// A final status that is not 2xx, or that is 206 or an unsolicited 304.
    Status(u16),
    /// More redirects than [`Profile::redirects_max`].
    TooManyRedirects,
    /// A redirect to a URL of the same fetch.
    RedirectLoop,
    /// A redirect without `Location`.
    RedirectWithoutLocation,
    /// No complete response: DNS, connection, TLS, a time limit, a body that was cut short.
    Network,
}

impl Meanings {
    /// What `failure` means.
    ///
    /// ```
    /// use courtesy_robots::{FetchFailure, Meaning, Profile};
    ///
    /// let meanings = &Profile::RFC9309.meanings;
    /// assert_eq!(meanings.of(FetchFailure::Status(404)), Meaning::Unavailable);
    /// assert_eq!(meanings.of(FetchFailure::Status(503)), Meaning::Unreachable);
    /// assert_eq!(meanings.of(FetchFailure::Network), Meaning::Unreachable);
    /// let conservative = &Profile::CONSERVATIVE.meanings;
    /// assert_eq!(conservative.of(FetchFailure::Status(403)), Meaning::Forbidden);
    /// ```
    pub const fn of(&self, failure: FetchFailure) -> Meaning {
        match failure {
            FetchFailure::Status(code) => match code {
                401 | 403 => self.unauthorized,
                404 | 410 => self.not_found,
                429 => self.too_many_requests,
                400..=499 => self.other_4xx,
                500..=599 => self.server_error,
                _ => self.other_status,
            },
            FetchFailure::TooManyRedirects => self.too_many_redirects,
            FetchFailure::RedirectLoop => self.redirect_loop,
            FetchFailure::RedirectWithoutLocation => self.redirect_without_location,
            FetchFailure::Network => self.server_error,
        }
    }
}

impl PaceKnobs {
    /// Which records for the delay between two requests are obeyed.
    pub fn obeyed(&self) -> Obeyed {
        Obeyed {
            crawl_delay: self.crawl_delay == Obedience::Obey,
            request_rate: self.request_rate == Obedience::Obey,
        }
    }
}

/// The freshness of a response with a robots.txt (RFC 9309 §2.4, RFC 9111 §5.2 and §5.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Freshness {
    /// `max-age` of Cache-Control.
    pub max_age: Option<Duration>,
    /// `Expires`, relative to the response's own `Date`.
    pub expires_in: Option<Duration>,
    /// `no-store` or `no-cache`: revalidate as soon as the profile's minimum permits.
    pub no_cache: bool,
}

impl Lifetimes {
    /// How long a file with freshness `freshness` may be used. RFC 9111 §5.3: `max-age` takes
    /// precedence over `Expires`.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use courtesy_robots::{Freshness, Profile};
    ///
    /// let week = Duration::from_secs(7 * 24 * 3600);
    /// let freshness = Freshness { max_age: Some(week), ..Freshness::default() };
    /// // RFC 9309 §2.4: no longer than 24 hours.
    /// assert_eq!(Profile::RFC9309.lifetimes.of_copy(&freshness).as_secs(), 24 * 3600);
    /// ```
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
    /// What a fetch result without a robots.txt means.
    pub enum Meaning {
        /// RFC 9309 §2.3.1.3: there is no file, everything is allowed.
        Unavailable = "allow",
        /// Access to the file is denied, which disallows everything.
        Forbidden = "disallow",
        /// RFC 9309 §2.3.1.4: the file is unreachable; see [`Outage`].
        Unreachable = "unreachable",
    }

    /// Whether a record that no standard defines is obeyed.
    pub enum Obedience {
        /// It is.
        Obey = "obey",
        /// It is not.
        Ignore = "ignore",
    }
}
