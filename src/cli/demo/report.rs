//! Reports what happens, for people or as JSON Lines, and counts the checks that met expectations.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::cli::output::{Paint, wrapped};

/// The width of the report in columns.
const WIDTH: usize = 88;

/// Prints the scenes, and counts the expectations that held.
pub struct Report<W> {
    out: W,
    form: Form,
    scene: u32,
    expected: u32,
    kept: u32,
}

/// How the scenes are printed.
#[derive(Clone, Copy)]
pub enum Form {
    Text(Paint),
    Json,
}

impl<W: Write> Report<W> {
    /// A report to `out`, before the first scene.
    pub const fn new(out: W, form: Form) -> Self {
        Self { out, form, scene: 0, expected: 0, kept: 0 }
    }

    /// Begins a new scene.
    pub fn scene(&mut self, title: &str, story: &str) -> io::Result<()> {
        self.scene += 1;
        let number = self.scene;
        match self.form {
            Form::Json => self.event(&json!({ "event": "scene", "scene": number, "title": title })),
            Form::Text(paint) => {
                writeln!(self.out, "\n{}", paint.strong(format!("{number}  {title}")))?;
                self.paragraph(3, story)
            }
        }
    }

    /// Prints an explanation.
    pub fn say(&mut self, words: &str) -> io::Result<()> {
        match self.form {
            Form::Json => Ok(()),
            Form::Text(_) => self.paragraph(3, words),
        }
    }

    /// Prints lines as they are: a robots.txt, a table.
    pub fn show(&mut self, lines: &[String]) -> io::Result<()> {
        let Form::Text(paint) = self.form else { return Ok(()) };
        lines.iter().try_for_each(|line| match line.as_str() {
            "" => writeln!(self.out),
            line => writeln!(self.out, "     {}", paint.faint(line)),
        })
    }

    /// Reports a check: what was expected, and whether it `holds`. `result` stands at the right,
    /// `details` below.
    pub fn check(
        &mut self,
        holds: bool,
        what: &str,
        result: &str,
        details: &[String],
    ) -> io::Result<()> {
        self.expected += 1;
        self.kept += u32::from(holds);
        let paint = match self.form {
            Form::Json => {
                let event = json!({
                    "event": "check", "scene": self.scene, "what": what, "result": result,
                    "details": details, "as_expected": holds,
                });
                return self.event(&event);
            }
            Form::Text(paint) => paint,
        };
        let mark = if holds { paint.good("✓") } else { paint.bad("✗") };
        let gap = WIDTH.saturating_sub(5 + what.chars().count() + result.chars().count()).max(2);
        writeln!(self.out, "   {mark} {what}{}{}", " ".repeat(gap), paint.strong(result))?;
        details.iter().try_for_each(|detail| self.paragraph(7, detail))
    }

    /// Prints the totals. Returns whether everything was as expected.
    pub fn summary(&mut self) -> io::Result<bool> {
        let (kept, expected) = (self.kept, self.expected);
        let all = kept == expected;
        match self.form {
            Form::Json => {
                self.event(&json!({ "event": "summary", "as_expected": kept, "of": expected }))?;
            }
            Form::Text(paint) => {
                let line = format!("{kept} of {expected} as expected");
                writeln!(self.out, "\n{}", if all { paint.good(line) } else { paint.bad(line) })?;
            }
        }
        self.out.flush()?;
        Ok(all)
    }

    fn event(&mut self, event: &Value) -> io::Result<()> {
        writeln!(self.out, "{event}")?;
        self.out.flush()
    }

    fn paragraph(&mut self, indent: usize, words: &str) -> io::Result<()> {
        let Form::Text(paint) = self.form else { return Ok(()) };
        for line in wrapped(words, WIDTH - indent) {
            writeln!(self.out, "{}{}", " ".repeat(indent), paint.faint(line))?;
        }
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_check_is_marked_and_counted() {
        let mut bytes = Vec::new();
        let mut report = Report::new(&mut bytes, Form::Text(Paint::OFF));
        report.check(true, "one", "1", &[]).unwrap();
        report.check(false, "two", "3", &["a word ".repeat(20)]).unwrap();
        assert!(!report.summary().unwrap());
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.contains("✓ one") && text.contains("✗ two"), "{text}");
        assert!(text.ends_with("\n1 of 2 as expected\n"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
    }
}
