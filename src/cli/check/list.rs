//! `check` for URLs from the command line, or one per line from standard input: results in their
//! order, for people or as JSON Lines, and one exit code for all of them.

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;

use serde_json::json;

use super::agent::AgentKind;
use super::answer::{Answer, Outcome, printable};
use super::args::{CheckArgs, usage};
use super::explain;
use super::feed::{Feed, Next};
use super::given::Given;
use super::ordered::{OrderedOutput, Rendered, Slot};
use super::query::{Defaults, LazyOnline};
use crate::audit::Record;
use crate::cli::exit::{Exit, Failure};
use crate::cli::paint::Paint;

/// Bytes of a line in a list of URLs.
const LISTED_URL_BYTES_MAX: usize = 1 << 20;

/// The result of a URL. `None`: it is invalid.
type Note = Option<Outcome>;

/// Runs `courtesy check` over a list of URLs.
pub fn run(
    args: &CheckArgs,
    output: impl Write,
    defaults: &Defaults,
    online: &LazyOnline,
) -> Result<Exit, Failure> {
    let reads_urls = args.reads_urls();
    if reads_urls && args.reads_robots() {
        usage("standard input can be the robots.txt or the list of URLs, not both");
    }
    if let Err(message) = defaults.agent.identification() {
        usage(&message);
    }
    let given = args.robots.as_deref().map(|file| Given::read(file, defaults)).transpose()?;
    let form = if args.json { Form::Json } else { Form::Text(Paint::for_stdout()) };
    let asker = Asker { defaults, online, given, form };
    let mut ordered = OrderedOutput::new(output);
    if let Form::Text(paint) = form {
        ordered.head(&asker.introduction(paint))?;
    }
    if reads_urls {
        asker.read_list(&mut ordered)?;
    } else {
        for url in &args.urls {
            ordered.push(asker.ask(url.as_bytes())?)?;
        }
    }
    ordered.settle()?;
    Ok(exit_code(ordered.notes()))
}

/// The most severe of them, in the order of what the caller has to do about it.
fn exit_code(notes: &[Note]) -> Exit {
    let has = |note: Note| notes.contains(&note);
    if has(None) {
        Exit::Usage
    } else if has(Some(Outcome::Disallow)) {
        Exit::No
    } else if has(Some(Outcome::Undecided)) {
        Exit::Undecided
    } else {
        Exit::Done
    }
}

#[derive(Clone, Copy)]
enum Form {
    Text(Paint),
    Json,
}

struct Asker<'a> {
    defaults: &'a Defaults,
    online: &'a LazyOnline,
    given: Option<Given>,
    form: Form,
}

impl Asker<'_> {
    /// The agent, if it is not what was typed.
    fn introduction(&self, paint: Paint) -> String {
        let agent = &self.defaults.agent;
        if agent.kind() == AgentKind::Token {
            return String::new();
        }
        let text = printable(agent.text());
        let line = match agent.token() {
            Some(token) => format!("as {}, from the User-Agent \"{text}\"", printable(token)),
            None => {
                format!("as no agent in particular: the User-Agent \"{text}\" names no product")
            }
        };
        format!("{}\n", paint.faint(line))
    }

    fn read_list(&self, ordered: &mut OrderedOutput<impl Write, Note>) -> Result<(), Failure> {
        let mut feed = Feed::new(io::stdin().lock(), LISTED_URL_BYTES_MAX);
        loop {
            if !feed.has_line() {
                ordered.settle()?;
            }
            let slot = match feed.next()? {
                Next::End => return Ok(()),
                Next::Line(line) => match without_comment(line) {
                    b"" => continue,
                    url => self.ask(url)?,
                },
                Next::TooLong => self.refuse(
                    b"a line",
                    &format!(
                        "it is longer than {LISTED_URL_BYTES_MAX} bytes, so it has been skipped"
                    ),
                ),
            };
            ordered.push(slot)?;
        }
    }

    fn ask(&self, url: &[u8]) -> Result<Slot<Note>, Failure> {
        let Defaults { agent, profile, .. } = self.defaults;
        let form = self.form;
        if let Some(given) = &self.given {
            return Ok(match given.answer(url, agent.token()) {
                Ok(answer) => Slot::Ready(form.tell(&answer)),
                Err(why) => self.refuse(url, &why),
            });
        }
        let asked = self.online.get()?.ask(url, agent, *profile, move |answer| form.tell(&answer));
        Ok(asked.map_or_else(|why| self.refuse(url, &why), Slot::Pending))
    }

    fn refuse(&self, url: &[u8], why: &str) -> Slot<Note> {
        let (url, why) = (Record::url(url), printable(why));
        let text = match self.form {
            Form::Text(paint) => explain::refused(&url, &why, paint),
            Form::Json => format!("{}\n", json!({ "url": url, "error": why })),
        };
        Slot::Ready(Rendered { text, note: None })
    }
}

/// A line of a list without blanks around it and without its comment, which begins at a `#` that is
/// not within a URL.
fn without_comment(line: &[u8]) -> &[u8] {
    let mut ends = memchr::memchr_iter(b'#', line);
    let end = ends.find(|&at| at == 0 || line[at - 1].is_ascii_whitespace());
    line[..end.unwrap_or(line.len())].trim_ascii()
}

impl Form {
    fn tell(self, answer: &Answer) -> Rendered<Note> {
        let text = match self {
            Self::Text(paint) => explain::explain(answer, paint),
            Self::Json => serde_json::to_string(answer).expect("answers are plain values") + "\n",
        };
        Rendered { text, note: Some(answer.ruling.decision) }
    }
}
