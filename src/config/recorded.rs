//! The profile that a record names: the row of that name, changed by the settings that the record
//! repeats. They are parsed as those of a file; the configuration of this machine has no influence.

use std::collections::BTreeMap;

use config::Config;

use super::diagnostics::{Diagnostic, InvalidSettings};
use super::layers::typed;
use super::schema::Schema;
use super::settings::Settings;
use crate::policy::profile::{Profile, ProfileName};

/// The profile `name` with these [`Profile::changes`], of that `version` of the table.
pub fn recorded_profile(
    name: &str,
    version: u32,
    changes: &BTreeMap<String, String>,
) -> Result<Profile, InvalidSettings> {
    const PLACE: &str = "the record's profile";
    let diagnostic = |key: &str, problem| Diagnostic::new(key, Some(PLACE), problem);
    let name: ProfileName =
        name.parse().map_err(|problem| InvalidSettings(vec![diagnostic("", problem)]))?;
    let schema = Schema::new();
    let (mut builder, mut diagnostics) = (Config::builder(), Vec::new());
    for (key, text) in changes {
        let example = schema.at(key).ok_or_else(|| "there is no such setting".to_owned());
        match example.and_then(|example| typed(example, text, &PLACE.to_owned())) {
            Ok(value) => builder = builder.set_override(key, value).expect("a plain name"),
            Err(problem) => diagnostics.push(diagnostic(key, problem)),
        }
    }
    if !diagnostics.is_empty() {
        return Err(InvalidSettings(diagnostics));
    }
    let merged = builder
        .build()
        .map_err(|error| InvalidSettings(vec![diagnostic("", error.to_string())]))?;
    let row = name.row_in(version);
    let profile = Settings::from_merged(&merged.cache)?.changed(row.clone());
    let made = profile.changes_of(&row);
    let unused = changes.iter().filter(|(key, text)| made.get(*key) != Some(text));
    let unused: Vec<_> = unused
        .map(|(key, text)| diagnostic(key, format!("\"{text}\" changes no profile")))
        .collect();
    if unused.is_empty() { Ok(profile) } else { Err(InvalidSettings(unused)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::profile::{Meaning, VERSION};

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
        let changes: BTreeMap<_, _> =
            changes.map(|(key, text)| (key.to_owned(), text.to_owned())).into_iter().collect();
        let changed = recorded_profile("rfc9309", VERSION, &changes).unwrap();
        assert_eq!(changed.changes(), changes);
        for row in Profile::ALL {
            assert_eq!(recorded_profile(row.name, VERSION, &row.changes()), Ok(row));
        }
    }

    #[test]
    fn a_record_of_an_older_version_names_the_row_that_it_was_made_by() {
        let meaning = |version, settings: &[(&str, &str)]| {
            let changes =
                settings.iter().map(|(key, text)| (key.to_string(), text.to_string())).collect();
            recorded_profile("conservative", version, &changes).unwrap().meanings.other_4xx
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
        assert_eq!(
            recorded_profile("google", 1, &BTreeMap::new()),
            Ok(Profile::named("google").unwrap())
        );
    }

    #[test]
    fn what_makes_no_profile_is_refused_by_its_name() {
        for (name, key, text, expected) in [
            ("gogle", "", "", "\"gogle\" is not one of"),
            (
                "google",
                "robots.knobs.status_500",
                "allow",
                "robots.knobs.status_500: there is no such setting",
            ),
            ("google", "outage.after", "perhaps", "outage.after"),
            ("google", "listen.admin", "off", "listen.admin: \"off\" changes no profile"),
        ] {
            let changes =
                if key.is_empty() { BTreeMap::new() } else { [(key.into(), text.into())].into() };
            let refusal = recorded_profile(name, VERSION, &changes).unwrap_err().to_string();
            assert!(refusal.contains(expected), "{refusal}");
        }
    }
}
