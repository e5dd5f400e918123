//! The scenes with pages and rules: what each kind of site makes of a crawler's requests.

use std::io::{self, Write};
use std::time::Duration;

use Expect::{Denied, Forwarded};

use super::stage::{CRAWLER, Expect, Origin, Reply, Stage};

const BY_RULE: &str = "disallow_rule";
const UNREACHABLE: &str = "robots_unreachable";

const SHOP: &str = "\
User-agent: *
Disallow: /private/
Allow: /private/press/
Disallow: /*.pdf$

User-agent: GreedyBot
Disallow: /
";

/// Patterns, and groups of agents.
pub fn rules(stage: &mut Stage<impl Write>) -> io::Result<()> {
    stage.report.scene(
        "A site with rules",
        "The longest pattern that matches decides; * stands for anything, $ for the end. A crawler \
         with a group of its own follows only that.",
    )?;
    let shop = stage.site("shop.example", Reply::rules(SHOP))?;
    let numbered = (1..).zip(SHOP.lines());
    stage.report.show(
        &numbered
            .map(|(number, line)| format!("{number} │ {line}").trim_end().to_owned())
            .collect::<Vec<_>>(),
    )?;
    stage.visit(&shop, "/shoes", Forwarded)?;
    stage.visit(&shop, "/private/staff", Denied(BY_RULE, Some(2)))?;
    stage.visit(&shop, "/private/press/2026", Forwarded)?;
    stage.visit(&shop, "/catalogue.pdf", Denied(BY_RULE, Some(4)))?;
    stage.visit(&shop, "/catalogue.pdf?page=1", Forwarded)?;
    stage.visit_as("GreedyBot", "GreedyBot/2.1", &shop, "/shoes", Denied(BY_RULE, Some(7)))?;
    let own = stage.get(&shop, "/robots.txt", CRAWLER)?;
    // One for the first crawler; one by the proxy itself as the second came, whose file is that of all.
    let fetches = shop.asked("/robots.txt");
    stage.report.check(
        own.status == 200 && fetches == 2,
        "seven requests of two crawlers, one for robots.txt itself, cost the site",
        &format!("{fetches} fetches"),
        &[],
    )
}

/// 503: everything is denied (RFC 9309 §2.3.1.4), until the file can be had again.
pub fn down(stage: &mut Stage<impl Write>) -> io::Result<()> {
    stage.report.scene(
        "A site that is down",
        "503 says nothing about the rules, so all is denied until they can be had (RFC 9309          §2.3.1.4), and the crawler hears when to come back. A site in trouble is not asked for each          request. The proxy's clock is moved by hand here.",
    )?;
    let down = stage.site("down.example", Reply::unavailable().with("Retry-After", "120"))?;
    let answer = stage.visit(&down, "/page", Denied(UNREACHABLE, None))?;
    let wait = answer.field("retry-after").unwrap_or("nothing").to_owned();
    let what = "the 403 passes on the site's Retry-After";
    stage.report.check(wait == "120", what, &format!("{wait} s"), &[])?;
    stage.visit(&down, "/page", Denied(UNREACHABLE, None))?;
    let fetches = down.asked("/robots.txt");
    let what = "two requests, but robots.txt was asked for";
    stage.report.check(fetches == 1, what, &format!("{fetches} times"), &[])?;
    stage.report.say("Two minutes later the site is up again.")?;
    down.answers("/robots.txt", Reply::rules(RULES));
    stage.later(Duration::from_mins(2));
    stage.visit(&down, "/page", Forwarded)?;
    stage.visit(&down, "/private/1", Denied(BY_RULE, Some(2))).map(drop)
}

// An outage of a month and a day: moves the proxy's clock a day at a time, and shows the state machine
// of RFC 9309 §2.3.1.4 as a crawler sees it.

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
pub fn play_outage(stage: &mut Stage<impl Write>) -> io::Result<()> {
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
    let (closed, rest) = never.split_at(OPENS);
    let (open, back) = rest.split_at(rest.len() - 1);
    for (days, expected, what, result) in [
        (kept, Day::Rules, "kept.example, days 0 to 33: the copy's rules hold", "by rules"),
        (closed, Day::Closed, "never.example, days 1 to 30: no rules known", "closed"),
        (open, Day::Open, "never.example, days 31 and 32: unreachable for 30 days", "open"),
        (back, Day::Rules, "never.example, day 33: the rules are back, and hold", "by rules"),
    ] {
        let holds = days.iter().all(|day| *day == expected);
        stage.report.check(holds, what, result, &[])?;
    }
    Ok(())
}
