use std::sync::Arc;

use super::*;
use crate::config::rules::AgentRule;
use crate::policy::profile::ProfileName;

#[test]
fn a_profile_that_is_used_twice_is_one_value() {
    let rule = AgentRule {
        matches: "*".parse().unwrap(),
        token: None,
        mode: None,
        profile: Some(ProfileName::Rfc9309),
        deny_status: None,
        pace: None,
        max_wait: None,
        pace_status: None,
    };
    let mut settings = Settings::default();
    settings.agents.rules = vec![rule];
    let rules = settings.rules();
    assert!(Arc::ptr_eq(&rules.profile, rules.agents[0].profile.as_ref().unwrap()));
}

#[test]
fn the_defaults_are_those_of_the_modules() {
    let settings = Settings::default();
    assert_eq!(format!("{:?}", settings.fetch()), format!("{:?}", fetch::Config::default()));
    assert_eq!(format!("{:?}", settings.store()), format!("{:?}", store::Config::default()));
}
