//! A small cache of parsed authorities: most requests repeat a recent one literally.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;

use super::{Origin, Scheme, UrlError};
use crate::types::limits::HOST_BYTES_MAX;

/// Parsed origins that a worker keeps, by the text of the request.
const RECENT_ORIGINS: usize = 1024;

/// Bytes of those words: a host with a dot at its end, a colon and a port.
const RECENT_AUTHORITY_BYTES_MAX: usize = HOST_BYTES_MAX + 7;

/// Parses authorities, with a direct-mapped cache of recent ones.
#[derive(Debug)]
pub struct Recent {
    places: Box<[Option<Read>]>,
    hasher: RandomState,
}

#[derive(Debug)]
struct Read {
    scheme: Scheme,
    authority: Box<str>,
    origin: Origin,
}

impl Default for Recent {
    fn default() -> Self {
        Self { places: (0..RECENT_ORIGINS).map(|_| None).collect(), hasher: RandomState::default() }
    }
}

impl Recent {
    /// [`Origin::from_authority`].
    pub fn origin(&mut self, scheme: Scheme, authority: &str) -> Result<Origin, UrlError> {
        // A hash has more than enough bits for an index.
        let place = self.hasher.hash_one(authority) as usize % self.places.len();
        let place = &mut self.places[place];
        if let Some(read) = place
            && read.scheme == scheme
            && *read.authority == *authority
        {
            return Ok(read.origin.clone());
        }
        let origin = Origin::from_authority(scheme, authority)?;
        // A port may have any number of leading zeros.
        if authority.len() <= RECENT_AUTHORITY_BYTES_MAX {
            *place = Some(Read { scheme, authority: authority.into(), origin: origin.clone() });
        }
        Ok(origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_short() {
        let mut recent = Recent::default();
        let authority = format!("a.example:{}80", "0".repeat(10_000));
        assert_eq!(
            recent.origin(Scheme::Http, &authority),
            Origin::from_authority(Scheme::Http, "a.example")
        );
        assert!(recent.places.iter().all(Option::is_none));
    }

    #[test]
    fn what_was_read_before_is_the_same_again() {
        let mut recent = Recent::default();
        let hosts = (0..2 * RECENT_ORIGINS).map(|number| format!("{number}.Example:80"));
        let odd = [
            "a.example",
            "a.example:443",
            "A.example.",
            "127.0.0.1",
            "127.1",
            "[::1]:80",
            "u@a",
            "a:0",
            "",
        ];
        let all: Vec<_> = odd.map(String::from).into_iter().chain(hosts).collect();
        for authority in all.iter().chain(&all).chain(all.iter().rev()) {
            for scheme in [Scheme::Http, Scheme::Https] {
                let expected = Origin::from_authority(scheme, authority);
                assert_eq!(recent.origin(scheme, authority), expected, "{authority}");
                assert_eq!(recent.origin(scheme, authority), expected, "{authority} once more");
            }
        }
    }
}
