//! An outage of a month and a day: moves the proxy's clock a day at a time, and shows the state machine
//! of RFC 9309 §2.3.1.4 as a crawler sees it.

use std::io::{self, Write};
use std::time::Duration;

use super::origin::{Origin, Reply};
use super::stage::{CRAWLER, Stage};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The day on which both sites are back; the last of the story.
const BACK: usize = 33;

/// When an outage has been seen for long enough to assume that there are no rules.
const OPENS: usize = 30;

const RULES: &str = "User-agent: *\nDisallow: /private/\n";

/// What the crawler could fetch from a site on a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Day {
    Closed,
    Rules,
    Open,
    /// None of these: the private page was served, but not the public one; or there was no answer.
    Odd,
}

impl Day {
    const fn sign(self) -> char {
        match self {
            Self::Closed => '■',
            Self::Rules => '▤',
            Self::Open => '□',
            Self::Odd => '?',
        }
    }
}

/// Thirty-three days of two sites, by a clock that is moved by hand.
pub fn play(stage: &mut Stage<impl Write>) -> io::Result<()> {
    stage.report.scene(
        "A month of an outage, a day at a time",
        "Two sites answer 503 from day 1 to day 32, and are back on day 33. The rules of one were \
         known before; those of the other were never seen. The crawler asks both for /page and \
         /private/ each day.",
    )?;
    let kept = stage.site("kept.example", Reply::rules(RULES))?;
    let never = stage.site("never.example", Reply::unavailable())?;
    let (mut of_kept, mut of_never) = (Vec::new(), Vec::new());
    for day in 0..=BACK {
        match day {
            1 => kept.answers("/robots.txt", Reply::unavailable()),
            BACK => [&kept, &never]
                .into_iter()
                .for_each(|site| site.answers("/robots.txt", Reply::rules(RULES))),
            _ => {}
        }
        // The other one was not asked before its outage began.
        of_kept.push(look(stage, &kept));
        of_never.push(if day == 0 { None } else { Some(look(stage, &never)) });
        stage.later(DAY);
    }
    let of_never: Vec<Day> = of_never.into_iter().flatten().collect();
    timeline(stage, &of_kept, &of_never)?;
    verdicts(stage, &of_kept, &of_never)
}

fn look(stage: &mut Stage<impl Write>, site: &Origin) -> Day {
    let mut status = |path| stage.get(site, path, CRAWLER).map(|answer| answer.status).ok();
    match (status("/page"), status("/private/")) {
        (Some(403), Some(403)) => Day::Closed,
        (Some(200), Some(403)) => Day::Rules,
        (Some(200), Some(200)) => Day::Open,
        _ => Day::Odd,
    }
}

fn timeline(stage: &mut Stage<impl Write>, kept: &[Day], never: &[Day]) -> io::Result<()> {
    let signs = |days: &[Day]| days.iter().map(|day| day.sign()).collect::<String>();
    let scale: String = (0..=BACK).map(|day| if day % 10 == 0 { '┬' } else { '─' }).collect();
    let numbers: String = (0..=BACK).step_by(10).map(|day| format!("{day:<10}")).collect();
    stage.report.show(&[
        String::new(),
        format!("day            {}", numbers.trim_end()),
        format!("               {scale}"),
        format!("kept.example   {}", signs(kept)),
        format!("never.example  ·{}", signs(never)),
        String::new(),
        "■ everything denied   ▤ by the rules: only /private/ denied   □ everything allowed".into(),
        String::new(),
    ])
}

fn verdicts(stage: &mut Stage<impl Write>, kept: &[Day], never: &[Day]) -> io::Result<()> {
    let all = |days: &[Day], expected| days.iter().all(|day| *day == expected);
    let (closed, rest) = never.split_at(OPENS);
    let (open, back) = rest.split_at(rest.len() - 1);
    let report = &mut stage.report;
    report.check(
        all(kept, Day::Rules),
        "kept.example, days 0 to 33: the copy's rules hold throughout",
        "by rules",
        &[],
    )?;
    report.check(
        all(closed, Day::Closed),
        "never.example, days 1 to 30: no rules known, everything denied",
        "closed",
        &[],
    )?;
    report.check(
        all(open, Day::Open),
        "never.example, days 31 and 32: seen unreachable for 30 days, so allowed",
        "open",
        &[],
    )?;
    report.check(
        all(back, Day::Rules),
        "never.example, day 33: the rules are back, and hold",
        "by rules",
        &[],
    )
}
