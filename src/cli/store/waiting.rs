//! `courtesy store waiting`: who waits for whom at a running proxy, and why.

use anyhow::anyhow;
use clap::Args;

use super::shown::{block, of_hold, seconds};
use crate::admin::control::{Question, WAITS_TOLD_MAX, WaitReport, ask_control};
use crate::audit::RECORD_TEXT_BYTES_MAX;
use crate::cli::exit::{Exit, Failure, OrExit};
use crate::cli::flags::StateFlags;
use crate::cli::output::{Form, Paint, print};
use crate::clients::{ClientWait, ClientWaits};
use crate::pace::{LaneWait, LaneWaits, LongestWait, WaitReason};
use crate::store::{FetchWait, FetchWaits};
use crate::types::sanitize;

/// The arguments of `courtesy store waiting`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  courtesy store waiting
  courtesy store waiting --format json | jq -r '.pace.lanes[] | [.waiting, .lane] | @tsv'

Hosts where requests wait for their time, or where nothing starts, with the reason; and robots.txt
files that are being fetched. Those with most waiting requests come first.
Ends with 69 where no proxy runs with this state directory, and with 1 where nothing waits.")]
pub struct WaitingArgs {
    /// Hosts, and robots.txt files, at most (200 at most)
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    limit: usize,
    /// How it is printed
    #[arg(long, value_enum, default_value_t)]
    format: Form,
    #[command(flatten)]
    config: StateFlags,
}

/// Runs `courtesy store waiting`.
pub fn run(args: &WaitingArgs) -> Result<Exit, Failure> {
    let state_dir = args.config.load()?.settings.state_dir;
    let mut report = None;
    let question = Question::Waiting { max: args.limit.min(WAITS_TOLD_MAX) };
    ask_control(&state_dir, &question, &mut |item| {
        report = Some(serde_json::from_value::<WaitReport>(item)?);
        Ok(())
    })?;
    let Some(report) = report else {
        let why = anyhow!("no proxy runs with the state directory {}", state_dir.display());
        return Err(why).or_exit(Exit::Unavailable);
    };
    match args.format {
        Form::Json => {
            print(serde_json::to_string_pretty(&report).expect("words and numbers") + "\n")?;
        }
        Form::Text => print(text(&report, Paint::for_stdout()))?,
    }
    Ok(if report == WaitReport::default() { Exit::No } else { Exit::Done })
}

fn text(report: &WaitReport, paint: Paint) -> String {
    let WaitReport {
        pace: LaneWaits { lanes, other_lanes, other_waiting },
        robots: FetchWaits { fetches, other_fetches, other_waiting: for_fetches },
    } = report;
    let mut lines: Vec<_> = lanes.iter().flat_map(|lane| of_lane(lane, paint)).collect();
    if *other_lanes > 0 {
        lines.push(format!("{other_lanes} more hosts, where {other_waiting} requests wait"));
    }
    lines.extend(fetches.iter().flat_map(|fetch| of_fetch(fetch, paint)));
    if *other_fetches > 0 {
        lines.push(format!(
            "{other_fetches} more robots.txt, for which {for_fetches} requests wait"
        ));
    }
    if lines.is_empty() {
        lines.push("Nothing waits.".to_owned());
    }
    lines.join("\n") + "\n"
}

fn of_lane(wait: &LaneWait, paint: Paint) -> Vec<String> {
    let mut lines = vec![paint.strong(&wait.lane)];
    let LaneWait { clients, under_way, for_exchange, longest, hold, .. } = wait;
    if let Some(longest) = longest {
        let mut waiting = vec![format!(
            "{}, the first for {}",
            requests(clients.waiting),
            seconds(longest.waited_ms)
        )];
        waiting.extend(longest.next_ms.map(|next| format!("next start in {}", seconds(next))));
        lines.extend(block("waiting", waiting));
        lines.extend(block("why", vec![why(longest)]));
    }
    lines.extend(hold.iter().flat_map(|hold| block("hold", vec![of_hold(hold)])));
    lines.extend(of_clients(clients));
    if *under_way > 0 {
        lines.extend(block("under way", vec![under_way.to_string()]));
    }
    if *for_exchange > 0 {
        let said = format!(
            "{} until fewer are under way (egress.max_per_origin)",
            requests(*for_exchange)
        );
        lines.extend(block("beyond", vec![said]));
    }
    lines
}

/// Why a robots.txt is waited for.
pub fn why_fetch(wait: &FetchWait) -> String {
    let name = sanitize::text(wait.asked_as.as_bytes(), RECORD_TEXT_BYTES_MAX);
    let stage = if wait.is_queued {
        "too many are fetched at the same time (robots.max_fetches)"
    } else {
        "it is being fetched"
    };
    format!("{stage}, as {name}")
}

fn of_fetch(wait: &FetchWait, paint: Paint) -> Vec<String> {
    let FetchWait { origin, clients, waited_ms, .. } = wait;
    let mut lines = vec![paint.strong(format!("{origin}/robots.txt"))];
    let waiting =
        format!("{}, the first for {} at most", requests(clients.waiting), seconds(*waited_ms));
    lines.extend(block("waiting", vec![waiting]));
    lines.extend(block("why", vec![why_fetch(wait)]));
    lines.extend(of_clients(clients));
    lines
}

fn requests(count: usize) -> String {
    if count == 1 { "1 request".to_owned() } else { format!("{count} requests") }
}

fn of_clients(clients: &ClientWaits) -> Vec<String> {
    let named = named(clients);
    if named.is_empty() { Vec::new() } else { block("clients", vec![named.join(" · ")]) }
}

/// The clients that wait, each with how many of its requests.
pub fn named(clients: &ClientWaits) -> Vec<String> {
    let name = |client: &ClientWait| match client.user.as_ref().or(client.address.as_ref()) {
        Some(name) => sanitize::text(name.as_bytes(), RECORD_TEXT_BYTES_MAX),
        None => "courtesy itself".to_owned(),
    };
    let of = |client: &ClientWait| format!("{} of {}", client.waiting, name(client));
    let mut named: Vec<_> = clients.clients.iter().map(of).collect();
    if clients.other_clients > 0 {
        named.push(format!("the rest of {} more", clients.other_clients));
    }
    named
}

/// Why the one that waits longest waits.
pub fn why(wait: &LongestWait) -> String {
    let LongestWait { by, delay_ms, group, line, .. } = wait;
    let mut at = Vec::new();
    at.extend(line.map(|line| format!("line {line}")));
    at.extend(
        group.as_deref().map(|group| {
            format!("group {}", sanitize::text(group.as_bytes(), RECORD_TEXT_BYTES_MAX))
        }),
    );
    let at = if at.is_empty() { String::new() } else { format!(" ({})", at.join(", ")) };
    let apart = format!("{} between two starts", seconds(*delay_ms));
    match by {
        WaitReason::Delay => format!("pace.delay, or a low quota: {apart}"),
        WaitReason::CrawlDelay => format!("Crawl-delay: {apart}{at}"),
        WaitReason::RequestRate => format!("Request-rate: {apart}{at}"),
        WaitReason::Exemption => format!("an exemption: {apart}"),
        WaitReason::Adapt => format!("the site is slow: {apart}{at}"),
        WaitReason::Share => format!("the engine is away, and each proxy has its share: {apart}"),
        WaitReason::Address => {
            "limits of the address (pace.address_delay, _concurrency)".to_owned()
        }
        WaitReason::Concurrency => "as many as may be are under way (pace.concurrency)".to_owned(),
        WaitReason::Hold => "nothing starts here for a while".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::LaneHold;
    use crate::pace::hold::Cause;

    fn clients(waiting: usize, other_clients: usize) -> ClientWaits {
        let named = |user: Option<&str>, address: Option<&str>, waiting| ClientWait {
            user: user.map(str::to_owned),
            address: address.map(str::to_owned),
            waiting,
        };
        let clients = vec![
            named(Some("ada"), None, 3),
            named(None, Some("192.0.2.1"), 2),
            named(None, None, 1),
        ];
        ClientWaits { waiting, clients, other_clients }
    }

    #[test]
    fn the_text_says_who_waits_for_whom_and_why() {
        let lane = LaneWait {
            lane: "https://example.com".into(),
            clients: clients(7, 1),
            under_way: 1,
            for_exchange: 0,
            longest: Some(LongestWait {
                waited_ms: 12_000,
                by: WaitReason::CrawlDelay,
                delay_ms: 60_000,
                group: Some("a\u{1b}[31m".into()),
                line: Some(2),
                next_ms: Some(48_000),
            }),
            hold: None,
        };
        let hold = LaneHold { left_ms: 600_000, status: 429, cause: Cause::RetryAfter };
        let (lane_name, none) = ("http://held.example".into(), ClientWaits::default());
        let held = LaneWait {
            lane: lane_name,
            clients: none,
            under_way: 0,
            longest: None,
            hold: Some(hold),
            for_exchange: 2,
        };
        let fetch = FetchWait {
            origin: "https://new.example".into(),
            asked_as: "ExampleBot courtesy".into(),
            clients: clients(6, 0),
            waited_ms: 1500,
            is_queued: false,
        };
        let report = WaitReport {
            pace: LaneWaits { lanes: vec![lane, held], other_lanes: 4, other_waiting: 9 },
            robots: FetchWaits { fetches: vec![fetch], other_fetches: 0, other_waiting: 0 },
        };
        assert_eq!(
            text(&report, Paint::OFF),
            "https://example.com\n  \
               waiting      7 requests, the first for 12 s\n               \
               next start in 48 s\n  \
               why          Crawl-delay: 1 min between two starts (line 2, group a\\x1B[31m)\n  \
               clients      3 of ada · 2 of 192.0.2.1 · 1 of courtesy itself · the rest of 1 more\n  \
               under way    1\n\
             http://held.example\n  \
               hold         nothing starts for 10 min: it answered 429 with Retry-After\n  \
               beyond       2 requests until fewer are under way (egress.max_per_origin)\n\
             4 more hosts, where 9 requests wait\n\
             https://new.example/robots.txt\n  \
               waiting      6 requests, the first for 2 s at most\n  \
               why          it is being fetched, as ExampleBot courtesy\n  \
               clients      3 of ada · 2 of 192.0.2.1 · 1 of courtesy itself\n"
        );
        assert_eq!(text(&WaitReport::default(), Paint::OFF), "Nothing waits.\n");
    }
}
