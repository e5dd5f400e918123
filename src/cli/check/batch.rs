//! `check --batch`: JSON Lines in, JSON Lines out, in order, for other programs and for test
//! suites. A line that cannot be parsed gets an error as its result and affects no other.

use std::borrow::Cow;
use std::io::{self, Read, Write};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::answer::{Answer, OperatorPace, Pace, Robots, Ruling, is_tunnelled};
use super::args::{Agent, AgentKind};
use super::online::{Defaults, LazyOnline, Library, ruling};
use super::stream::{Feed, Next, OrderedOutput, Rendered, Slot};
use crate::cli::exit::Failure;
use crate::cli::output::BATCH_BYTES_MAX;
use crate::config::{ProfileName, units};
use crate::policy::profile::Profile;
use crate::robots::RobotsTxt;
use crate::runtime::clock::{Clock, SystemClock};
use crate::types::timestamp::Timestamp;

/// Bytes of a line of `check --batch`: the above in base64, with room for the other members.
const BATCH_LINE_BYTES_MAX: usize = 96 << 20;

/// One line of input. Unknown members are ignored, so that test cases can be passed unchanged.
#[derive(Deserialize)]
struct Question<'a> {
    #[serde(default)]
    id: Value,
    /// Without any of these three the robots.txt is fetched.
    #[serde(borrow)]
    robots: Option<Cow<'a, str>>,
    robots_b64: Option<Cow<'a, str>>,
    robots_parts: Option<Vec<(Cow<'a, str>, u64)>>,
    agent: Option<Cow<'a, str>>,
    agent_kind: Option<AgentKind>,
    #[serde(borrow)]
    url: Option<Cow<'a, str>>,
    url_b64: Option<Cow<'a, str>>,
    url_parts: Option<Vec<(Cow<'a, str>, u64)>>,
    profile: Option<ProfileName>,
    /// The time of day (UTC), `07:30`, in place of now.
    at: Option<Cow<'a, str>>,
    /// Only `pace.max_crawl_delay` counts.
    settings: Option<PaceSettings>,
}

#[derive(Deserialize)]
struct PaceSettings {
    #[serde(rename = "pace.max_crawl_delay", with = "units::duration_option", default)]
    max_crawl_delay: Option<Duration>,
}

/// What can be read of a line whose other members are wrong.
#[derive(Default, Deserialize)]
struct OnlyId {
    #[serde(default)]
    id: Value,
}

#[derive(Serialize)]
struct Reply<'a> {
    id: &'a Value,
    #[serde(flatten)]
    ruling: &'a Ruling,
    pace: Pace,
    /// The URL that it was fetched from.
    #[serde(skip_serializing_if = "Option::is_none")]
    robots: Option<&'a Robots>,
}

#[derive(Serialize)]
struct ErrorLine<'a> {
    id: &'a Value,
    error: &'a str,
}

/// Why a line has no result: because of its content, or because nothing can be fetched at all.
enum LineError {
    Line(String),
    Setup(Failure),
}

/// Writes the result of every line of `input` to `output`.
pub fn run(
    input: impl Read,
    output: impl Write,
    defaults: &Defaults,
    online: &LazyOnline,
) -> Result<(), Failure> {
    let mut feed = Feed::new(input, BATCH_LINE_BYTES_MAX);
    let mut ordered = OrderedOutput::new(output);
    let mut library = Library::new();
    loop {
        if !feed.has_line() {
            ordered.settle()?;
        }
        let slot = match feed.next()? {
            Next::End => return Ok(ordered.settle()?),
            Next::Line(line) if line.trim_ascii().is_empty() => continue,
            Next::Line(line) => answer(line, defaults, online, &mut library)?,
            Next::TooLong => error_line(
                &Value::Null,
                &format!("the line is longer than {BATCH_LINE_BYTES_MAX} bytes"),
            ),
        };
        ordered.push(slot)?;
    }
}

fn answer(
    line: &[u8],
    defaults: &Defaults,
    online: &LazyOnline,
    library: &mut Library,
) -> Result<Slot<()>, Failure> {
    let question: Question<'_> = match serde_json::from_slice(line) {
        Ok(question) => question,
        Err(error) => {
            let OnlyId { id } = serde_json::from_slice(line).unwrap_or_default();
            return Ok(error_line(&id, &format!("the line cannot be read: {error}")));
        }
    };
    match question.answer(defaults, online, library) {
        Ok(slot) => Ok(slot),
        Err(LineError::Line(error)) => Ok(error_line(&question.id, &error)),
        Err(LineError::Setup(failure)) => Err(failure),
    }
}

impl Question<'_> {
    fn answer(
        &self,
        defaults: &Defaults,
        online: &LazyOnline,
        library: &mut Library,
    ) -> Result<Slot<()>, LineError> {
        let url = self.url().read()?;
        let agent = match &self.agent {
            Some(agent) => Agent::new(agent, self.agent_kind),
            None => defaults.agent.clone(),
        };
        if let Some(robots) = self.robots().read()? {
            let profile = self.profile.or(defaults.profile).unwrap_or(defaults.configured_profile);
            let rules = library.read(&robots, profile);
            // The pace is the same for every URL.
            let url = url.unwrap_or_else(|| b"/"[..].into());
            let ruling = ruling(&rules, agent.token(), &url);
            let is_tunnel = is_tunnelled(&defaults.https, &url);
            let pace = self.pace(&rules, agent.token(), profile, (defaults, is_tunnel))?;
            return Ok(Slot::Ready(rendered(&self.id, &ruling, pace, None)));
        }
        let url = url.ok_or_else(|| "there is no url".to_owned())?;
        let id = self.id.clone();
        let render =
            move |answer: Answer| rendered(&id, &answer.ruling, answer.pace, Some(&answer.robots));
        let profile = self.profile.or(defaults.profile);
        Ok(Slot::Pending(
            online.get().map_err(LineError::Setup)?.ask(&url, &agent, profile, render)?,
        ))
    }

    fn pace(
        &self,
        rules: &RobotsTxt,
        token: Option<&str>,
        profile: ProfileName,
        (defaults, is_tunnel): (&Defaults, bool),
    ) -> Result<Pace, String> {
        let profile = Profile::named(profile.as_str()).expect("the names are those of the table");
        let now = self.at.as_deref().map_or_else(|| Ok(SystemClock.wall()), time_of_day)?;
        let delay_max = self.settings.as_ref().and_then(|settings| settings.max_crawl_delay);
        let delay_max = delay_max.unwrap_or(defaults.pace.delay_max);
        let operator = OperatorPace { delay_max, is_tunnel, ..defaults.pace };
        Ok(Pace::of(rules, token, &profile, operator, now))
    }

    fn robots(&self) -> JsonBytes<'_> {
        JsonBytes {
            name: "robots",
            text: self.robots.as_deref(),
            base64: self.robots_b64.as_deref(),
            parts: self.robots_parts.as_deref(),
        }
    }

    fn url(&self) -> JsonBytes<'_> {
        JsonBytes {
            name: "url",
            text: self.url.as_deref(),
            base64: self.url_b64.as_deref(),
            parts: self.url_parts.as_deref(),
        }
    }
}

fn rendered(id: &Value, ruling: &Ruling, pace: Pace, robots: Option<&Robots>) -> Rendered<()> {
    line(&Reply { id, ruling, pace, robots })
}

/// A moment at `HH:MM` of some day.
fn time_of_day(text: &str) -> Result<Timestamp, String> {
    let message = || format!("at: \"{text}\" is no time of day; write it as \"07:30\"");
    let (hour, minute) = text.split_once(':').ok_or_else(message)?;
    let number = |text: &str, end: u64| text.parse().ok().filter(|number| *number < end);
    let hour: u64 = number(hour, 24).ok_or_else(message)?;
    let minute: u64 = number(minute, 60).ok_or_else(message)?;
    Ok(Timestamp::from_millis((hour * 60 + minute) * 60_000))
}

fn error_line(id: &Value, error: &str) -> Slot<()> {
    Slot::Ready(line(&ErrorLine { id, error }))
}

fn line(value: &impl Serialize) -> Rendered<()> {
    let text = serde_json::to_string(value).expect("answers are plain values");
    Rendered { text: text + "\n", note: () }
}

impl From<String> for LineError {
    fn from(message: String) -> Self {
        Self::Line(message)
    }
}

impl From<io::Error> for LineError {
    fn from(error: io::Error) -> Self {
        Self::Setup(error.into())
    }
}

/// One of three ways to write the same bytes.
pub struct JsonBytes<'a> {
    /// The name of the member, for errors.
    pub name: &'static str,
    pub text: Option<&'a str>,
    pub base64: Option<&'a str>,
    pub parts: Option<&'a [(Cow<'a, str>, u64)]>,
}

impl<'a> JsonBytes<'a> {
    /// `None`: none of them is given.
    pub fn read(&self) -> Result<Option<Cow<'a, [u8]>>, String> {
        let name = self.name;
        match (self.text, self.base64, self.parts) {
            (None, None, None) => Ok(None),
            (Some(text), None, None) => Ok(Some(Cow::Borrowed(text.as_bytes()))),
            (None, Some(base64), None) => match STANDARD.decode(base64) {
                Ok(bytes) => Ok(Some(Cow::Owned(bytes))),
                Err(error) => Err(format!("{name}_b64 is not base64: {error}")),
            },
            (None, None, Some(parts)) => self.expand(parts).map(|bytes| Some(Cow::Owned(bytes))),
            _ => Err(format!("more than one of {name}, {name}_b64 and {name}_parts is given")),
        }
    }

    /// Checks the length before expanding: a short line can specify any length.
    fn expand(&self, parts: &[(Cow<'_, str>, u64)]) -> Result<Vec<u8>, String> {
        let length = parts.iter().fold(0u64, |sum, (text, times)| {
            sum.saturating_add((text.len() as u64).saturating_mul(*times))
        });
        if length > BATCH_BYTES_MAX {
            return Err(format!(
                "{}_parts is {length} bytes long when written out; at most {BATCH_BYTES_MAX} are read",
                self.name
            ));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
        for (text, times) in parts.iter().filter(|(text, _)| !text.is_empty()) {
            (0..*times).for_each(|_| bytes.extend_from_slice(text.as_bytes()));
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(parts: &[(Cow<'static, str>, u64)]) -> Result<Option<Vec<u8>>, String> {
        let bytes = JsonBytes { name: "robots", text: None, base64: None, parts: Some(parts) };
        bytes.read().map(|read| read.map(Cow::into_owned))
    }

    #[test]
    fn parts_are_repeated_in_order() {
        let read = parts(&[("a".into(), 2), ("".into(), u64::MAX), ("b".into(), 1)]);
        assert_eq!(read, Ok(Some(b"aab".to_vec())));
    }

    #[test]
    fn what_would_not_fit_is_refused_before_it_is_written_out() {
        let message = parts(&[("ab".into(), u64::MAX), ("c".into(), 1)]).unwrap_err();
        assert!(message.contains("at most 67108864"), "{message}");
    }
}
