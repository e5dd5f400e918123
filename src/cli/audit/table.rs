//! Records as rows of a table: time, client, reason, URL. On a terminal a row is one line.

use rustix::termios::tcgetwinsize;

use super::csv_row::word;
use super::notices::words;
use crate::audit::{Event, Node, Notice, Reason, Record, print_time};
use crate::cli::environment;
use crate::cli::paint::Paint;
use crate::types::sanitize;

const WIDTH_MIN: usize = 60;
/// Where it is not known how wide the reader's screen is.
const WIDTH: usize = 100;
const GAP: usize = 2;
const NODE: usize = 16;
const URL_MIN: usize = 10;

/// The widths of the columns; none where rows may be as long as they like.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// None without the column of proxies.
    node: Option<usize>,
    seq: usize,
    /// Bytes of the time that are left out at its beginning.
    time_from: usize,
    agent: usize,
    why: usize,
    url: Option<usize>,
    paint: Paint,
}

impl Layout {
    /// As wide as the terminal; elsewhere COLUMNS, or [`WIDTH`].
    pub fn of_output(is_terminal: bool) -> Self {
        let size = is_terminal.then(|| tcgetwinsize(std::io::stdout()).ok()).flatten();
        let columns = size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
        let set = || environment::variable("COLUMNS")?.parse().ok();
        Self::of_width(columns.or_else(set).unwrap_or(WIDTH).max(WIDTH_MIN), Paint::for_stdout())
    }

    /// Nothing is cut: rows are as long as their text.
    pub fn wide() -> Self {
        let paint = Paint::for_stdout();
        Self { node: None, seq: 8, time_from: 0, agent: 16, why: 28, url: None, paint }
    }

    fn of_width(columns: usize, paint: Paint) -> Self {
        // With a year if there is room.
        let (seq, time_from) = (8, if columns >= 120 { 0 } else { 5 });
        let rest = columns.saturating_sub(seq + (TIME_BYTES - time_from) + 4 * GAP);
        let (agent, why) = (rest / 5, rest * 3 / 10);
        Self { node: None, seq, time_from, agent, why, url: Some(rest - agent - why), paint }
    }

    /// With a column for the proxy that wrote a line, as much narrower is the last.
    pub fn with_nodes(self) -> Self {
        let url = self.url.map(|url| url.saturating_sub(NODE + GAP).max(URL_MIN));
        Self { node: Some(NODE), url, ..self }
    }

    /// The line above the columns.
    pub fn heading(&self) -> String {
        let time = if self.time_from == 0 { "TIME (UTC)" } else { "UTC" };
        let row = self.columns("SEQ", time, "AGENT", "WHY", "URL");
        let node = self.node.map(|width| format!("{:<width$}  ", "NODE")).unwrap_or_default();
        format!("{}\n", self.paint.faint(format!("{node}{}", row.join("  ").trim_end())))
    }

    /// With its line end. Before the number of a record that was changed stands `!`.
    pub fn row(&self, record: &Record, is_changed: bool) -> String {
        let time = print_time(record.time).replace('T', " ");
        let time = &time[self.time_from..TIME_BYTES];
        let agent = record.agent.as_deref().unwrap_or("-");
        let seq = marked(record.seq, is_changed);
        let [seq, time, agent, why, url] =
            self.columns(&seq, time, agent, &why(record), &record.url);
        let seq = if is_changed { self.paint.bad(seq) } else { self.paint.faint(seq) };
        let why = match record.event {
            Event::Denied => self.paint.bad(why),
            Event::WouldDeny => self.paint.doubtful(why),
            Event::Exempted | Event::Tunnelled => self.paint.good(why),
        };
        let node = self.node_cell(record.node.as_ref());
        format!("{node}{seq}  {}  {agent}  {why}  {url}\n", self.paint.faint(time))
    }

    /// The row of a notice.
    pub fn notice(&self, notice: &Notice, is_changed: bool) -> String {
        let time = print_time(notice.time()).replace('T', " ");
        let (seq, time) = (marked(notice.seq(), is_changed), &time[self.time_from..TIME_BYTES]);
        let row = self.columns(&seq, time, "-", notice.word(), &words(notice));
        format!("{}{}\n", self.node_cell(notice.node()), self.paint.faint(row.join("  ")))
    }

    fn node_cell(&self, node: Option<&Node>) -> String {
        let name = node.map_or("-", Node::as_str);
        self.node.map(|width| format!("{}  ", self.cell(name, width))).unwrap_or_default()
    }

    fn columns(&self, seq: &str, time: &str, agent: &str, why: &str, url: &str) -> [String; 5] {
        let url = match self.url {
            Some(width) => fit(url, width).trim_end().to_owned(),
            None => printable(url),
        };
        let width = TIME_BYTES - self.time_from;
        [
            format!("{seq:>0$}", self.seq),
            format!("{time:<width$}"),
            self.cell(agent, self.agent),
            self.cell(why, self.why),
            url,
        ]
    }

    /// Cut only where a row must be a line of the terminal.
    fn cell(&self, text: &str, width: usize) -> String {
        match self.url {
            Some(_) => fit(text, width),
            None => format!("{:<width$}", printable(text)),
        }
    }
}

fn marked(seq: u64, is_changed: bool) -> String {
    format!("{}{seq}", if is_changed { "!" } else { "" })
}

/// `2026-11-20 12:00:00`.
const TIME_BYTES: usize = 19;

/// The line that decided, or the reason; and the event if it is no denial.
fn why(record: &Record) -> String {
    let why = match (&record.rule, record.reason) {
        (Some(rule), Reason::DisallowRule) => {
            format!("{}: {}: {}", rule.line, rule.directive, rule.pattern)
        }
        (_, reason) => word(reason),
    };
    match record.event {
        Event::Denied => why,
        event => format!("{}, {why}", word(event)),
    }
}

/// Escaped again, since the record may have been changed.
pub fn printable(text: &str) -> String {
    let escape = |shown: &mut String, character: char| {
        character
            .encode_utf8(&mut [0; 4])
            .bytes()
            .for_each(|byte| shown.push_str(&format!("\\x{byte:02X}")));
    };
    sanitize::shown(text, escape).into_owned()
}

/// Padded or cut to `width` columns; cut text ends in `…`.
pub fn fit(text: &str, width: usize) -> String {
    let text = printable(text);
    let columns: usize = text.chars().map(char_columns).sum();
    if columns <= width {
        return text + &" ".repeat(width - columns);
    }
    let mut used = 0;
    let mut cut: String = text
        .chars()
        .take_while(|character| {
            used += char_columns(*character);
            used < width
        })
        .collect();
    cut.push('…');
    let used: usize = cut.chars().map(char_columns).sum();
    cut + &" ".repeat(width.saturating_sub(used))
}

/// Characters from U+1100 on count as two columns, like an ideograph: a column too many is left
/// empty, one too few would break the line.
pub const fn char_columns(character: char) -> usize {
    if character as u32 >= 0x1100 && character != '…' { 2 } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_wide_is_cut_and_says_so() {
        for (text, expected) in [
            ("abc", "abc   "),
            ("abcdef", "abcdef"),
            ("abcdefg", "abcde…"),
            ("日本語", "日本語"),
            ("日本語a", "日本… "),
            ("a\u{202e}bcdef", "a\\xE2…"),
            ("\u{1b}[2J", "\\x1B[…"),
        ] {
            assert_eq!(fit(text, 6), expected, "{text:?}");
        }
    }

    #[test]
    fn a_heading_is_as_wide_as_the_terminal_or_less() {
        for columns in [60, 80, 100, 200] {
            let layout = Layout::of_width(columns, Paint::OFF);
            let url = layout.url.unwrap();
            assert_eq!(
                layout.seq + TIME_BYTES - layout.time_from + layout.agent + layout.why + url + 8,
                columns
            );
        }
    }
}
