//! The robots.txt data that many records share: serialized once, and not for each record.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use super::robots_record::Robots;

/// A [`Robots`] that records share.
#[derive(Clone, Debug)]
pub struct SharedRobots(Arc<Stated>);

#[derive(Clone, Debug)]
struct Stated {
    robots: Robots,
    /// Its JSON, as a line has it.
    json: OnceLock<Box<RawValue>>,
}

impl Deref for SharedRobots {
    type Target = Robots;

    fn deref(&self) -> &Robots {
        &self.0.robots
    }
}

/// Copies on write: other records are not changed.
impl DerefMut for SharedRobots {
    fn deref_mut(&mut self) -> &mut Robots {
        let stated = Arc::make_mut(&mut self.0);
        stated.json = OnceLock::new();
        &mut stated.robots
    }
}

impl From<Robots> for SharedRobots {
    fn from(robots: Robots) -> Self {
        Self(Arc::new(Stated { robots, json: OnceLock::new() }))
    }
}

impl PartialEq for SharedRobots {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for SharedRobots {}

impl Serialize for SharedRobots {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let make = || to_raw_value(&self.0.robots).expect("it is made of plain values");
        self.0.json.get_or_init(make).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SharedRobots {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Robots::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json, to_string};

    use super::*;

    #[test]
    fn a_changed_part_is_written_anew_for_its_owner_only() {
        let robots: Robots = from_value(json!({
            "cut": false, "state": "rules", "url": "http://a.example/robots.txt",
            "confirmed_at": null, "fetched_at": null, "next_try": null, "since": null, "tried": null
        }))
        .unwrap();
        let shared = SharedRobots::from(robots.clone());
        assert_eq!(to_string(&shared).unwrap(), to_string(&robots).unwrap());
        let mut other = shared.clone();
        other.status = Some(200);
        assert_eq!(
            to_string(&other).unwrap(),
            to_string(&Robots { status: Some(200), ..robots }).unwrap()
        );
        assert!(!to_string(&shared).unwrap().contains("200") && other != shared);
    }
}
