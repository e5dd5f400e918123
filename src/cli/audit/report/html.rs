//! A report as one HTML page that needs nothing else: no script, no image, no font, nothing to
//! load, and a policy in the page that forbids it. All text from outside is escaped by [`Html`].

use std::fmt::Write as _;
use std::time::Duration;

use super::sections::{
    Kind, Line, Section, Table, column as column_title, facts, sections, warning,
};
use super::words::{fraction, instances, minute, number, period, plural, subject, verification};
use crate::audit::read::report::{Bucket, EventsByReason, NamedLog, OverTime, Report};
use crate::audit::{Event, Reason};
use crate::cli::output::human_duration;
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
        chart_style()
    );
    heading(&mut page, report);
    page.push_str("<main>\n");
    print_chart(&mut page, report);
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

/// The drawing in its own units; the page gives it its size.
const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 8.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 28.0;
/// Times named below the drawing.
const TICKS: usize = 6;

/// The stack: denied requests by reason, and forwarded ones above.
#[derive(Clone, Copy)]
enum Part {
    Denied(Reason),
    Forwarded(Event),
}

/// Forwarded requests, with their colour class.
const FORWARDED: [(Event, &str); 3] =
    [(Event::WouldDeny, "e1"), (Event::Exempted, "e2"), (Event::Tunnelled, "e3")];

/// Every part with its class, from below to above: first the reasons that rest on a robots.txt.
fn parts() -> impl Iterator<Item = (Part, &'static str)> {
    let of_robots = Reason::ALL.into_iter().filter(|reason| reason.is_of_robots());
    let others = Reason::ALL.into_iter().filter(|reason| !reason.is_of_robots());
    let denied = of_robots.chain(others).map(|reason| (Part::Denied(reason), reason.word()));
    denied.chain(FORWARDED.map(|(event, class)| (Part::Forwarded(event), class)))
}

/// The colours of the reasons, on a light and on a dark page.
pub fn chart_style() -> String {
    let rules = |scheme: usize| -> String {
        let rule = |reason: Reason| {
            let color = reason.row().colors[scheme];
            format!(".{} {{ fill: {color}; background: {color}; }}\n", reason.word())
        };
        Reason::ALL.into_iter().map(rule).collect()
    };
    let (light, dark) = (rules(0), rules(1));
    format!("{light}@media screen and (prefers-color-scheme: dark) {{\n{dark}}}\n")
}

impl Part {
    fn count(self, events: &EventsByReason) -> u64 {
        match self {
            Self::Denied(reason) => events.get(&reason).map_or(0, |events| events.denied),
            Self::Forwarded(event) => events.values().map(|events| events.of(event)).sum(),
        }
    }

    fn name(self) -> String {
        match self {
            Self::Denied(reason) => format!("Denied: {}", reason.row().label),
            Self::Forwarded(event) => column_title(event).to_owned(),
        }
    }
}

/// Appends the chart over time to `page`; nothing if there are no records.
pub fn print_chart(page: &mut String, report: &Report) {
    let over_time = &report.over_time;
    if report.records.all == 0 || over_time.buckets.is_empty() {
        return;
    }
    let each = human_duration(Duration::from_secs(over_time.bucket_seconds));
    let _ = writeln!(
        page,
        "<section class=\"wide\" aria-labelledby=\"time\">\n<h2 id=\"time\">Over time</h2>\n\
         <p class=\"foot\">Records in steps of {each}: denied requests by reason, and those that were forwarded. Times are UTC.</p>"
    );
    legend(page, report);
    drawing(page, over_time, &each);
    numbers(page, report);
    page.push_str("</section>\n");
}

/// The parts that occur.
fn occurring(report: &Report) -> impl Iterator<Item = (Part, &'static str, u64)> {
    let all = &report.records.events_by_reason;
    parts().map(|(part, class)| (part, class, part.count(all))).filter(|(.., count)| *count > 0)
}

fn legend(page: &mut String, report: &Report) {
    page.push_str("<ul class=\"legend\">");
    for (part, class, count) in occurring(report) {
        let _ = write!(
            page,
            "<li><span class=\"{class}\"></span>{} <b>{}</b></li>",
            part.name(),
            number(count)
        );
    }
    page.push_str("</ul>\n");
}

fn drawing(page: &mut String, over_time: &OverTime, each: &str) {
    let most = over_time.buckets.iter().map(total).max().unwrap_or_default();
    let (top, step) = scale(most);
    let _ = writeln!(
        page,
        "<div class=\"scroll\"><svg class=\"time\" role=\"img\" aria-labelledby=\"drawing\" viewBox=\"0 0 {WIDTH} {HEIGHT}\">\n\
         <title id=\"drawing\">Records over time in steps of {each}; at most {} in one. \
         The numbers are in the table below.</title>",
        number(most)
    );
    for line in (0..=top).step_by(usize::try_from(step).unwrap_or(1)) {
        let y = height_of(line, top);
        let _ = writeln!(
            page,
            "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text class=\"count\" x=\"{}\" y=\"{:.1}\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            y + 4.0,
            number(line)
        );
    }
    for (at, bucket) in over_time.buckets.iter().enumerate() {
        column(page, bucket, place(at, over_time), top);
    }
    ticks(page, over_time);
    page.push_str("</svg></div>\n");
}

/// Where a bucket begins, and how wide it is.
#[expect(clippy::cast_precision_loss, reason = "there are a hundred buckets")]
fn place(at: usize, over_time: &OverTime) -> (f64, f64) {
    // A few buckets are not made as wide as the page.
    let width = ((WIDTH - LEFT - RIGHT) / over_time.buckets.len() as f64).min(120.0);
    (LEFT + at as f64 * width, width)
}

fn column(page: &mut String, bucket: &Bucket, (x, width): (f64, f64), top: u64) {
    let mut below = 0;
    let gap = (width * 0.15).min(4.0);
    for (part, class) in parts() {
        let count = part.count(&bucket.events_by_reason);
        if count == 0 {
            continue;
        }
        let (from, to) = (height_of(below, top), height_of(below + count, top));
        // A count above zero is visible.
        let height = (from - to).max(0.8);
        let _ = writeln!(
            page,
            "<rect class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\">\
             <title>{}: {}, {}</title></rect>",
            x + gap / 2.0,
            from - height,
            width - gap,
            minute(bucket.start),
            plural(count, "record"),
            part.name()
        );
        below += count;
    }
}

fn ticks(page: &mut String, over_time: &OverTime) {
    let every = over_time.buckets.len().div_ceil(TICKS);
    for (at, bucket) in over_time.buckets.iter().enumerate().step_by(every) {
        let (x, width) = place(at, over_time);
        let y = HEIGHT - BOTTOM;
        // Whole days need no time of day.
        let start = minute(bucket.start);
        let label = if over_time.bucket_seconds >= 86_400 { &start[..10] } else { &start };
        let middle = x + width / 2.0;
        // The first label begins where the drawing does, and does not stand out of it.
        let (x, class) = if at == 0 { (x, "first") } else { (middle, "tick") };
        let _ = writeln!(
            page,
            "<line class=\"tick\" x1=\"{middle:.1}\" x2=\"{middle:.1}\" y1=\"{y}\" y2=\"{}\"/>\
             <text class=\"{class}\" x=\"{x:.1}\" y=\"{}\">{label}</text>",
            y + 4.0,
            y + 20.0
        );
    }
}

fn numbers(page: &mut String, report: &Report) {
    page.push_str("<details><summary>The numbers</summary>\n<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">From</th>");
    let parts: Vec<_> = occurring(report).collect();
    for (part, ..) in &parts {
        let _ = write!(page, "<th scope=\"col\" class=\"number\">{}</th>", part.name());
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for bucket in report.over_time.buckets.iter().filter(|bucket| total(bucket) > 0) {
        let _ = write!(page, "<tr><td class=\"word\">{}</td>", minute(bucket.start));
        for (part, ..) in &parts {
            let count = part.count(&bucket.events_by_reason);
            let _ = write!(page, "<td class=\"number\">{}</td>", number(count));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody>\n</table></div></details>\n");
}

fn total(bucket: &Bucket) -> u64 {
    bucket.by_reason.values().sum()
}

fn height_of(count: u64, top: u64) -> f64 {
    HEIGHT - BOTTOM - fraction(count, top) * (HEIGHT - TOP - BOTTOM)
}

/// The top of the scale, and the step between its lines: 1, 2 or 5 times a power of ten, so that
/// there are at most five of them.
fn scale(most: u64) -> (u64, u64) {
    let mut step = 1u64;
    while most.div_ceil(step) > 5 {
        // 1, 2, 5, 10: the second digit decides which comes next.
        let leading = step / 10u64.pow(step.ilog10());
        step = if leading == 2 { step / 2 * 5 } else { step * 2 };
    }
    (most.div_ceil(step).max(1) * step, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_has_few_lines_at_round_numbers() {
        for (most, expected) in [
            (0, (1, 1)),
            (1, (1, 1)),
            (5, (5, 1)),
            (6, (6, 2)),
            (11, (15, 5)),
            (47, (50, 10)),
            (101, (150, 50)),
            (2_345, (2_500, 500)),
        ] {
            assert_eq!(scale(most), expected, "{most}");
        }
    }
}
