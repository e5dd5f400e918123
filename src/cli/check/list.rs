//! `check` for URLs from the command line, or one per line from standard input: results in their
//! order, for people or as JSON Lines, and one exit code for all of them.

use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use serde_json::json;

use super::answer::{Answer, OperatorPace, Outcome, Pace, Robots, is_tunnelled, printable};
use super::args::{AgentKind, CheckArgs, usage};
use super::online::{Defaults, LazyOnline, Library, ruling};
use super::stream::{Feed, Next, OrderedOutput, Rendered, Slot};
use crate::audit::{Record, read_as_clause};
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{BATCH_BYTES_MAX, Paint, human_duration};
use crate::config::ProfileName;
use crate::policy::profile::Profile;
use crate::proxy::Https;
use crate::robots::RobotsTxt;
use crate::runtime::clock::{Clock, SystemClock};

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
    let checker = UrlChecker { defaults, online, given, form };
    let mut ordered = OrderedOutput::new(output);
    if let Form::Text(paint) = form {
        ordered.head(&checker.agent_note(paint))?;
    }
    if reads_urls {
        checker.read_list(&mut ordered)?;
    } else {
        for url in &args.urls {
            ordered.push(checker.ask(url.as_bytes())?)?;
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

struct UrlChecker<'a> {
    defaults: &'a Defaults,
    online: &'a LazyOnline,
    given: Option<Given>,
    form: Form,
}

impl UrlChecker<'_> {
    /// The agent, if it is not what was typed.
    fn agent_note(&self, paint: Paint) -> String {
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
                Ok(answer) => Slot::Ready(form.render(&answer)),
                Err(why) => self.refuse(url, &why),
            });
        }
        let asked =
            self.online.get()?.ask(url, agent, *profile, move |answer| form.render(&answer));
        Ok(asked.map_or_else(|why| self.refuse(url, &why), Slot::Pending))
    }

    fn refuse(&self, url: &[u8], why: &str) -> Slot<Note> {
        let (url, why) = (Record::url(url), printable(why));
        let text = match self.form {
            Form::Text(paint) => refused(&url, &why, paint),
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
    fn render(self, answer: &Answer) -> Rendered<Note> {
        let text = match self {
            Self::Text(paint) => explain(answer, paint),
            Self::Json => serde_json::to_string(answer).expect("answers are plain values") + "\n",
        };
        Rendered { text, note: Some(answer.ruling.decision) }
    }
}

/// The whole explanation with line ends.
pub fn explain(answer: &Answer, paint: Paint) -> String {
    let mut lines = vec![headline(answer.ruling.decision, &answer.url, paint)];
    lines.extend(why(answer, paint).into_iter().map(|line| format!("  {line}")));
    lines.join("\n") + "\n"
}

/// A query that could not be made.
pub fn refused(url: &str, why: &str, paint: Paint) -> String {
    format!("{}  {url}\n  {why}\n", paint.doubtful("refused"))
}

fn headline(outcome: Outcome, url: &str, paint: Paint) -> String {
    let word = match outcome {
        Outcome::Allow => paint.good("allow   "),
        Outcome::Disallow => paint.bad("disallow"),
        Outcome::Undecided => paint.doubtful("undecided"),
    };
    format!("{word}  {}", paint.strong(url))
}

fn why(answer: &Answer, paint: Paint) -> Vec<String> {
    let (basis, robots) = (&answer.ruling.basis, &answer.robots);
    let url = &robots.url;
    let cause = basis.cause.as_deref().unwrap_or_default();
    let mut lines = match (basis.reason, &basis.group) {
        ("rule", _) => by_rule(answer, paint),
        ("no_rule", Some(group)) => {
            vec![format!(
                "no rule of the group \"{}\" (line {}) of {url} matches",
                group.token, group.line
            )]
        }
        ("no_group", _) => vec![format!("no group of {url} applies to this agent")],
        ("robots_txt_itself", _) => {
            vec!["a robots.txt may always be fetched (RFC 9309 §2.2.2)".into()]
        }
        ("unavailable", _) => vec![format!("{url} is not to be had: {cause} (RFC 9309 §2.3.1.3)")],
        ("unreachable" | "long_unreachable", _) => unreachable(answer, cause),
        _ => vec![cause.to_owned()],
    };
    lines.extend(robots.oddity.clone());
    lines.extend(answer.pace.line().filter(|_| answer.ruling.decision == Outcome::Allow));
    let let_through = answer.let_through.as_ref();
    lines.extend(let_through.map(|setting| format!("but the proxy lets it through, by {setting}")));
    let group = basis.group.as_ref().filter(|_| basis.reason == "rule");
    let group = group.map(|group| format!("group \"{}\" (line {})", group.token, group.line));
    let evidence: Vec<String> = group.into_iter().chain(evidence(robots)).collect();
    if !evidence.is_empty() {
        lines.push(paint.faint(evidence.join("; ")));
    }
    lines
}

fn by_rule(answer: &Answer, paint: Paint) -> Vec<String> {
    let (basis, line) = (&answer.ruling.basis, answer.ruling.line.unwrap_or_default());
    let directive = if basis.directive == Some("allow") { "Allow" } else { "Disallow" };
    let pattern = basis.pattern.as_deref().unwrap_or_default();
    let read_as = read_as_clause(&basis.read_as);
    let mut lines =
        vec![format!("line {line} of {}   {directive}: {pattern}{read_as}", answer.robots.url)];
    lines.extend(answer.robots.excerpt.iter().map(|(number, text)| {
        let (mark, text) =
            if *number == line { ("▸", paint.strong(text)) } else { (" ", paint.faint(text)) };
        format!("  {mark} {number:>4} │ {text}").trim_end().to_owned()
    }));
    lines
}

fn unreachable(answer: &Answer, cause: &str) -> Vec<String> {
    let mut lines = vec![format!("{} cannot be had: {cause}", answer.robots.url)];
    lines.push(match answer.ruling.decision {
        Outcome::Allow => format!("the profile {} allows everything meanwhile", answer.profile),
        _ => "so nothing of this origin may be fetched for now (RFC 9309 §2.3.1.4)".into(),
    });
    lines
}

/// The version of the file, its age, and when it expires.
fn evidence(robots: &Robots) -> Vec<String> {
    let mut parts = Vec::new();
    parts.extend(robots.sha256.as_ref().map(|digest| format!("sha256 {}…", &digest[..12])));
    parts.extend(robots.url_reached.as_ref().map(|url| format!("redirected to {url}")));
    parts.extend(robots.cut.then(|| "cut at the size limit".to_owned()));
    let fetched = robots.age.map(|age| match age.as_secs() {
        0 => "fetched just now".to_owned(),
        _ => format!("fetched {} ago", human_duration(age)),
    });
    let current = robots.current_for.map(|left| match robots.sha256 {
        Some(_) => format!("current for {}", human_duration(left)),
        None => format!("to be asked for again in {}", human_duration(left)),
    });
    let timing: Vec<String> = fetched.into_iter().chain(current).collect();
    if !timing.is_empty() {
        parts.push(timing.join(", "));
    }
    parts
}

/// A robots.txt that is given as a file, without a network.
pub struct Given {
    name: String,
    body: Vec<u8>,
    profile: ProfileName,
    rules: Arc<RobotsTxt>,
    operator: OperatorPace,
    https: Https,
}

impl Given {
    /// Reads `file`, or standard input for `-`.
    pub fn read(file: &Path, defaults: &Defaults) -> Result<Self, Failure> {
        let (name, body) = if file.as_os_str() == "-" {
            ("standard input".to_owned(), read_bounded(io::stdin().lock()))
        } else {
            (file.display().to_string(), std::fs::File::open(file).and_then(read_bounded))
        };
        let body = body.map_err(|error| Failure {
            exit: Exit::InputOutput,
            error: anyhow::Error::new(error).context(format!("cannot read {}", printable(&name))),
        })?;
        let profile = defaults.profile.unwrap_or(defaults.configured_profile);
        let rules = Library::new().read(&body, profile);
        let (operator, https) = (defaults.pace, defaults.https.clone());
        Ok(Self { name, body, profile, rules, operator, https })
    }

    fn pace(&self, url: &[u8], token: Option<&str>) -> Pace {
        let profile = Profile::named(self.profile.as_str()).expect("a row of the table");
        let operator = OperatorPace { is_tunnel: is_tunnelled(&self.https, url), ..self.operator };
        Pace::of(&self.rules, token, &profile, operator, SystemClock.wall())
            .quoting(&self.body, self.rules.dialect())
    }

    /// The answer about `url` for the agent with this token; an error for what is no URL and no path.
    pub fn answer(&self, url: &[u8], token: Option<&str>) -> Result<Answer, String> {
        check_url_or_path(url)?;
        let ruling = ruling(&self.rules, token, url);
        let robots = Robots::given(&self.name, &self.body, &self.rules, ruling.line);
        Ok(Answer {
            url: Record::url(url),
            ruling,
            agent: token.map(printable),
            profile: self.profile.as_str(),
            robots,
            pace: self.pace(url, token),
            let_through: None,
        })
    }
}

/// Refuses what is neither a URL nor a path: of `private/b`, the first part could be a host, and
/// then another path is asked about.
fn check_url_or_path(url: &[u8]) -> Result<(), String> {
    let authority = url.iter().position(|byte| b"/?#;".contains(byte)).unwrap_or(url.len());
    let has_scheme = authority > 1 && url[authority - 1..].starts_with(b"://");
    if url.starts_with(b"/") || has_scheme {
        return Ok(());
    }
    let url = printable(&String::from_utf8_lossy(url));
    Err(format!(
        "it is neither a URL nor a path; write /{url} for a path, https://{url} for a host"
    ))
}

fn read_bounded(stream: impl Read) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    stream.take(BATCH_BYTES_MAX + 1).read_to_end(&mut body)?;
    if body.len() as u64 > BATCH_BYTES_MAX {
        return Err(io::Error::other(format!("it is longer than {BATCH_BYTES_MAX} bytes")));
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_neither_a_url_nor_a_path_is_refused() {
        let path = ["/", "/private/b", "//a/b", "/a://b", "/?a", "/*"];
        let urls = ["https://a", "https://a/b", "ftp://a/b", "http://a?b"];
        for url in path.into_iter().chain(urls) {
            assert_eq!(check_url_or_path(url.as_bytes()), Ok(()), "{url}");
        }
        let hosts = ["private/b", "example.com", "example.com/private/b", "example.com:80/b"];
        for url in hosts.into_iter().chain(["", "?a", "*", "a:b", "://a", "a/://b", "https:/a"]) {
            let refusal = check_url_or_path(url.as_bytes()).unwrap_err();
            assert!(refusal.contains(&format!("write /{url} for a path")), "{refusal}");
        }
    }
}
