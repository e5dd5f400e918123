//! The most frequent origins among any number, in bounded memory.

use std::collections::HashMap;

/// Origins that are counted one by one for a summary of decisions.
pub const DECISION_ORIGINS_COUNTED_MAX: usize = 64;

/// Origins that a summary names.
const DECISION_ORIGINS_NAMED: usize = 5;

/// Counts by the algorithm of Misra and Gries: an origin with more than one in
/// [`DECISION_ORIGINS_COUNTED_MAX`] of all decisions is never missed, and counts are exact up to
/// that many origins.
#[derive(Debug, Default)]
pub struct FrequentOrigins {
    /// Each with a lower bound of its count.
    counts: HashMap<String, u64>,
}

impl FrequentOrigins {
    /// Counts one decision for `origin`.
    pub fn add(&mut self, origin: &str) {
        if let Some(count) = self.counts.get_mut(origin) {
            *count += 1;
        } else if self.counts.len() < DECISION_ORIGINS_COUNTED_MAX {
            self.counts.insert(origin.to_owned(), 1);
        } else {
            self.counts.retain(|_, count| {
                *count -= 1;
                *count > 0
            });
        }
    }

    /// `http://a.example 17, …`.
    pub fn most_frequent(&self) -> String {
        let mut origins: Vec<_> = self.counts.iter().collect();
        origins.sort_unstable_by(|(a, one), (b, other)| other.cmp(one).then_with(|| a.cmp(b)));
        let named: Vec<_> = origins
            .iter()
            .take(DECISION_ORIGINS_NAMED)
            .map(|(origin, count)| format!("{origin} {count}"))
            .collect();
        named.join(", ")
    }

    /// The number of origins that are counted one by one now.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.counts.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frequent_origin_is_named_among_many_that_are_not() {
        let mut origins = FrequentOrigins::default();
        for number in 0..1000 {
            origins.add(&format!("http://{number}.example"));
            origins.add("http://busy.example");
        }
        let named = origins.most_frequent();
        assert!(named.starts_with("http://busy.example "), "{named}");
    }
}
