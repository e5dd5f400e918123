//! `courtesy audit query`: prints the records that match, those in the log or new ones.

use std::collections::VecDeque;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::filters::{FilterFlags, ProfileFlag};
use super::form::{Form, Layout, Printer};
use super::log_source::LogSourceFlags;
use super::search::{Hit, Search, Taken};
use crate::cli::exit::{Exit, Failure};

/// How often a reader that follows the log looks for more.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(250);

/// Records that a query for the last ones can be asked for: they are held until the end.
const QUERY_TAIL_MAX: i64 = 100_000;

/// The arguments of `courtesy audit query`.
#[derive(Args, Debug)]
#[command(after_help = "\
Of one flag given several times any value will do; of different flags, all must hold.

Examples:
  courtesy audit query --since 2h --origin '*.example.com'
  courtesy audit query --run last --reason disallow_rule --rule /private/
  courtesy audit query -f --agent ExampleBot
  courtesy audit query --since yesterday --exempted-by legal --format table | less
  courtesy audit query --event started --event stopped     when the proxy ran
  courtesy audit query --dir /logs/a --dir /logs/b     several logs, by time
  courtesy audit query --since 2026-11-01 --until 2026-11-30 --format csv > november.csv
  courtesy audit query -f --format ecs     as they come, for a system that gathers events
  courtesy audit query --format json | jq -r .url | sort | uniq -c | sort -n

The table's first column is what `courtesy audit show` takes. Times are UTC. JSON Lines are the very
lines of the log, hashes included. In CSV a cell that a spreadsheet would compute has an apostrophe
before it.

The hash of each record that matches is made again. One that was changed after being written is
marked with ! before its number in the table, printed as it is in JSON, left out of CSV and events
(ecs, ocsf, cef), and counted on standard error. Whether lines were removed or exchanged is for
courtesy audit verify to say.

Records are printed; what the log says of itself (notices), where --event names it. CSV and events
have records alone.

Exit codes: 0 done, whether or not there was any · 1 a line that matches was changed, or a line is
damaged and left out · 2 usage · 69 there is no log · 74 a part of it could not be read")]
pub struct QueryArgs {
    /// Read these files instead: segments, compressed or not, in any order; or dossiers or bundles, packed or not
    #[arg(value_name = "FILE", conflicts_with_all = ["run", "dir"])]
    files: Vec<PathBuf>,
    #[command(flatten)]
    filters: FilterFlags,
    #[command(flatten)]
    profile: ProfileFlag,
    /// [default: table on a terminal, else json]
    #[arg(long, value_enum)]
    format: Option<Form>,
    /// Cut nothing in a table; otherwise it is as wide as the terminal, or elsewhere as COLUMNS says [default: 100]
    #[arg(long)]
    wide: bool,
    /// Stop after N records
    #[arg(long, short = 'n', value_name = "N", conflicts_with = "tail")]
    limit: Option<u64>,
    /// Only the last N records
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=QUERY_TAIL_MAX))]
    tail: Option<u32>,
    /// Go on with records as they are written, until interrupted
    #[arg(long, short, conflicts_with = "files")]
    follow: bool,
    #[command(flatten)]
    place: LogSourceFlags,
}

impl QueryArgs {
    fn form(&self) -> Form {
        self.format.unwrap_or_else(Form::for_stdout)
    }
}

/// Runs `courtesy audit query`.
pub fn run(args: &QueryArgs) -> Result<Exit, Failure> {
    let logs = if args.follow {
        args.place.logs_to_come(&args.files)
    } else {
        args.place.logs(&args.files)
    }?;
    let with_nodes = logs.len() > 1;
    let filter = args.filters.filter_with(&args.profile);
    args.form().check(&filter)?;
    let mut search = Search::new(logs, filter)?.with_notices();
    match print(args, &mut search, with_nodes) {
        Err(failure) if failure.is_broken_pipe() => Ok(Exit::Done),
        outcome => outcome.map(|changed_are| search.conclude(changed_are)),
    }
}

/// `with_nodes`: the table names the proxy that wrote each line. Returns what was done with changed
/// lines.
fn print(args: &QueryArgs, search: &mut Search, with_nodes: bool) -> Result<&'static str, Failure> {
    let is_terminal = io::stdout().is_terminal();
    let output = BufWriter::with_capacity(64 << 10, io::stdout().lock());
    let layout = if args.wide { Layout::wide() } else { Layout::of_output(is_terminal) };
    let layout = if with_nodes { layout.with_nodes() } else { layout };
    let printer = Printer::new(args.form(), output, is_terminal, layout)?;
    let mut counter = Counter { printer, left: args.limit.unwrap_or(u64::MAX) };
    let mut goes_on = match args.tail {
        None => counter.left > 0 && search.run(&mut |hit| counter.print(hit))?.is_continue(),
        Some(count) => {
            for (line, log) in last(count, search)? {
                counter.print(Hit::new(&line, log))?;
            }
            true
        }
    };
    counter.printer.flush()?;
    while args.follow && goes_on && is_read() {
        goes_on = search.run(&mut |hit| counter.print(hit))?.is_continue();
        counter.printer.flush()?;
    }
    Ok(counter.printer.changed_are())
}

/// Prints as many records as are wanted.
struct Counter<W: Write> {
    printer: Printer<W>,
    left: u64,
}

impl<W: Write> Counter<W> {
    fn print(&mut self, hit: Hit<'_>) -> Result<Taken, Failure> {
        let taken = self.printer.print(hit)?;
        if taken == Taken::Good {
            self.left -= 1;
        }
        Ok(if self.left == 0 { Taken::Enough } else { taken })
    }
}

/// The last lines that match, each with the log that has it.
fn last(count: u32, search: &mut Search) -> Result<VecDeque<(Vec<u8>, usize)>, Failure> {
    let mut lines = VecDeque::new();
    let _ = search.run(&mut |hit| {
        // The one that falls out is written over: no more is ever asked of the allocator.
        let is_full = lines.len() == count as usize;
        let (mut kept, _): (Vec<u8>, _) =
            if is_full { lines.pop_front().unwrap_or_default() } else { Default::default() };
        kept.clear();
        kept.extend_from_slice(hit.line);
        lines.push_back((kept, hit.log));
        lines.truncate(count as usize);
        Ok(Taken::Good)
    })?;
    Ok(lines)
}

/// Waits until the next look. False: the reader of the output has closed it.
fn is_read() -> bool {
    let stdout = io::stdout();
    let wait = Timespec::try_from(FOLLOW_INTERVAL).ok();
    // Poll reports a closed reader without being asked.
    let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
    match poll(&mut fds, wait.as_ref()) {
        Ok(_) => !fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL),
        Err(error) => error == rustix::io::Errno::INTR,
    }
}
