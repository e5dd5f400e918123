//! What denials of one origin say alike: the robots.txt that they rest on, put into words once for each
//! state of it.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::audit::{Robots, SharedRobots};
use crate::store::{Known, Mark};

/// States of origins for which denials have in words what they rest on: as many as have denials again and
/// again. Each is 2 KiB, or up to 60 where URLs are long.
const STATEMENTS_MAX: usize = 512;

/// The latest of them.
pub struct Statements(Mutex<Latest>);

type Latest = LruCache<Key, (Mark, Arc<Statement>)>;

/// By the state's place in memory, which nobody else has as long as its [`Mark`] is here; and whether it is
/// the absence of a file that is spoken of.
type Key = (usize, bool);

/// One of them.
#[derive(Debug)]
pub struct Statement {
    /// As records have it.
    pub grounds: SharedRobots,
    /// As answers show it.
    pub shown: Box<RawValue>,
}

impl Statements {
    /// What is said of `known`; where that has not been said of late, what `make` says.
    pub fn of(
        &self,
        known: &Known,
        of_absence: bool,
        make: impl FnOnce() -> Robots,
    ) -> Arc<Statement> {
        let key = (std::ptr::from_ref(known.state()).addr(), of_absence);
        if let Some((mark, statement)) = self.latest().get(&key)
            && mark.is_of(known)
        {
            return Arc::clone(statement);
        }
        // Without the lock: the denials of other origins need not wait. Two may say it at once; one is kept.
        let statement = Arc::new(Statement::new(make()));
        self.latest().put(key, (known.mark(), Arc::clone(&statement)));
        statement
    }

    fn latest(&self) -> MutexGuard<'_, Latest> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Statements {
    fn default() -> Self {
        let max = NonZeroUsize::new(STATEMENTS_MAX).expect("it is not zero");
        Self(Mutex::new(LruCache::sparse(max)))
    }
}

impl fmt::Debug for Statements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Statements").finish_non_exhaustive()
    }
}

impl Statement {
    fn new(robots: Robots) -> Self {
        Self { shown: shown(&robots), grounds: SharedRobots::from(robots) }
    }
}

/// For people's eyes, too: one member a line, as a member of an answer; what has no value is left out.
fn shown(robots: &Robots) -> Box<RawValue> {
    let mut value = serde_json::to_value(robots).expect("it is made of plain values");
    if let Value::Object(members) = &mut value {
        members.retain(|_, value| !value.is_null());
    }
    // No string has a line end that is not escaped.
    let text = format!("{value:#}").replace('\n', "\n  ");
    RawValue::from_string(text).expect("it was a value")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_has_no_value_is_left_out_and_the_rest_is_a_member_of_an_answer() {
        let robots = json!({
            "cut": false, "state": "rules", "url": "http://a.example/robots.txt\n", "status": 200, "cause": null,
            "confirmed_at": null, "fetched_at": null, "next_try": null, "since": null, "tried": null
        });
        let expected = "{\n    \"cut\": false,\n    \"state\": \"rules\",\n    \"status\": 200,\n    \
                        \"url\": \"http://a.example/robots.txt\\n\"\n  }";
        assert_eq!(shown(&serde_json::from_value(robots).unwrap()).get(), expected);
    }
}
