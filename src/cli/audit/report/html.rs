//! A report as one HTML page that needs nothing else: no script, no image, no font, nothing to
//! load, and a policy in the page that forbids it. All text from outside is escaped by [`Html`].

mod chart;

use std::fmt::Write as _;

use super::sections::{Kind, Line, Section, Table, facts, sections, warning};
use super::words::{instances, minute, number, period, subject, verification};
use crate::audit::read::report::{NamedLog, Report};
use crate::types::sanitize::Html;

const STYLE: &str = include_str!("html/style.css");

/// Nothing may be loaded, nothing run, nothing sent; only the style in the page applies.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// The report as one HTML page, which loads nothing.
pub fn print(report: &Report) -> String {
    let mut page = String::with_capacity(64 << 10);
    let title = format!("{}, {}", subject(report), period(report));
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{}</title>\n<style>\n{STYLE}{}</style>\n</head>\n<body>\n",
        Html(&title),
        chart::style()
    );
    heading(&mut page, report);
    page.push_str("<main>\n");
    chart::print(&mut page, report);
    for (number, section) in sections(report).iter().enumerate() {
        print_section(&mut page, number, section);
    }
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

fn heading(page: &mut String, report: &Report) {
    let _ = write!(
        page,
        "<header>\n<h1>{}</h1>\n<p class=\"period\">{}",
        subject(report),
        Html(&period(report))
    );
    if !report.period.origins.is_empty() {
        let _ = write!(page, "<br>of <code>{}</code>", Html(&report.period.origins.join(", ")));
    }
    page.push_str("</p>\n");
    if let Some(warning) = warning(&report.missing) {
        let _ = writeln!(page, "<p class=\"urgent\">Warning: {}</p>", Html(&warning));
    }
    page.push_str("<dl class=\"facts\">\n");
    for (name, value) in facts(report) {
        let _ = writeln!(page, "<div><dt>{}</dt><dd>{}</dd></div>", Html(&name), Html(&value));
    }
    page.push_str("</dl>\n<p class=\"source\">");
    if let Some(head) = &report.log.head {
        let _ = write!(
            page,
            "Log up to line {}, <code>{}</code><br>",
            number(head.seq),
            Html(&head.hash)
        );
    }
    for NamedLog { dir, log } in &report.logs {
        let _ = write!(page, "Log <code>{}</code>", Html(dir));
        let _ = match &log.head {
            Some(head) => {
                write!(
                    page,
                    " up to line {}, <code>{}</code><br>",
                    number(head.seq),
                    Html(&head.hash)
                )
            }
            None => write!(page, ", without a line<br>"),
        };
    }
    if let Some(instances) = instances(report) {
        let _ = write!(page, "Written {}<br>", Html(&instances));
    }
    let is_urgent = report.verified.as_ref().is_some_and(|verified| !verified.holds);
    let class = if is_urgent { " class=\"urgent\"" } else { "" };
    let _ = write!(page, "<span{class}>{}</span><br>", Html(&verification(report)));
    let _ = writeln!(
        page,
        "Made {} UTC by courtesy {}</p>\n</header>",
        minute(report.made_at),
        report.courtesy
    );
}

fn print_section(page: &mut String, number: usize, section: &Section) {
    let is_wide = section.table.columns.len() > 4 && !section.table.has_bars();
    let wide = if is_wide { " class=\"wide\"" } else { "" };
    let _ = writeln!(
        page,
        "<section{wide} aria-labelledby=\"s{number}\">\n<h2 id=\"s{number}\">{}</h2>",
        section.title
    );
    for note in &section.notes {
        let class = if section.is_urgent { " class=\"urgent\"" } else { "" };
        let _ = writeln!(page, "<p{class}>{}</p>", Html(note));
    }
    if !section.table.rows.is_empty() {
        print_table(page, &section.table);
    }
    if let Some(foot) = &section.foot {
        let _ = writeln!(page, "<p class=\"foot\">{}</p>", Html(foot));
    }
    page.push_str("</section>\n");
}

fn print_table(page: &mut String, table: &Table) {
    page.push_str("<div class=\"scroll\"><table>\n<thead><tr>");
    for column in &table.columns {
        let _ = write!(page, "<th scope=\"col\"{}>{}</th>", class(column.kind), column.title);
    }
    page.push_str(if table.has_bars() {
        "<td class=\"bar\"></td></tr></thead>\n<tbody>\n"
    } else {
        "</tr></thead>\n<tbody>\n"
    });
    for row in &table.rows {
        print_row(page, table, row);
    }
    page.push_str("</tbody>\n</table></div>\n");
}

fn print_row(page: &mut String, table: &Table, row: &Line) {
    page.push_str(if row.is_urgent { "<tr class=\"urgent\">" } else { "<tr>" });
    for (column, cell) in table.columns.iter().zip(&row.cells) {
        let _ = write!(page, "<td{}>{}</td>", class(column.kind), Html(cell));
    }
    if let Some(bar) = row.bar {
        // The number stands beside it, so it is hidden from screen readers.
        let _ = write!(
            page,
            "<td class=\"bar\"><svg aria-hidden=\"true\" viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\">\
             <rect width=\"{:.1}\" height=\"10\"/></svg></td>",
            (bar * 100.0).max(0.5)
        );
    }
    page.push_str("</tr>\n");
}

const fn class(kind: Kind) -> &'static str {
    match kind {
        Kind::Text => " class=\"text\"",
        Kind::Word => " class=\"word\"",
        Kind::Number => " class=\"number\"",
        Kind::Digest => " class=\"digest\"",
    }
}
