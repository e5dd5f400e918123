//! What a log says of sites: the versions of their robots.txt, from when to when each decided, and what
//! was asked under it.

use std::collections::{BTreeMap, BTreeSet};

use crate::audit::{Content, Notice, Paced, Robots, RobotsStatus, SiteCounts};
use crate::types::timestamp::Timestamp;

/// Versions and agents of one site with entries of their own. A file may have the date in it, and agents are the clients'
/// to name.
const VERSIONS_MAX: usize = 1000;
const AGENTS_MAX: usize = 1000;
/// Delays of one version: groups may ask for different ones, and settings may change what is kept.
const DELAYS_MAX: usize = 100;

/// The sites of a log, by origin.
#[derive(Debug, Default)]
pub struct History {
    pub sites: BTreeMap<String, SiteHistory>,
}

/// One site.
#[derive(Debug, Default)]
pub struct SiteHistory {
    /// In the order in which they were first seen.
    pub versions: Vec<FileHistory>,
    /// What was asked that no robots.txt decided, as of a destination that is not permitted.
    pub undecided: Option<SiteCounts>,
    /// Versions that are left out, because there are too many.
    pub omitted: u64,
}

/// A robots.txt, or the lack of one.
#[derive(Debug)]
pub struct FileHistory {
    /// `None`: there was no file.
    pub sha256: Option<String>,
    pub state: RobotsStatus,
    /// Why there was no file, in words.
    pub cause: Option<String>,
    /// Which of the logs has it, counted from 0.
    pub log: usize,
    /// The times of the lines that name it first and last; of counts, their ends.
    pub first: Timestamp,
    pub last: Timestamp,
    /// As whom it was fetched, where it decides for these agents alone.
    pub asked_as: BTreeSet<String>,
    /// What was asked under it; `None`: that was not counted.
    pub asked: Option<SiteCounts>,
    /// The same by agent; of requests without a product token, by `None`.
    pub agents: BTreeMap<Option<String>, SiteCounts>,
    /// The hour, or less where the proxy ended, in which most was asked under it.
    pub busiest: Busiest,
    /// The delays that it asked for and that were kept.
    pub delays: BTreeSet<KeptDelay>,
}

/// The time between two lines of counts in which most was asked; lines of one such time have one end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Busiest {
    /// Requests.
    pub asked: u64,
    /// Where that time ends.
    pub until: Option<Timestamp>,
    /// The time whose lines are being added.
    current: (Option<Timestamp>, u64),
}

impl Busiest {
    fn add(&mut self, counts: &SiteCounts) {
        if self.current.0 != Some(counts.time) {
            self.current = (Some(counts.time), 0);
        }
        self.current.1 += counts.asked();
        if self.current.1 > self.asked {
            (self.until, self.asked) = self.current;
        }
    }
}

/// A delay between two requests.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeptDelay {
    /// Of the line in robots.txt.
    pub line: u32,
    /// As it stands there.
    pub text: String,
    /// What was kept between two requests.
    pub delay_ms: u64,
    /// The waits were computed, and no request waited.
    pub is_observed: bool,
}

impl History {
    /// Adds a line of the log with that number.
    pub fn add(&mut self, content: &Content, log: usize) {
        match content {
            Content::Record(record) => {
                self.decided(&record.origin, record.robots.as_deref(), record.time, log);
            }
            Content::Notice(Notice::Allowed(allowed)) => {
                self.decided(&allowed.origin, allowed.robots.as_deref(), allowed.time, log);
            }
            Content::Notice(Notice::RobotsFile(file)) => {
                self.decided(&file.origin, Some(&*file.robots), file.time, log);
            }
            Content::Notice(Notice::SiteCounts(counts)) => self.count(counts, log),
            Content::Notice(Notice::Paced(paced)) => self.kept(paced, log),
            Content::Notice(_) => {}
        }
    }

    fn decided(&mut self, origin: &str, robots: Option<&Robots>, time: Timestamp, log: usize) {
        let Some(robots) = robots else { return };
        let site = self.sites.entry(origin.to_owned()).or_default();
        let state = if robots.sha256.is_some() { RobotsStatus::Rules } else { robots.state };
        let Some(version) = site.version((robots.sha256.as_deref(), state), time, log) else {
            return;
        };
        version.first = version.first.min(time);
        version.last = version.last.max(time);
        if version.asked_as.len() < AGENTS_MAX {
            version.asked_as.extend(robots.asked_as.clone());
        }
        if version.cause.is_none() && version.sha256.is_none() {
            version.cause.clone_from(&robots.cause);
        }
    }

    fn kept(&mut self, paced: &Paced, log: usize) {
        let site = self.sites.entry(paced.origin.clone()).or_default();
        let key = (paced.robots.sha256.as_deref(), RobotsStatus::Rules);
        let Some(version) = site.version(key, paced.time, log) else { return };
        if version.delays.len() < DELAYS_MAX {
            version.delays.insert(KeptDelay {
                line: paced.line,
                text: paced.text.clone(),
                delay_ms: paced.delay_ms,
                is_observed: paced.observed || paced.pace_seen == Some(false),
            });
        }
    }

    fn count(&mut self, counts: &SiteCounts, log: usize) {
        let Some(origin) = &counts.origin else { return };
        let site = self.sites.entry(origin.clone()).or_default();
        let Some(state) = counts.state else {
            sum(&mut site.undecided, counts);
            return;
        };
        let key = (counts.sha256.as_deref(), state);
        let Some(version) = site.version(key, counts.since, log) else { return };
        version.last = version.last.max(counts.time);
        sum(&mut version.asked, counts);
        version.busiest.add(counts);
        if version.agents.len() < AGENTS_MAX || version.agents.contains_key(&counts.agent) {
            let mut own = version.agents.remove(&counts.agent);
            sum(&mut own, counts);
            version.agents.extend(own.map(|own| (counts.agent.clone(), own)));
        }
    }
}

impl SiteHistory {
    /// The version of that key, seen first at that time if it is new.
    fn version(
        &mut self,
        (sha256, state): (Option<&str>, RobotsStatus),
        time: Timestamp,
        log: usize,
    ) -> Option<&mut FileHistory> {
        let found =
            self.versions.iter().position(|it| it.sha256.as_deref() == sha256 && it.state == state);
        let at = match found {
            Some(at) => at,
            None if self.versions.len() >= VERSIONS_MAX => {
                self.omitted += 1;
                return None;
            }
            None => {
                let sha256 = sha256.map(str::to_owned);
                self.versions.push(FileHistory {
                    sha256,
                    state,
                    cause: None,
                    log,
                    first: time,
                    last: time,
                    asked_as: BTreeSet::new(),
                    asked: None,
                    agents: BTreeMap::new(),
                    busiest: Busiest::default(),
                    delays: BTreeSet::new(),
                });
                self.versions.len() - 1
            }
        };
        Some(&mut self.versions[at])
    }
}

fn sum(all: &mut Option<SiteCounts>, counts: &SiteCounts) {
    match all {
        Some(all) => all.add(counts),
        None => *all = Some(counts.clone()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOON: &str = "2026-11-20T12:00:00.000000Z";
    const ONE: &str = "2026-11-20T13:00:00.000000Z";
    const TWO: &str = "2026-11-20T14:00:00.000000Z";

    fn time_of(time: &str) -> Option<Timestamp> {
        let Content::Notice(notice) = counts("http://a.example", "Bot", None, [time, time]) else {
            return None;
        };
        Some(notice.time())
    }

    fn line(mut members: Value) -> Content {
        members["prev"] = json!("");
        members["seq"] = json!(1);
        let line = format!(
            "{},\"hash\":\"{}\"}}",
            members.to_string().strip_suffix('}').unwrap(),
            "0".repeat(64)
        );
        Content::parse(line.as_bytes()).unwrap()
    }

    fn file(time: &str, sha256: Option<&str>, asked_as: Option<&str>) -> Content {
        let robots = json!({
            "asked_as": asked_as, "cut": false, "state": if sha256.is_some() { "rules" } else { "unavailable" },
            "url": "http://a.example/robots.txt", "sha256": sha256, "cause": sha256.is_none().then_some("404"),
            "confirmed_at": null, "fetched_at": null, "next_try": null, "since": null, "tried": null
        });
        line(
            json!({ "event": "file", "origin": "http://a.example", "robots": robots, "time": time }),
        )
    }

    fn counts(origin: &str, agent: &str, sha256: Option<&str>, times: [&str; 2]) -> Content {
        let state = sha256.map(|_| "rules");
        line(json!({
            "agent": agent, "allowed": 2, "denied": 1, "event": "counts", "bytes": 10, "origin": origin,
            "sha256": sha256, "since": times[0], "state": state, "statuses": { "2xx": 2 }, "time": times[1],
        }))
    }

    #[test]
    fn each_file_is_a_version_with_what_was_asked_under_it() {
        let mut history = History::default();
        for content in [
            file(NOON, Some("ab"), Some("Bot courtesy")),
            counts("http://a.example", "Bot", Some("ab"), [NOON, ONE]),
            counts("http://a.example", "Other", Some("ab"), [NOON, ONE]),
            counts("http://a.example", "Bot", Some("ab"), [ONE, TWO]),
            file(TWO, None, None),
            counts("http://a.example", "Bot", None, [NOON, ONE]),
            counts("http://b.example", "Bot", Some("ab"), [NOON, ONE]),
        ] {
            history.add(&content, 0);
        }
        let origins: Vec<_> = history.sites.keys().map(String::as_str).collect();
        assert_eq!(origins, ["http://a.example", "http://b.example"]);
        let site = &history.sites["http://a.example"];
        let [first, second] = &site.versions[..] else { panic!("{site:?}") };
        let times =
            |version: &FileHistory| [version.first, version.last].map(crate::audit::print_time);
        assert_eq!(
            (first.sha256.as_deref(), times(first)),
            (Some("ab"), [NOON.into(), TWO.into()])
        );
        assert!(first.asked_as.contains("Bot courtesy"));
        let asked = first.asked.as_ref().unwrap();
        assert_eq!((asked.asked(), asked.bytes, asked.statuses["2xx"]), (9, 30, 6));
        let of = |agent: &str| first.agents[&Some(agent.to_owned())].asked();
        assert_eq!((of("Bot"), of("Other")), (6, 3));
        let busiest = first.busiest;
        assert_eq!((busiest.asked, busiest.until), (6, time_of(ONE)), "of both agents");
        assert_eq!(
            (second.state, second.cause.as_deref()),
            (RobotsStatus::Unavailable, Some("404"))
        );
        assert!(second.asked.is_none(), "it is not counted yet");
        assert_eq!(site.undecided.as_ref().unwrap().asked(), 3);
    }

    #[test]
    fn of_too_many_versions_and_agents_the_rest_is_left_out() {
        let mut history = History::default();
        for number in 0..VERSIONS_MAX + 5 {
            history.add(&file(NOON, Some(&format!("{number:04}")), None), 0);
        }
        for number in 0..AGENTS_MAX + 5 {
            history.add(
                &counts("http://a.example", &format!("n{number}"), Some("0000"), [NOON, ONE]),
                0,
            );
        }
        let site = &history.sites["http://a.example"];
        assert_eq!((site.versions.len(), site.omitted), (VERSIONS_MAX, 5));
        assert_eq!(site.versions[0].agents.len(), AGENTS_MAX);
        let all = site.versions[0].asked.as_ref().unwrap().asked();
        assert_eq!(all, 3 * (AGENTS_MAX as u64 + 5), "the sum has them all");
    }
}
