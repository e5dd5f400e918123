//! One line of the log: why it was decided so, by which line of which file, and whether that can be believed; and a
//! robots.txt as it was read.

use askama::Template;
use axum::Extension;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;

use super::view::{Parameters, Shell, link};
use crate::admin::guard::Role;
use crate::audit::evidence::CaptureRecord;
use crate::audit::read::archive::LineInPlace;
use crate::audit::{Content, Event, Notice, Record, print_time, split};
use crate::cli::audit::difference::Difference;
use crate::cli::audit::notices;
use crate::cli::audit::report::words::{capital, number};
use crate::cli::audit::show::{file as shown_file, words};
use crate::cli::console::archive::ConsoleArchive;
use crate::cli::console::reading::{Asked, By, Shared};
use crate::cli::console::respond::{bad, busy, message, operators_only, plain, shown};
use crate::cli::output::Paint;
use crate::robots::{self, Dialect};
use crate::types::sanitize;

/// Lines before and after the deciding ones that are shown on the page of a record.
const CONTEXT: u32 = 4;

/// Lines of a file on one page, and bytes of a line.
const LINES_MAX: usize = 20_000;
const LINE_BYTES_MAX: usize = 2_000;

#[derive(Template)]
#[template(path = "console/record.html", config = "src/templates/askama.toml")]
struct RecordPage {
    shell: Shell,
    /// What was done, and its class.
    event: (String, &'static str),
    what: String,
    why: String,
    is_in_doubt: bool,
    belief: Vec<String>,
    fields: Vec<(String, String)>,
    file: Option<FileView>,
    capture: Vec<String>,
    /// Whether a line was added or removed.
    difference: Vec<(bool, String)>,
    links: Vec<(String, String)>,
    line: String,
}

/// A robots.txt, or the part of it that matters.
struct FileView {
    title: String,
    problem: Option<String>,
    lines: Vec<FileLine>,
    whole: Option<String>,
}

struct FileLine {
    number: u32,
    /// `decided`, `group`, `gap` or nothing.
    mark: &'static str,
    text: String,
}

/// `GET /record?log=0&seq=12`
pub async fn show(State(archive): Shared, Extension(visitor): By, Query(asked): Asked) -> Response {
    let (log, seq) = match place(asked) {
        Ok(place) => place,
        Err(why) => return bad(&why),
    };
    let found = archive.search(move |archive| {
        let found = archive.line(log, seq)?;
        let Some(found) = found else { return Ok(None) };
        Ok::<_, String>(Some(view(archive, visitor.role, (log, seq), &found)))
    });
    match found.await {
        None => busy(),
        Some(Err(why)) => bad(&why),
        Some(Ok(None)) => {
            let why = format!(
                "The log has no line {seq}: it may have been removed by age, or not be written yet."
            );
            message(StatusCode::NOT_FOUND, "There is no such line", &why)
        }
        Some(Ok(Some(page))) => shown(&page),
    }
}

/// `GET /record/line?log=0&seq=12`: the line as it stands, with its end, so that its hash can be made again.
pub async fn line(State(archive): Shared, Extension(visitor): By, Query(asked): Asked) -> Response {
    if visitor.role != Role::Operator {
        return operators_only();
    }
    let (log, seq) = match place(asked) {
        Ok(place) => place,
        Err(why) => return bad(&why),
    };
    match archive.search(move |archive| archive.line(log, seq)).await {
        None => busy(),
        Some(Ok(Some(found))) => {
            let mut line = found.line;
            line.push(b'\n');
            plain(line, None)
        }
        Some(Ok(None)) => message(StatusCode::NOT_FOUND, "There is no such line", ""),
        Some(Err(why)) => bad(&why),
    }
}

fn place(asked: Vec<(String, String)>) -> Result<(usize, u64), String> {
    let mut parameters = Parameters::of(asked);
    let log = parameters.take("log").map_or(Ok(0), |text| text.parse());
    let seq = parameters.take("seq").unwrap_or_default().parse();
    parameters.end()?;
    match (log, seq) {
        (Ok(log), Ok(seq)) => Ok((log, seq)),
        (Err(_), _) => Err("log: it is the number of a log, from 0".into()),
        (_, Err(_)) => Err("seq: it is the number of a line".into()),
    }
}

fn view(
    archive: &ConsoleArchive,
    role: Role,
    (log, seq): (usize, u64),
    found: &LineInPlace,
) -> RecordPage {
    let faults = shown_file::faults(&found.check);
    let belief = if faults.is_empty() {
        vec![capital(shown_file::chain_words(&found.check))]
    } else {
        faults.iter().map(|fault| capital(fault)).collect()
    };
    let to = |seq: u64| link("/record", &[("log", &log.to_string()), ("seq", &seq.to_string())]);
    let mut links: Vec<_> = [("Line before", found.older), ("Line after", found.newer)]
        .into_iter()
        .filter_map(|(name, seq)| Some((name.to_owned(), to(seq?))))
        .collect();
    if role == Role::Operator {
        let raw = link("/record/line", &[("log", &log.to_string()), ("seq", &seq.to_string())]);
        links.push(("As it stands in the log".into(), raw));
    }
    let shell = Shell::of(
        &format!("Line {}", number(seq)),
        "/records",
        format!("courtesy audit show {seq}"),
    );
    let as_shown = archive.shown(role, &found.line);
    let line = as_shown.as_deref().map_or_else(
        || "It cannot be read, so that what of it is about persons is not known.".into(),
        |line| String::from_utf8_lossy(line).into_owned(),
    );
    let as_shown = as_shown.unwrap_or_default();
    let mut page = RecordPage {
        shell,
        event: (String::new(), ""),
        what: String::new(),
        why: String::new(),
        is_in_doubt: !faults.is_empty(),
        belief,
        fields: Vec::new(),
        file: None,
        capture: Vec::new(),
        difference: Vec::new(),
        links,
        line,
    };
    match Content::parse(&as_shown) {
        Ok(Content::Record(record)) => page.record(archive, &record, &found.line),
        Ok(Content::Notice(notice)) => page.notice(archive, log, &notice),
        Err(_) => page.why = "This line cannot be read.".into(),
    }
    page
}

impl RecordPage {
    fn record(&mut self, archive: &ConsoleArchive, record: &Record, line: &[u8]) {
        let class = if record.event == Event::Denied { "denied" } else { "forwarded" };
        self.event = (capital(words::event(record.event)), class);
        self.what = format!("{} {}", record.method, record.url);
        self.why = capital(&words::why(record));
        let hash = split(line).map(|(_, hash)| hash).unwrap_or_default();
        let fields = words::fields(record, hash).into_iter();
        self.fields = fields.map(|(name, value)| (capital(name), value)).collect();
        let robots = record.robots.as_deref();
        if let Some(sha256) = robots.and_then(|robots| robots.sha256.as_deref()) {
            let marks =
                [record.rule.as_ref().map(|it| it.line), record.group.as_ref().map(|it| it.line)];
            self.file = Some(FileView::of(archive, sha256, marks, Some(CONTEXT)));
            self.links
                .push(("Records by the same file".into(), link("/records", &[("sha256", sha256)])));
        }
        if let Some(capture) = robots.and_then(|robots| robots.capture.as_deref()) {
            self.capture =
                archive.capture(capture).map_or_else(|why| vec![why], |it| described(&it));
        }
        self.links.push(("The site".into(), link("/site", &[("origin", &record.origin)])));
        let client = record.client.name.clone();
        let client = client.or_else(|| record.client.ip().map(|address| address.to_string()));
        if let Some(client) = client {
            let to = link("/person", &[("client", &client)]);
            self.links.push(("What is held about this client".into(), to));
        }
        let agent = record.agent.clone().unwrap_or_default();
        self.links.push((
            "Ask for this URL at another time".into(),
            link("/ask", &[("url", &record.url), ("agent", &agent)]),
        ));
    }

    fn notice(&mut self, archive: &ConsoleArchive, log: usize, notice: &Notice) {
        self.event = (notice.word().replace('_', " "), "notice");
        self.what = print_time(notice.time());
        self.why = notices::words(notice);
        if let Notice::Changed(changed) = notice
            && let Some(dir) = archive.dirs().get(log)
        {
            match Difference::of_change(changed, dir) {
                Ok(difference) => self.difference = difference.lines,
                Err(why) => self.belief.push(capital(&why)),
            }
        }
        if let Some(origin) = notice.origin() {
            self.links.push(("The site".into(), link("/site", &[("origin", origin)])));
        }
    }
}

impl FileView {
    /// The file, with the line that decided and that of its group marked; `near`: only lines so near to a marked one.
    fn of(
        archive: &ConsoleArchive,
        sha256: &str,
        [rule, group]: [Option<u32>; 2],
        near: Option<u32>,
    ) -> Self {
        let title = format!("robots.txt, SHA-256 {sha256}");
        let body = match archive.file(sha256) {
            Ok(body) => body,
            Err(why) => {
                let problem = Some(format!("Its text cannot be shown: {why}"));
                return Self { title, problem, lines: Vec::new(), whole: None };
            }
        };
        // The last line's end begins no other line.
        let body = body.strip_suffix(b"\r\n").or_else(|| body.strip_suffix(b"\n")).unwrap_or(&body);
        let marks = [rule, group, rule.or(group).is_none().then_some(1)];
        let is_near = |number: u32| {
            let near = near.unwrap_or(CONTEXT);
            marks.iter().flatten().any(|mark| mark.abs_diff(number) <= near)
        };
        let is_whole = near.is_none();
        let dialect = Dialect { size_limit: usize::MAX, ..Dialect::RFC9309.clone() };
        let (mut lines, mut last, mut all) = (Vec::new(), 0, 0);
        for (number, line) in robots::lines(body, &dialect) {
            all = number;
            // The line that decided is shown, wherever it stands.
            if !is_near(number) && (!is_whole || lines.len() >= LINES_MAX) {
                continue;
            }
            if number != last + 1 {
                lines.push(FileLine { number: 0, mark: "gap", text: "…".into() });
            }
            last = number;
            let mark = match (Some(number) == rule, Some(number) == group) {
                (true, _) => "decided",
                (false, true) => "group",
                (false, false) => "",
            };
            lines.push(FileLine { number, mark, text: sanitize::text(line, LINE_BYTES_MAX) });
        }
        if last < all {
            lines
                .push(FileLine { number: 0, mark: "gap", text: format!("… {all} lines in all") });
        }
        let line = rule.map(|line| line.to_string()).unwrap_or_default();
        let of_group = group.map(|line| line.to_string()).unwrap_or_default();
        let whole = near
            .map(|_| link("/file", &[("sha256", sha256), ("line", &line), ("group", &of_group)]));
        Self { title, problem: None, lines, whole }
    }
}

#[derive(Template)]
#[template(path = "console/file.html", config = "src/templates/askama.toml")]
struct FilePage {
    shell: Shell,
    file: FileView,
    links: Vec<(String, String)>,
}

/// `GET /file?sha256=…&line=…`
pub async fn file(State(archive): Shared, Query(asked): Asked) -> Response {
    let mut parameters = Parameters::of(asked);
    let (sha256, line, group) =
        (parameters.take("sha256"), parameters.take("line"), parameters.take("group"));
    if let Err(why) = parameters.end() {
        return bad(&why);
    }
    let Some(sha256) = sha256.filter(|it| sanitize::digest(it).is_some()) else {
        return bad("sha256: it is 64 hexadecimal digits");
    };
    let number = |text: Option<String>| text.and_then(|text| text.parse().ok());
    let marks = [number(line), number(group)];
    let found = archive.search(move |archive| {
        let links = vec![
            ("As it was received".into(), link("/file/raw", &[("sha256", &sha256)])),
            ("Records by this file".into(), link("/records", &[("sha256", &sha256)])),
        ];
        let command = "courtesy audit show ID --all".into();
        let shell = Shell::of("A robots.txt, as it was read", "/sites", command);
        FilePage { shell, file: FileView::of(archive, &sha256, marks, None), links }
    });
    match found.await {
        None => busy(),
        Some(page) => shown(&page),
    }
}

/// `GET /file/raw?sha256=…`: its bytes, as a file to keep.
pub async fn raw(State(archive): Shared, Query(asked): Asked) -> Response {
    let mut parameters = Parameters::of(asked);
    let sha256 = parameters.take("sha256").filter(|it| sanitize::digest(it).is_some());
    let Some(sha256) = sha256 else { return bad("sha256: it is 64 hexadecimal digits") };
    let name = format!("{}.robots.txt", &sha256[..16]);
    match archive.search(move |archive| archive.file(&sha256)).await {
        None => busy(),
        Some(Ok(body)) => plain(body, Some(&name)),
        Some(Err(why)) => message(StatusCode::GONE, "The file cannot be shown", &capital(&why)),
    }
}

/// How a file was fetched, a line each.
fn described(capture: &CaptureRecord) -> Vec<String> {
    let text = shown_file::describe(capture, Paint::OFF);
    text.lines().map(|line| line.trim_end().to_owned()).collect()
}
