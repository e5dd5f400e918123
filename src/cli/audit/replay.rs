//! `courtesy audit replay`: makes the recorded decisions again from the evidence.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use serde_json::{Value, json};

use super::filters::FilterFlags;
use super::form::{only_records, printable};
use super::log_source::LogSourceFlags;
use super::search::{Search, Taken};
use crate::audit::read::Log;
use crate::audit::read::replay::{Count, Replay, Replayed};
use crate::audit::{
    AllowedEvent, ChangedEvent, Content, Notice, PacedEvent, Record, Robots, RobotsStatus,
    print_time,
};
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{Form, KnownWords};
use crate::config::ProfileName;
use crate::policy::profile::{self, Profile, VERSION};

/// The arguments of `courtesy audit replay`.
#[derive(Args, Debug)]
#[command(after_help = "\
Each record, and each line of an allowed request (audit.allowed), is decided from what it names and
from its evidence alone: no network, no settings. So are the delays that a robots.txt asks for
(paced) and the changes of one (changed) made again: what was added and removed, of which kind, for
whom. With --profile these are left out.

Examples:
  courtesy audit replay                      # the same answers, or exit 1
  courtesy audit replay --profile google     # what another reading of robots.txt would have done
  courtesy audit replay --since 7d --origin '*.example.com'
  courtesy audit replay --origin example.com --robots 94a5e2ad…    # by another version of the file
  courtesy audit replay --run last --format json | jq 'select(.outcome == \"differs\")'

courtesy audit history names the versions of a site's robots.txt by their SHA-256.

Exit codes: 0 as recorded (with --profile or --robots: also where it differs) · 1 an answer
differs, evidence or a record is missing or was changed, or a line is damaged and left out · 74 a
part of the log could not be read")]
pub struct ReplayArgs {
    /// Read these files, dossiers or bundles alone [default: all of the log]
    #[arg(value_name = "FILE", conflicts_with_all = ["run", "dir"])]
    files: Vec<PathBuf>,
    /// Decide under this profile instead of the one that each record names
    #[arg(long, value_name = "NAME", value_parser = KnownWords::new(&[ProfileName::WORDS], ProfileName::from_str))]
    profile: Option<ProfileName>,
    /// Decide under this robots.txt of the log's evidence, by its SHA-256, instead of the one that each record names
    #[arg(long, value_name = "SHA256", value_parser = whole_digest)]
    robots: Option<String>,
    /// Print no more than N of the records that come out otherwise [default: all]
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    #[arg(long, value_enum, default_value_t)]
    format: Form,
    #[command(flatten)]
    filters: FilterFlags,
    #[command(flatten)]
    place: LogSourceFlags,
}

/// Runs `courtesy audit replay`.
pub fn run(args: &ReplayArgs) -> Result<Exit, Failure> {
    match decide_all(args) {
        // A closed reader is no error.
        Err(failure) if failure.is_broken_pipe() => Ok(Exit::Done),
        outcome => outcome,
    }
}

fn decide_all(args: &ReplayArgs) -> Result<Exit, Failure> {
    let logs = args.place.logs(&args.files)?;
    let dirs: Vec<_> = logs.iter().map(Log::dir).collect();
    let replay = match args.profile {
        Some(name) => Replay::under(
            &dirs[0],
            Profile::named(name.as_str()).expect("the names are those of the table"),
        ),
        None => Replay::recorded(&dirs[0], |name, version, changes| {
            profile::recorded(name, version, changes)
        }),
    };
    let mut replay = dirs[1..].iter().fold(replay, |replay, dir| replay.and(dir));
    let output = BufWriter::new(io::stdout().lock());
    let mut account = Account { args, output, count: Count::default(), printed: 0 };
    let filter = args.filters.filter();
    // Delays and changes are of the file and the profiles that they name.
    let is_as_recorded = args.profile.is_none() && args.robots.is_none();
    let words: &[_] = if is_as_recorded { &MADE_AGAIN } else { &[AllowedEvent::WORD] };
    only_records(&filter, words, "records are decided again", "--format json")?;
    let mut search = Search::new(logs, filter)?.with_notices_of(words);
    // It reads to the end, whatever is found.
    let _ = search.run(&mut |hit| {
        if hit.is_changed {
            return Ok(Taken::Good);
        }
        match Content::parse(hit.line) {
            Ok(Content::Record(mut record)) => {
                args.exchange_file(&mut record);
                account.add(&record, &replay.again_of(hit.log, &record))?;
            }
            Ok(Content::Notice(Notice::Allowed(mut allowed))) => {
                args.exchange_file(&mut allowed);
                account.add(&allowed, &replay.allowed_again_of(hit.log, &allowed))?;
            }
            Ok(Content::Notice(notice)) => {
                let outcome = match &notice {
                    Notice::Paced(paced) => replay.paced_again_of(hit.log, paced),
                    Notice::Changed(changed) => replay.changed_again_of(hit.log, changed),
                    _ => return Ok(Taken::Damaged),
                };
                account.add_notice(&notice, &outcome)?;
            }
            Err(_) => return Ok(Taken::Damaged),
        }
        Ok(Taken::Good)
    })?;
    let Account { mut output, count, .. } = account;
    match args.format {
        Form::Text => write!(output, "{}", summary(&count, args))?,
        Form::Json => writeln!(
            output,
            "{}",
            json!({ "profile": args.profile, "robots": args.robots, "summary": count })
        )?,
    }
    output.flush()?;
    let differs = is_as_recorded && count.differing() + count.other_notices > 0;
    let read = search.conclude("not decided again");
    Ok(if differs || count.no_evidence > 0 { Exit::No } else { read })
}

impl ReplayArgs {
    /// Puts the robots.txt that is asked for in place of what decided, as if it had been fetched then.
    fn exchange_file<E, R>(&self, record: &mut Record<E, R>) {
        let (Some(sha256), Some(robots)) = (&self.robots, &mut record.robots) else { return };
        let fetched_at = robots.tried;
        let until = (robots.sha256.is_some()).then_some(robots.next_try).flatten();
        let exchanged = Robots {
            cause: None,
            cut: false,
            failed_capture: None,
            failures: None,
            fetched_at,
            next_try: until.or(Some(record.time)),
            result: Some("successful".into()),
            sha256: Some(sha256.clone()),
            since: fetched_at,
            site_up: None,
            state: RobotsStatus::Rules,
            status: Some(200),
            ..Robots::clone(robots)
        };
        *robots = exchanged.into();
    }
}

/// A whole SHA-256 in hexadecimal.
fn whole_digest(text: &str) -> Result<String, String> {
    let is_whole = text.len() == 64 && text.bytes().all(|it| it.is_ascii_hexdigit());
    is_whole
        .then(|| text.to_ascii_lowercase())
        .ok_or_else(|| "write the 64 digits, as courtesy audit history prints them".into())
}

/// What comes out, as it is printed and counted.
struct Account<'a, W> {
    args: &'a ReplayArgs,
    output: W,
    count: Count,
    /// Lines so far.
    printed: u64,
}

impl<W: Write> Account<'_, W> {
    fn add<E, R>(&mut self, record: &Record<E, R>, outcome: &Replayed) -> io::Result<()> {
        self.count.add(record, outcome);
        let Record { seq, id, url, agent, .. } = record;
        let what = format!("{seq} {id} {} {url}", agent.as_deref().unwrap_or("-"));
        let members = || {
            json!({
                "seq": seq, "id": id, "time": print_time(record.time), "url": url, "agent": agent,
                "profile": record.profile,
            })
        };
        self.print(&what, members, outcome)
    }

    fn add_notice(&mut self, notice: &Notice, outcome: &Replayed) -> io::Result<()> {
        self.count.add_notice(outcome);
        let (seq, event, origin) = (notice.seq(), notice.word(), notice.origin());
        let what = format!("{seq} {event} {}", origin.unwrap_or("-"));
        let members = || {
            json!({
                "seq": seq, "event": event, "time": print_time(notice.time()), "origin": origin,
            })
        };
        self.print(&what, members, outcome)
    }

    fn print(
        &mut self,
        what: &str,
        members: impl FnOnce() -> Value,
        outcome: &Replayed,
    ) -> io::Result<()> {
        if !is_worth_a_line(outcome) || self.args.limit.is_some_and(|limit| self.printed >= limit) {
            return Ok(());
        }
        self.printed += 1;
        match self.args.format {
            Form::Text => writeln!(self.output, "{what}: {}", words(outcome)),
            Form::Json => writeln!(self.output, "{}", object(members(), outcome)),
        }
    }
}

/// Notices that are decided or made again.
const MADE_AGAIN: [&str; 3] = [AllowedEvent::WORD, PacedEvent::WORD, ChangedEvent::WORD];

const fn is_worth_a_line(outcome: &Replayed) -> bool {
    !matches!(outcome, Replayed::Same | Replayed::NotOfRobots(_))
}

fn words(outcome: &Replayed) -> String {
    match outcome {
        Replayed::Differs { was, is } => format!("{was} → {is}"),
        Replayed::OtherNotice { was, is } => printable(&format!("{was} → {is}")),
        Replayed::Undecidable(why) => format!("cannot be decided again: {why}"),
        Replayed::NoEvidence(what) => format!("no evidence: {what}"),
        Replayed::Same | Replayed::NotOfRobots(_) => "as recorded".into(),
    }
}

fn object(mut members: Value, outcome: &Replayed) -> Value {
    let (word, was, is, why) = match outcome {
        Replayed::Differs { was, is } => {
            ("differs", Some(was.to_string()), Some(is.to_string()), None)
        }
        Replayed::OtherNotice { was, is } => ("differs", Some(was.clone()), Some(is.clone()), None),
        Replayed::Undecidable(why) => ("undecidable", None, None, Some(why)),
        Replayed::NoEvidence(what) => ("no_evidence", None, None, Some(what)),
        Replayed::Same | Replayed::NotOfRobots(_) => ("as_recorded", None, None, None),
    };
    for (name, value) in
        [("outcome", json!(word)), ("was", json!(was)), ("is", json!(is)), ("why", json!(why))]
    {
        members[name] = value;
    }
    members
}

fn summary(count: &Count, args: &ReplayArgs) -> String {
    let differ = match (args.profile, &args.robots) {
        (None, None) => "differ from what was recorded".to_owned(),
        (None, Some(_)) => "come out otherwise under that robots.txt".to_owned(),
        (Some(name), None) => format!("come out otherwise under {name}"),
        (Some(name), Some(_)) => format!("come out otherwise under {name} and that robots.txt"),
    };
    let mut lines = vec![format!(
        "{} records: {} the same, {} {differ}",
        count.records,
        count.same,
        count.differing()
    )];
    let mut say = |number: u64, what: &str| {
        if number > 0 {
            lines.push(format!("  {number} {what}"));
        }
    };
    say(count.allowed, "would be allowed");
    say(count.other_basis, "would be disallowed on another basis");
    for (reason, number) in &count.not_of_robots {
        say(*number, &format!("do not rest on robots.txt ({reason})"));
    }
    say(count.same_notices, "notices of delays and changes say what their evidence does");
    say(
        count.other_notices,
        "notices of delays and changes say something else than their evidence",
    );
    say(count.undecidable, "do not tell enough to be decided again");
    say(count.no_evidence, "have lost their evidence");
    let version =
        format!("were made by a newer version of the profiles than {VERSION}, this program's");
    say(count.other_version, &version);
    lines.join("\n") + "\n"
}
