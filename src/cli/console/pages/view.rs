//! What pages have in common: their frame, their tables, their links and the parameters of their addresses.

use std::cell::RefCell;

use crate::admin::guard::{Role, Visitor};
use crate::audit::Event;
use crate::cli::audit::report::sections::{Kind, Section, column};
use crate::cli::audit::report::words::minute;
use crate::runtime::clock::{Clock, SystemClock};

/// The frame of a page.
pub struct Shell {
    pub title: String,
    /// The address of the page in the list of pages.
    pub active: &'static str,
    /// The same on the command line.
    pub command: String,
    pub made_at: String,
    pub version: &'static str,
}

tokio::task_local! {
    /// What the frames of all pages have in common that are made for one request.
    static FRAME: Frame;
}

/// Who a page is made for, and of what.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    /// The proxy that writes the log serves the pages.
    pub has_proxy: bool,
    /// None, where none was let in.
    pub visitor: Option<Visitor>,
    /// What has to be known of the log beside what was asked for.
    pub remarks: RefCell<Vec<String>>,
}

impl Frame {
    /// Runs what makes a page.
    pub async fn around<T>(self, make: impl Future<Output = T>) -> T {
        FRAME.scope(self, make).await
    }

    /// Adds to what the page that is made says first.
    pub fn remark(remarks: &[String]) {
        let _ = FRAME.try_with(|frame| frame.remarks.borrow_mut().extend_from_slice(remarks));
    }

    /// That of the request whose page is made.
    fn current() -> Self {
        FRAME.try_with(Self::clone).unwrap_or_default()
    }
}

/// The page of what only a running proxy knows.
pub const NOW: (&str, &str) = ("/now", "Now");

/// The pages in the navigation.
pub const PAGES: [(&str, &str); 7] = [
    ("/", "Overview"),
    ("/records", "Records"),
    ("/sites", "Sites"),
    ("/exemptions", "Exemptions"),
    ("/unknown", "Cannot tell"),
    ("/ask", "Ask"),
    ("/help", "Help"),
];

impl Shell {
    /// Of a page with that title.
    pub fn of(title: &str, active: &'static str, command: String) -> Self {
        let made_at = minute(SystemClock.wall());
        Self {
            title: title.to_owned(),
            active,
            command,
            made_at,
            version: env!("CARGO_PKG_VERSION"),
        }
    }

    /// The navigation: address, name, and whether it is this page.
    pub fn pages(&self) -> Vec<(&'static str, &'static str, bool)> {
        let frame = Frame::current();
        let mut pages = PAGES.to_vec();
        if frame.has_proxy {
            pages.insert(1, NOW);
        }
        pages.retain(|_| frame.visitor.is_some());
        pages.iter().map(|(at, name)| (*at, *name, *at == self.active)).collect()
    }

    /// What has to be known first.
    pub fn remarks(&self) -> Vec<String> {
        Frame::current().remarks.take()
    }

    /// Who is logged in, and may log out.
    pub fn visitor(&self) -> Option<&'static str> {
        Frame::current().visitor.map(|visitor| match visitor.role {
            Role::Viewer => "viewer",
            Role::Operator => "operator",
        })
    }
}

/// A table of a page.
#[derive(Clone, Debug, Default)]
pub struct TableView {
    pub title: String,
    pub notes: Vec<String>,
    /// Of each column its title and its class.
    pub columns: Vec<(String, &'static str)>,
    pub rows: Vec<RowView>,
    pub foot: Option<String>,
}

/// A row of a table.
#[derive(Clone, Debug, Default)]
pub struct RowView {
    pub cells: Vec<CellView>,
    pub is_urgent: bool,
}

/// A cell, which may lead somewhere.
#[derive(Clone, Debug, Default)]
pub struct CellView {
    pub text: String,
    pub to: Option<String>,
}

impl CellView {
    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), to: None }
    }

    /// A text that leads to an address of the console.
    pub fn link(text: impl Into<String>, to: String) -> Self {
        Self { text: text.into(), to: Some(to) }
    }
}

impl TableView {
    /// A section of the report, of which the first cell of each row leads to where `to` says.
    pub fn of(section: &Section, to: fn(&[String]) -> Option<String>) -> Self {
        Self::linked(section, 0, &to)
    }

    /// The same, of which the cell `at` leads there.
    pub fn linked(section: &Section, at: usize, to: &dyn Fn(&[String]) -> Option<String>) -> Self {
        let columns = section.table.columns.iter();
        let rows = section.table.rows.iter().map(|line| {
            let link = to(&line.cells);
            let cells = line.cells.iter().enumerate();
            let cell = |(place, text): (usize, &String)| CellView {
                text: text.clone(),
                to: link.clone().filter(|_| place == at),
            };
            RowView { cells: cells.map(cell).collect(), is_urgent: line.is_urgent }
        });
        Self {
            title: section.title.to_owned(),
            notes: section.notes.clone(),
            columns: columns.map(|it| (it.title.to_owned(), it.kind.class())).collect(),
            rows: rows.collect(),
            foot: section.foot.clone(),
        }
    }

    /// A section that counts records by event, of which each number leads to the records that it counts: those of
    /// which the parameter `name` is what stands in the first cell, which leads to `to`.
    pub fn counted(section: &Section, name: &str, to: fn(&[String]) -> Option<String>) -> Self {
        let mut table = Self::of(section, to);
        let events = Event::ALL.map(|event| (column(event), event.word()));
        for row in &mut table.rows {
            let key = row.cells.first().map(|cell| cell.text.clone()).unwrap_or_default();
            for (cell, (title, _)) in row.cells.iter_mut().zip(&table.columns) {
                let event = events.iter().find(|(known, _)| known == title);
                let event = event.filter(|_| cell.text != "0");
                cell.to = event
                    .map(|(_, word)| link("/records", &[(name, &key), ("event", word)]))
                    .or(cell.to.take());
            }
        }
        table
    }

    /// The classes of texts and numbers.
    pub fn columns(titles: &[(&str, Kind)]) -> Vec<(String, &'static str)> {
        titles.iter().map(|(title, kind)| ((*title).to_owned(), kind.class())).collect()
    }
}

/// An address of the console with parameters.
pub fn link(path: &str, pairs: &[(&str, &str)]) -> String {
    match serde_urlencoded::to_string(pairs) {
        Ok(query) if !query.is_empty() => format!("{path}?{query}"),
        _ => path.to_owned(),
    }
}

/// The parameters of an address. What a page does not know is an error: it would be taken for heeded.
#[derive(Debug)]
pub struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Those without a value are left out: a form sends its empty fields.
    pub fn of(pairs: Vec<(String, String)>) -> Self {
        Self(pairs.into_iter().filter(|(_, value)| !value.trim().is_empty()).collect())
    }

    /// The value of a parameter that stands once.
    pub fn take(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.remove(at).1)
    }

    /// The others.
    pub fn rest(&self) -> &[(String, String)] {
        &self.0
    }

    /// None may be left.
    pub fn end(&self) -> Result<(), String> {
        match self.0.first() {
            None => Ok(()),
            Some((name, _)) => Err(format!("{name}: this page has no such parameter")),
        }
    }
}

/// A value for a POSIX shell.
pub fn quoted(value: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:@%+,=".contains(&byte);
    if !value.is_empty() && value.bytes().all(is_plain) {
        return value.to_owned();
    }
    format!("'{}'", value.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_in_addresses_stay_values() {
        for value in ["a&b=c", "100 %", "\u{65e5}\u{672c}", "<script>", "a\r\nb", "#top", "+"] {
            let address = link("/records", &[("url", value), ("agent", "x")]);
            let (path, query) = address.split_once('?').unwrap();
            let pairs: Vec<(String, String)> = serde_urlencoded::from_str(query).unwrap();
            assert_eq!(path, "/records");
            assert_eq!(pairs, [("url".into(), value.into()), ("agent".into(), "x".into())]);
            assert!(address.bytes().all(|byte| byte.is_ascii_graphic()), "{address}");
        }
        assert_eq!(link("/records", &[]), "/records");
    }

    #[test]
    fn parameters_that_a_page_does_not_know_are_errors() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut parameters =
            Parameters::of(vec![pair("a", "1"), pair("empty", " "), pair("b", "2")]);
        assert_eq!(parameters.take("a").as_deref(), Some("1"));
        assert_eq!(parameters.take("empty"), None);
        assert_eq!(parameters.end(), Err("b: this page has no such parameter".into()));
        assert_eq!(parameters.rest(), [pair("b", "2")]);
        assert_eq!(Parameters::of(vec![pair("empty", "")]).end(), Ok(()));
    }

    #[test]
    fn values_of_commands_are_quoted_for_a_shell() {
        for (value, expected) in [
            ("https://example.com/a", "https://example.com/a"),
            ("*.example.com", "'*.example.com'"),
            ("", "''"),
            ("it's", "'it'\\''s'"),
            ("$(id)", "'$(id)'"),
        ] {
            assert_eq!(quoted(value), expected);
        }
    }
}
