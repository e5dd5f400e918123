//! A report as one HTML page that needs nothing else: no script, no image, no font, nothing to
//! load, and a policy in the page that forbids it. `src/templates/report.html` lays it out, and
//! escapes all text from outside; here is what it shows, and the drawing in its own units.

use std::time::Duration;

use askama::Template;

use super::sections::{Section, column as column_title, facts, sections, state, warning};
use super::words::{
    asked, fraction, headline, instances, minute, number, period, plural, second, subject,
    verification,
};
use crate::audit::read::report::{
    Bucket, EventsByReason, NamedLog, OverTime, Report, ServiceState, TimelineSpan,
};
use crate::audit::{Event, Head, Reason};
use crate::cli::output::human_duration;
use crate::types::timestamp::Timestamp;

#[derive(Template)]
#[template(path = "report.html", config = "src/templates/askama.toml")]
struct Page {
    title: String,
    subject: &'static str,
    period: String,
    headline: String,
    asked: String,
    warning: Option<String>,
    /// The facts at the top, each number with its name.
    facts: Vec<(String, String)>,
    logs: Vec<NamedHead>,
    instances: Option<String>,
    verification: String,
    is_in_doubt: bool,
    made_at: String,
    version: &'static str,
    /// Of each reason its class, and its colours on a light and on a dark page.
    colors: Vec<(&'static str, &'static str, &'static str)>,
    /// One for each log.
    bands: Vec<Band>,
    chart: Option<Chart>,
    sections: Vec<Section>,
}

/// Where a log ends; of several, each is named.
struct NamedHead {
    dir: Option<String>,
    head: Option<(String, String)>,
}

/// The report as one HTML page, which loads nothing.
pub fn print(report: &Report) -> String {
    let head = |head: &Head| (number(head.seq), head.hash.clone());
    let alone = report.log.head.as_ref().map(|it| NamedHead { dir: None, head: Some(head(it)) });
    let several = report.logs.iter().map(|NamedLog { dir, log }| NamedHead {
        dir: Some(dir.clone()),
        head: log.head.as_ref().map(head),
    });
    let colors = Reason::ALL.into_iter().map(|reason| {
        let [light, dark] = reason.row().colors;
        (reason.word(), light, dark)
    });
    let page = Page {
        title: format!("{}, {}", subject(report), period(report)),
        subject: subject(report),
        period: period(report),
        headline: headline(report),
        asked: asked(report),
        warning: warning(&report.missing),
        facts: facts(report),
        logs: alone.into_iter().chain(several).collect(),
        instances: instances(report),
        verification: verification(report),
        is_in_doubt: report.verified.as_ref().is_some_and(|verified| !verified.holds),
        made_at: minute(report.made_at),
        version: report.courtesy,
        colors: colors.collect(),
        bands: Band::all(report),
        chart: Chart::of(report),
        sections: sections(report),
    };
    page.render().expect("a text can be written to") + "\n"
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

/// When the proxy was on, and in which mode, along the period; the table below has the same in words.
pub struct Band {
    /// The directory of the log, where there are several.
    pub log: Option<String>,
    pub label: String,
    /// Of each state that occurs its class, its name and how long it was.
    pub legend: Vec<(&'static str, &'static str, String)>,
    /// Of the drawing, in its own units.
    pub width: f64,
    pub rects: Vec<BandRect>,
    /// Where settings changed.
    pub marks: Vec<(String, String)>,
    pub since: String,
    pub until: String,
}

/// One state in the drawing.
pub struct BandRect {
    pub class: &'static str,
    pub x: String,
    /// In the units of the drawing.
    pub width: String,
    pub title: String,
}

impl Band {
    /// One for each log.
    pub fn all(report: &Report) -> Vec<Self> {
        let spans = &report.service.spans;
        let of_log = spans.chunk_by(|one, next| one.log == next.log);
        of_log.filter_map(|spans| Self::of(spans, report)).collect()
    }

    fn of(spans: &[TimelineSpan], report: &Report) -> Option<Self> {
        let (since, until) = (spans.first()?.since, spans.last()?.until);
        let whole = until.since(since).as_secs_f64().max(f64::MIN_POSITIVE);
        let at = |time: Timestamp| time.since(since).as_secs_f64() / whole * WIDTH;
        let length = |span: &TimelineSpan| span.until.since(span.since);
        let rect = |span: &TimelineSpan| BandRect {
            class: state_class(span.state),
            x: units(at(span.since)),
            // A short one is visible.
            width: units((at(span.until) - at(span.since)).max(1.0)),
            title: format!(
                "{} to {}: {}, {}",
                second(span.since),
                second(span.until),
                state(span.state),
                human_duration(length(span))
            ),
        };
        let mut legend: Vec<(ServiceState, Duration)> = Vec::new();
        for span in spans {
            match legend.iter_mut().find(|(state, _)| *state == span.state) {
                Some((_, sum)) => *sum += length(span),
                None => legend.push((span.state, length(span))),
            }
        }
        let legend: Vec<_> = legend
            .into_iter()
            .map(|(it, sum)| (state_class(it), state(it), human_duration(sum)))
            .collect();
        let words: Vec<_> =
            legend.iter().map(|(_, name, length)| format!("{name} {length}")).collect();
        let settings = report.service.changed.iter().filter(|_| report.logs.is_empty());
        let marks = settings.filter(|it| since <= it.time && it.time <= until);
        Some(Self {
            log: spans[0].log.clone(),
            label: format!("{} to {} UTC: {}", minute(since), minute(until), words.join(", ")),
            legend,
            width: WIDTH,
            rects: spans.iter().map(rect).collect(),
            marks: marks
                .map(|it| (units(at(it.time)), format!("{}, line {}", second(it.time), it.seq)))
                .collect(),
            since: minute(since),
            until: minute(until),
        })
    }
}

const fn state_class(state: ServiceState) -> &'static str {
    match state {
        ServiceState::Enforce => "enforce",
        ServiceState::Observe => "observe",
        ServiceState::On => "running",
        ServiceState::Off => "off",
        ServiceState::Unknown => "unknown",
    }
}

/// Records over time: a stack for each bucket, of denied requests by reason and forwarded ones above.
struct Chart {
    each: String,
    most: String,
    parts: Vec<Part>,
    width: f64,
    height: f64,
    left: f64,
    right: f64,
    bottom: f64,
    count_x: f64,
    tick_end: f64,
    tick_label: f64,
    lines: Vec<ScaleLine>,
    rects: Vec<Rect>,
    ticks: Vec<Tick>,
    /// The same as numbers.
    rows: Vec<(String, Vec<String>)>,
}

/// A part of the stacks that occurs.
struct Part {
    class: &'static str,
    name: String,
    count: String,
}

struct ScaleLine {
    y: String,
    label_y: String,
    count: String,
}

struct Rect {
    class: &'static str,
    x: String,
    y: String,
    width: String,
    height: String,
    title: String,
}

struct Tick {
    middle: String,
    x: String,
    class: &'static str,
    label: String,
}

/// What a part of the stack counts.
#[derive(Clone, Copy)]
enum Counted {
    Denied(Reason),
    Forwarded(Event),
}

/// Forwarded requests, with their colour class.
const FORWARDED: [(Event, &str); 3] =
    [(Event::WouldDeny, "e1"), (Event::Exempted, "e2"), (Event::Tunnelled, "e3")];

impl Counted {
    /// Every part with its class, from below to above: first the reasons that rest on a robots.txt.
    fn all() -> impl Iterator<Item = (Self, &'static str)> {
        let of_robots = Reason::ALL.into_iter().filter(|reason| reason.is_of_robots());
        let others = Reason::ALL.into_iter().filter(|reason| !reason.is_of_robots());
        let denied = of_robots.chain(others).map(|reason| (Self::Denied(reason), reason.word()));
        denied.chain(FORWARDED.map(|(event, class)| (Self::Forwarded(event), class)))
    }

    fn of(self, events: &EventsByReason) -> u64 {
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

impl Chart {
    /// None where there are no records.
    fn of(report: &Report) -> Option<Self> {
        let over_time = &report.over_time;
        if report.records.all == 0 || over_time.buckets.is_empty() {
            return None;
        }
        let total = |bucket: &Bucket| bucket.by_reason.values().sum::<u64>();
        let most = over_time.buckets.iter().map(total).max().unwrap_or_default();
        let (top, step) = scale(most);
        let all = &report.records.events_by_reason;
        let occurring: Vec<_> = Counted::all().filter(|(it, _)| it.of(all) > 0).collect();
        let parts = occurring.iter().map(|(it, class)| Part {
            class,
            name: it.name(),
            count: number(it.of(all)),
        });
        let lines = (0..=top).step_by(usize::try_from(step).unwrap_or(1)).map(|count| {
            let y = height_of(count, top);
            ScaleLine { y: units(y), label_y: units(y + 4.0), count: number(count) }
        });
        let rects = over_time
            .buckets
            .iter()
            .enumerate()
            .flat_map(|(at, bucket)| Self::stack(bucket, place(at, over_time), top));
        let rows = over_time.buckets.iter().filter(|bucket| total(bucket) > 0).map(|bucket| {
            let counts = occurring.iter().map(|(it, _)| number(it.of(&bucket.events_by_reason)));
            (minute(bucket.start), counts.collect())
        });
        Some(Self {
            each: human_duration(Duration::from_secs(over_time.bucket_seconds)),
            most: number(most),
            parts: parts.collect(),
            width: WIDTH,
            height: HEIGHT,
            left: LEFT,
            right: WIDTH - RIGHT,
            bottom: HEIGHT - BOTTOM,
            count_x: LEFT - 8.0,
            tick_end: HEIGHT - BOTTOM + 4.0,
            tick_label: HEIGHT - BOTTOM + 20.0,
            lines: lines.collect(),
            rects: rects.collect(),
            ticks: Self::ticks(over_time),
            rows: rows.collect(),
        })
    }

    fn stack(bucket: &Bucket, (x, width): (f64, f64), top: u64) -> Vec<Rect> {
        let (mut rects, mut below) = (Vec::new(), 0);
        let gap = (width * 0.15).min(4.0);
        for (part, class) in Counted::all() {
            let count = part.of(&bucket.events_by_reason);
            if count == 0 {
                continue;
            }
            let (from, to) = (height_of(below, top), height_of(below + count, top));
            // A count above zero is visible.
            let height = (from - to).max(0.8);
            rects.push(Rect {
                class,
                x: units(x + gap / 2.0),
                y: units(from - height),
                width: units(width - gap),
                height: units(height),
                title: format!(
                    "{}: {}, {}",
                    minute(bucket.start),
                    plural(count, "record"),
                    part.name()
                ),
            });
            below += count;
        }
        rects
    }

    fn ticks(over_time: &OverTime) -> Vec<Tick> {
        let every = over_time.buckets.len().div_ceil(TICKS);
        let tick = |(at, bucket): (usize, &Bucket)| {
            let (x, width) = place(at, over_time);
            let middle = x + width / 2.0;
            // Whole days need no time of day.
            let mut label = minute(bucket.start);
            if over_time.bucket_seconds >= 86_400 {
                label.truncate(10);
            }
            // The first label begins where the drawing does, and does not stand out of it.
            let (x, class) = if at == 0 { (x, "first") } else { (middle, "tick") };
            Tick { middle: units(middle), x: units(x), class, label }
        };
        over_time.buckets.iter().enumerate().step_by(every).map(tick).collect()
    }
}

fn units(length: f64) -> String {
    format!("{length:.1}")
}

/// Where a bucket begins, and how wide it is.
#[expect(clippy::cast_precision_loss, reason = "there are a hundred buckets")]
fn place(at: usize, over_time: &OverTime) -> (f64, f64) {
    // A few buckets are not made as wide as the page.
    let width = ((WIDTH - LEFT - RIGHT) / over_time.buckets.len() as f64).min(120.0);
    (LEFT + at as f64 * width, width)
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
