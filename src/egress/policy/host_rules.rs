//! Which hosts may be contacted, by the operator's lists. The lists hold names as requests have
//! them; the addresses of a permitted name are judged besides.

use crate::egress::error::{Error, Failure};
use crate::types::origin::{Host, HostPattern};

/// `egress.allow_hosts` and `egress.deny_hosts`.
#[derive(Clone, Debug, Default)]
pub struct HostRules {
    /// Empty: every host.
    pub allow: Vec<HostPattern>,
    /// Wins over `allow`.
    pub deny: Vec<HostPattern>,
}

impl HostRules {
    /// Judges whether `host` may be contacted.
    ///
    /// # Errors
    ///
    /// [`Failure::HostProhibited`] when the lists prohibit it.
    pub fn judge(&self, host: &Host) -> Result<(), Error> {
        let listed = |hosts: &[HostPattern]| hosts.iter().any(|pattern| pattern.matches(host));
        let why = if listed(&self.deny) {
            "is listed in egress.deny_hosts"
        } else if !self.allow.is_empty() && !listed(&self.allow) {
            "is not among the hosts that egress.allow_hosts lists"
        } else {
            return Ok(());
        };
        Err(Error::new(Failure::HostProhibited, format!("{host} {why}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::origin::{Origin, Scheme};

    fn permitted(allow: &[&str], deny: &[&str], host: &str) -> bool {
        let patterns =
            |list: &[&str]| list.iter().map(|text| HostPattern::new(text).unwrap()).collect();
        let rules = HostRules { allow: patterns(allow), deny: patterns(deny) };
        let origin = Origin::from_authority(Scheme::Http, host).unwrap();
        match rules.judge(origin.host()) {
            Ok(()) => true,
            Err(error) => {
                assert_eq!(error.failure, Failure::HostProhibited);
                false
            }
        }
    }

    #[test]
    fn algorithm_6_host_lists_go_by_labels_and_deny_wins() {
        let site: &[&str] = &["example.com", "*.example.com"];
        for (allow, deny, host, expected) in [
            (&[][..], &[][..], "anything.example", true),
            (&[], site, "Example.COM.", false),
            (&[], site, "a.b.example.com", false),
            (&[], site, "notexample.com", true),
            (&[], site, "example.com.evil.example", true),
            (site, &[], "example.com", true),
            (site, &[], "www.example.com", true),
            (site, &[], "example.org", false),
            (site, &[], "8.8.8.8", false),
            (&["8.8.8.8"], &[], "8.8.8.8", true),
            (site, &["private.example.com"], "private.example.com", false),
            (site, &["private.example.com"], "public.example.com", true),
        ] {
            assert_eq!(permitted(allow, deny, host), expected, "{allow:?} {deny:?} {host}");
        }
    }
}
