//! A record in words, field by field.

use crate::audit::read::Standing;
use crate::audit::{AgentSource, Event, Reason, Record, Robots, RobotsStatus, mended, print_time};
use crate::cli::audit::table::printable;
use crate::cli::paint::Paint;

/// The headline, why, and the fields; each line with its end.
pub fn of(record: &Record, hash: &str, standing: Option<&Standing>, paint: Paint) -> String {
    let mut text = headline(record, paint);
    text.push_str(&format!("  {}\n\n", printable(&why(record))));
    let chain = standing.map(|standing| ("chain", super::chain::words(standing).to_owned()));
    for (name, value) in fields(record, hash).into_iter().chain(chain) {
        text.push_str(&format!(
            "  {}  {}\n",
            paint.faint(format!("{name:<10}")),
            printable(&value)
        ));
    }
    text
}

fn headline(record: &Record, paint: Paint) -> String {
    let event = match record.event {
        Event::Denied => paint.bad("denied"),
        Event::WouldDeny => paint.doubtful("would be denied (observe)"),
        Event::Exempted => paint.good("exempted"),
        Event::Tunnelled => paint.doubtful("tunnelled"),
    };
    format!("{event}  {} {}\n", printable(&record.method), paint.strong(printable(&record.url)))
}

fn why(record: &Record) -> String {
    let agent = record.agent.as_deref().unwrap_or("a client without a product token");
    let robots = record.robots.as_ref();
    let url = robots.map_or("robots.txt", |robots| robots.url.as_str());
    let cause = robots.and_then(|robots| robots.cause.as_deref()).unwrap_or("no cause is recorded");
    let origin = &record.origin;
    match (record.reason, &record.rule) {
        (Reason::DisallowRule, Some(rule)) => {
            format!(
                "line {} of {url}, \"{}: {}\", applies to {agent}{}",
                rule.line,
                rule.directive,
                rule.pattern,
                mended(&rule.read_as)
            )
        }
        (Reason::DisallowRule, None) => format!("{url} disallows it for {agent}"),
        (Reason::RobotsUnreachable, _) => {
            format!(
                "{url} could not be had ({cause}), so nothing of {origin} was to be fetched (RFC 9309 §2.3.1.4)"
            )
        }
        (Reason::RobotsAccessDenied, _) => {
            format!(
                "{origin} does not give out its robots.txt ({cause}), which the profile reads as a refusal"
            )
        }
        (Reason::OriginRefused, _) => {
            format!("the address policy does not let {origin} be reached")
        }
        (Reason::Undecided, _) if record.is_of_robots() => {
            format!(
                "which rule of {url} applies to {agent} takes too many steps to find out for this URL, and what \
                     is undecided is denied"
            )
        }
        (Reason::Undecided, _) => {
            "nothing could be decided in time, and what is undecided is denied".into()
        }
        (Reason::PathNotSeen, _) => {
            format!(
                "some paths of {origin} are disallowed for {agent}, and only the host was known"
            )
        }
        (Reason::TunnelNotHttp, _) => "what ran inside the CONNECT was neither TLS nor HTTP".into(),
        (Reason::SniMismatch, _) => match &record.sni {
            Some(name) => {
                format!("the client asked for {name} in TLS, and by its CONNECT for {}", record.url)
            }
            None => {
                format!("the client's TLS does not name the host of its CONNECT, {}", record.url)
            }
        },
        (Reason::AgentRequired, _) => {
            "the request had no User-Agent, and agents.require is set".into()
        }
    }
}

fn fields(record: &Record, hash: &str) -> Vec<(&'static str, String)> {
    let mut fields = vec![
        ("time", print_time(record.time)),
        ("id", record.id.clone()),
        ("client", client(record)),
        ("User-Agent", record.user_agent.clone().unwrap_or_else(|| "none".into())),
        ("agent", agent(record)),
        ("profile", profile(record)),
    ];
    fields.extend(record.url_as_received.iter().map(|url| ("received", format!("as {url}"))));
    let group =
        record.group.as_ref().map(|group| format!("\"{}\", line {}", group.token, group.line));
    fields.extend(group.map(|group| ("group", group)));
    let exemption = record.exemption.as_ref().map(|exemption| {
        let ticket =
            exemption.ticket.as_ref().map(|ticket| format!(" ({ticket})")).unwrap_or_default();
        let until = print_time(exemption.until);
        format!("by {}: {}{ticket}; until {until}", exemption.by, exemption.reason)
    });
    fields.extend(exemption.map(|exemption| ("exemption", exemption)));
    fields.extend(record.robots.as_deref().into_iter().flat_map(robots));
    fields.extend(record.trace_id.iter().map(|trace| ("trace", trace.clone())));
    fields.push(("place", format!("number {} of the log", record.seq)));
    fields.push(("hash", hash.to_owned()));
    fields
}

fn client(record: &Record) -> String {
    let address = record.client.address;
    record
        .client
        .name
        .as_ref()
        .map_or_else(|| address.to_string(), |name| format!("{name} at {address}"))
}

fn agent(record: &Record) -> String {
    let source = match record.agent_source {
        AgentSource::Configured => "by a rule under agents.rules",
        AgentSource::UserAgent => "from the User-Agent",
        AgentSource::Credentials => "of the user: there was no User-Agent",
        AgentSource::Absent => "there was no User-Agent",
    };
    format!("{}, {source}", record.agent.as_deref().unwrap_or("none"))
}

fn profile(record: &Record) -> String {
    let profile = &record.profile;
    let changes = profile.settings.iter().map(|(name, value)| format!(", {name} = {value}"));
    format!("{}, version {}{}", profile.name, profile.version, changes.collect::<String>())
}

/// What was known of the robots.txt.
fn robots(robots: &Robots) -> Vec<(&'static str, String)> {
    let reached = robots.url_reached.as_ref().filter(|reached| **reached != robots.url);
    let reached = reached.map(|reached| format!(", redirected to {reached}")).unwrap_or_default();
    let status = robots.status.map(|status| format!(", status {status}")).unwrap_or_default();
    let cut = if robots.cut { ", cut at the size limit" } else { "" };
    let mut fields = vec![("robots.txt", format!("{}{reached}{status}{cut}", robots.url))];
    let state = match robots.state {
        RobotsStatus::Rules => "there are rules",
        RobotsStatus::Unavailable => "unavailable: the origin has none",
        RobotsStatus::Unreachable => "unreachable",
    };
    let moments = [
        ("since", robots.since),
        ("fetched", robots.fetched_at),
        ("confirmed", robots.confirmed_at),
        ("last tried", robots.tried),
        ("next try", robots.next_try),
    ];
    let failures =
        robots.failures.map(|count| format!(", failed {count} times in a row")).unwrap_or_default();
    fields.push(("state", format!("{state}{failures}")));
    let told =
        robots.asked_as.as_ref().map(|agent| format!("as {agent}, for which alone this holds"));
    fields.extend(told.map(|told| ("asked", told)));
    fields.extend(moments.into_iter().filter_map(|(what, time)| Some((what, print_time(time?)))));
    fields.extend(robots.sha256.iter().map(|sha256| ("sha256", sha256.clone())));
    fields
}
