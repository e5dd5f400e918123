use std::sync::Arc;

use super::*;
use crate::config::rules::AgentRule;
use crate::pace::PaceMode;
use crate::policy::Mode;
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

#[test]
fn an_observing_proxy_holds_no_request_unless_it_is_set_to() {
    for (robots, pace, expected) in [
        (Mode::Enforce, None, PaceMode::Enforce),
        (Mode::Observe, None, PaceMode::Observe),
        (Mode::Observe, Some(PaceMode::Enforce), PaceMode::Enforce),
        (Mode::Enforce, Some(PaceMode::Off), PaceMode::Off),
    ] {
        let mut settings = Settings::default();
        (settings.robots.mode, settings.pace.mode) = (robots, pace);
        assert_eq!(settings.pace().mode, expected, "{robots:?} {pace:?}");
    }
}
