//! `courtesy audit export --format dossier`: what the log has about one site, as one file for its owner,
//! with a page to read.

use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;

use askama::Template;

use super::difference::Difference;
use super::filters::print_until;
use super::head;
use super::history::file_of;
use super::line_selector::LastLine;
use super::log_source::{LogSourceFlags, identity};
use super::remarks::remark;
use super::report::words::{minute, number, plural, second};
use super::verify::Heads;
use crate::audit::checkpoint::{self, Checkpoint};
use crate::audit::read::dossier::{DossierError, DossierRequest, Selection};
use crate::audit::read::filter::Place;
use crate::audit::read::history::{FileHistory, History, SiteHistory};
use crate::audit::read::{Filter, Log};
use crate::audit::tree::Tree;
use crate::audit::{Content, Event, Record, RobotsStatus, SiteCounts};
use crate::cli::exit::{Exit, Failure, OrExit};
use crate::runtime::clock::{Clock, SystemClock};

/// Rows of requests that were forwarded although disallowed.
const ROWS_MAX: usize = 500;

/// Lines of a difference that are shown at once.
const SHORT: usize = 12;

#[derive(Template)]
#[template(path = "dossier.html", config = "src/templates/askama.toml")]
struct DossierPage {
    origin: String,
    period: Option<String>,
    facts: Vec<(&'static str, String)>,
    size: String,
    checkpoint: String,
    made_at: String,
    version: &'static str,
    /// Those that have a number somewhere, and their places in the rows.
    columns: Vec<(&'static str, usize)>,
    versions: Vec<VersionView>,
    forwarded: Vec<ForwardedRow>,
    more: usize,
}

/// A version of a robots.txt, as pages show it.
pub struct VersionView {
    pub title: String,
    pub sha256: Option<String>,
    pub times: String,
    pub asked_as: Option<String>,
    pub rows: Vec<AgentRow>,
    /// How many lines were added and removed.
    pub difference: Option<String>,
    pub is_short: bool,
    /// Whether it was added, or removed.
    pub lines: Vec<(bool, String)>,
}

/// What one agent asked under it.
pub struct AgentRow {
    pub agent: String,
    /// In the order of the columns of the page.
    pub cells: [String; COLUMNS],
}

struct ForwardedRow {
    time: String,
    seq: String,
    agent: String,
    what: String,
    why: String,
}

const COLUMNS: usize = 9;
/// Columns that are there without a number, too.
const ALWAYS: usize = 3;
const TITLES: [&str; COLUMNS] = [
    "Asked",
    "Allowed",
    "Denied",
    "Forwarded all the same",
    "Too early",
    "Held",
    "2xx, 3xx",
    "4xx, 5xx",
    "Bytes",
];

/// What is to be written.
#[derive(Debug)]
pub struct Dossier {
    log: Log,
    selection: Selection,
    filter: Filter,
    origin: String,
    checkpoint: Checkpoint,
    note: String,
    key: Option<String>,
    published: Vec<(u64, String)>,
    page: String,
}

impl Dossier {
    /// Of the only log in `logs`, about the only site of `filter`.
    pub fn of(
        logs: &[Log],
        filter: &Filter,
        place: &LogSourceFlags,
        heads: &[Heads],
    ) -> Result<Self, Failure> {
        let [log] = logs else {
            let why =
                "a dossier is of one log, for each has its own tree: give one --dir at a time";
            return Err(anyhow::anyhow!(why)).or_exit(Exit::Usage);
        };
        let (since, until) = (filter.since, filter.until);
        let alone = Filter { since, until, origins: filter.origins.clone(), ..Filter::default() };
        let origin = match filter.origins.as_slice() {
            [Place::Origin(origin)] if alone == *filter => origin.to_string(),
            _ => {
                let why = "a dossier is of one site: name it by --origin https://example.com, and the time by \
                           --since and --until; there are no other filters";
                return Err(anyhow::anyhow!(why)).or_exit(Exit::Usage);
            }
        };
        let (checkpoint, note, key) = checkpoint_of(log, place)?;
        let selection = Selection::of(log, filter, checkpoint.head.seq)?;
        let published = heads.iter().flat_map(|heads| &heads.0).map(|given| {
            let signed = given.signed.as_ref();
            signed.map(|signed| (signed.checkpoint.head.seq, signed.to_string()))
        });
        let published: Vec<_> = published
            .collect::<Option<_>>()
            .ok_or_else(|| {
                anyhow::anyhow!("--head: a dossier shows checkpoints, not heads as SEQ:HASH")
            })
            .or_exit(Exit::Usage)?;
        let page = page(&origin, filter, log, &selection, &checkpoint);
        let (log, filter) = (log.clone(), filter.clone());
        Ok(Self { log, selection, filter, origin, checkpoint, note, key, published, page })
    }

    /// Writes it.
    pub fn write(&self, output: impl Write) -> Result<Exit, Failure> {
        self.selection.write(
            &self.log,
            &DossierRequest {
                origin: &self.origin,
                filter: &self.filter,
                checkpoint: &self.checkpoint,
                note: &self.note,
                key: self.key.as_deref(),
                published: &self.published,
                report: &self.page,
            },
            output,
        )?;
        let damaged = self.selection.damaged;
        if damaged > 0 {
            remark(format!(
                "warning: {} damaged and left out; see courtesy audit verify",
                plural(damaged, "line")
            ));
        }
        Ok(if damaged > 0 { Exit::No } else { Exit::Done })
    }
}

impl From<DossierError> for Failure {
    fn from(error: DossierError) -> Self {
        let exit = match error {
            DossierError::Read(error) => return error.into(),
            DossierError::Output(error) => return error.into(),
            DossierError::TooLarge => Exit::Usage,
            DossierError::Nothing | DossierError::OtherTree => Exit::No,
        };
        Self { exit, error: error.into() }
    }
}

/// The checkpoint of the log as it stands, its note, and the key that the log names. Without a key that signs, the
/// note has no signature.
fn checkpoint_of(
    log: &Log,
    place: &LogSourceFlags,
) -> Result<(Checkpoint, String, Option<String>), Failure> {
    let LastLine { head, time, .. } = head::find(log.clone())?;
    if let Some(signed) = head::sign(place, log, head.clone(), time)? {
        let key = super::log_source::key(log).map(|key| key.to_string());
        return Ok((signed.checkpoint.clone(), signed.to_string(), key));
    }
    let id = identity(log)
        .ok_or_else(|| {
            anyhow::anyhow!("the log has no identity yet: it has one from the next start on")
        })
        .or_exit(Exit::No)?;
    let tree = Tree::of_log(&log.dir(), head.seq).or_exit(Exit::InputOutput)?;
    let origin = checkpoint::origin(None, id);
    let checkpoint = Checkpoint { origin, head, root: tree.root(), time };
    let note = format!("{}\n", checkpoint.text());
    Ok((checkpoint, note, None))
}

fn page(
    origin: &str,
    filter: &Filter,
    log: &Log,
    selection: &Selection,
    checkpoint: &Checkpoint,
) -> String {
    let (mut history, mut forwarded, mut more) = (History::default(), Vec::new(), 0);
    for (_, line) in &selection.lines {
        let Ok(content) = Content::parse(line.trim_ascii_end()) else { continue };
        history.add(&content, 0);
        if let Content::Record(record) = content
            && record.event != Event::Denied
        {
            if forwarded.len() < ROWS_MAX {
                forwarded.push(ForwardedRow::of(&record));
            } else {
                more += 1;
            }
        }
    }
    let site = history.sites.remove(origin).unwrap_or_default();
    let versions = versions(&site, &[log.dir()]);
    let page = DossierPage {
        origin: origin.to_owned(),
        period: period(filter),
        facts: facts(&site, forwarded.len() + more),
        size: number(checkpoint.head.seq),
        checkpoint: checkpoint.origin.clone(),
        made_at: minute(SystemClock.wall()),
        version: env!("CARGO_PKG_VERSION"),
        columns: columns(&versions),
        versions,
        forwarded,
        more,
    };
    page.render().expect("a text can be written to") + "\n"
}

/// The columns that have a number somewhere, with their places in the rows.
pub fn columns(versions: &[VersionView]) -> Vec<(&'static str, usize)> {
    let rows = || versions.iter().flat_map(|version| &version.rows);
    let is_used = |at: usize| at < ALWAYS || rows().any(|row| row.cells[at] != "0");
    TITLES
        .into_iter()
        .enumerate()
        .filter(|(at, _)| is_used(*at))
        .map(|(at, title)| (title, at))
        .collect()
}

fn period(filter: &Filter) -> Option<String> {
    let mut text = String::new();
    if let Some(since) = filter.since {
        let _ = write!(text, "from {} UTC", minute(since));
    }
    if let Some(until) = filter.until {
        let _ = write!(text, " until {} UTC", print_until(until));
    }
    (!text.is_empty()).then(|| text.trim().to_owned())
}

/// The sums of a site.
pub fn facts(site: &SiteHistory, forwarded: usize) -> Vec<(&'static str, String)> {
    let asked = site.versions.iter().filter_map(|version| version.asked.as_ref());
    let all = asked.cloned().reduce(|mut sum, more| {
        sum.add(&more);
        sum
    });
    let count = |of: fn(&SiteCounts) -> u64| number(all.as_ref().map_or(0, of));
    let mut facts = Vec::new();
    // Without a count, as after a kill in the first minutes, nothing is known of those.
    if all.is_some() {
        facts = vec![
            ("Asked", count(SiteCounts::asked)),
            ("Allowed", count(|it| it.allowed)),
            ("Denied", count(|it| it.denied)),
        ];
    }
    facts.push(("Forwarded all the same", number(forwarded as u64)));
    facts.push(("Files", number(site.versions.len() as u64)));
    facts
}

/// The versions of a robots.txt, each with what it changed, from the evidence in `dirs`.
pub fn versions(site: &SiteHistory, dirs: &[PathBuf]) -> Vec<VersionView> {
    let mut before: Option<Vec<String>> = None;
    let of = |version: &FileHistory| {
        let file = file_of(version, dirs).ok();
        let (mut lines, mut said) = (Vec::new(), None);
        match (&file, &before) {
            (Some(file), Some(before)) => {
                let Difference { lines: changed, added, removed } = Difference::of(before, file);
                said = Some(format!("{} added, {removed} removed", plural(added as u64, "line")));
                lines = changed;
            }
            (Some(file), None) => {
                said = Some(plural(file.len() as u64, "line"));
                lines = file.iter().map(|line| (true, line.clone())).collect();
            }
            (None, _) => {}
        }
        before = file.or(before.take());
        VersionView {
            title: title(version),
            sha256: version.sha256.clone(),
            times: format!("{} to {} UTC", second(version.first), second(version.last)),
            asked_as: asked_as(version),
            rows: rows(version),
            difference: said,
            is_short: lines.len() <= SHORT,
            lines,
        }
    };
    site.versions.iter().map(of).collect()
}

fn title(version: &FileHistory) -> String {
    match (&version.sha256, version.state) {
        (Some(_), _) => "robots.txt".into(),
        (None, RobotsStatus::Unavailable) => {
            format!("No robots.txt ({})", version.cause.as_deref().unwrap_or_default())
        }
        (None, _) => {
            format!("robots.txt cannot be had ({})", version.cause.as_deref().unwrap_or_default())
        }
    }
}

fn asked_as(version: &FileHistory) -> Option<String> {
    let agents: Vec<_> = version.asked_as.iter().map(String::as_str).collect();
    (!agents.is_empty()).then(|| format!("as fetched for {}", agents.join(", ")))
}

fn rows(version: &FileHistory) -> Vec<AgentRow> {
    let mut agents: Vec<_> = version.agents.iter().collect();
    agents.sort_by_key(|(_, asked)| std::cmp::Reverse(asked.asked()));
    let all = version.asked.as_ref().filter(|_| agents.len() > 1);
    let all = all.map(|asked| AgentRow { agent: "all".into(), cells: cells(asked) });
    let each = agents.into_iter().map(|(agent, asked)| AgentRow {
        agent: agent.clone().unwrap_or_else(|| "without an agent".into()),
        cells: cells(asked),
    });
    each.chain(all).collect()
}

fn cells(asked: &SiteCounts) -> [String; COLUMNS] {
    let of = |classes: [&str; 2]| -> u64 {
        classes.iter().filter_map(|class| asked.statuses.get(*class)).sum()
    };
    [
        asked.asked(),
        asked.allowed,
        asked.denied,
        asked.forwarded(),
        asked.resting,
        asked.paced,
        of(["2xx", "3xx"]),
        of(["4xx", "5xx"]),
        asked.bytes,
    ]
    .map(number)
}

impl ForwardedRow {
    fn of(record: &Record) -> Self {
        let rule = record.rule.as_ref().map_or_else(
            || record.reason.row().label.to_owned(),
            |rule| format!("line {}, \"{}: {}\"", rule.line, rule.directive, rule.pattern),
        );
        let why = match (record.event, &record.exemption) {
            (_, Some(exemption)) => {
                format!("{rule}; exempted by {}: {}", exemption.by, exemption.reason)
            }
            (Event::WouldDeny, _) => format!("{rule}; observed, not enforced"),
            _ => rule,
        };
        Self {
            time: second(record.time),
            seq: number(record.seq),
            agent: record.agent.clone().unwrap_or_else(|| "-".into()),
            what: format!("{} {}", record.method, record.url),
            why,
        }
    }
}
