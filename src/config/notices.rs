//! Warnings at start about settings that are valid.

use std::time::Duration;

use super::parse::{print_date, print_duration, print_origin_pattern};
use super::settings::Settings;
use crate::policy::profile::Access;
use crate::types::timestamp::Timestamp;

/// A shorter outage is common: a day.
const OUTAGE_SHORT: Duration = Duration::from_hours(24);

impl Settings {
    /// Valid settings that deserve a warning at start.
    pub fn notices(&self, now: Timestamp) -> Vec<String> {
        let expired = self.exemptions.iter().filter(|exemption| exemption.until <= now);
        let expired = expired.map(|exemption| {
            format!(
                "the exemption for {} by {} ended at {} and no longer applies",
                print_origin_pattern(&exemption.origin),
                exemption.by,
                print_date(&exemption.until)
            )
        });
        expired.chain(self.short_outage()).collect()
    }

    /// RFC 9309 §2.3.1.4: what is unreachable may be taken for missing after a reasonably long period, such
    /// as thirty days.
    fn short_outage(&self) -> Option<String> {
        let set = self.outage.after_time.filter(|time| *time < OUTAGE_SHORT)?;
        let allows = self.profile(self.robots.profile).outage.after == Access::Allow;
        allows.then(|| {
            let set = print_duration(&set);
            format!(
                "outage.after_time is {set}: a site whose robots.txt cannot be had for so long is crawled as if \
                 it had none; RFC 9309 §2.3.1.4 names 30 days"
            )
        })
    }
}
