//! A record in words, member by member.

use crate::audit::read::ChainCheck;
use crate::audit::{
    AgentSource, Client, Event, Reason, Record, Robots, RobotsStatus, Rule, print_time,
    read_as_clause,
};
use crate::cli::audit::form::printable;
use crate::cli::output::Paint;
use crate::policy::exemption::PathPattern;

/// The headline, why, and the fields; each line with its end.
pub fn of(record: &Record, hash: &str, check: Option<&ChainCheck>, paint: Paint) -> String {
    let mut text = headline(record, paint);
    text.push_str(&format!("  {}\n\n", printable(&why(record))));
    let chain = check.map(|check| ("chain", super::file::chain_words(check).to_owned()));
    for (name, value) in fields(record, hash).into_iter().chain(chain) {
        text.push_str(&format!(
            "  {}  {}\n",
            paint.faint(format!("{name:<10}")),
            printable(&value)
        ));
    }
    text
}

/// The exemption by which the request would be allowed, as the settings take it, with what only its
/// giver knows left to fill in. Nothing of what cannot be exempted.
pub fn exemption(record: &Record, paint: Paint) -> String {
    let is_denial = matches!(record.event, Event::Denied | Event::WouldDeny);
    if !is_denial || !record.reason.row().can_be_waived {
        return String::new();
    }
    let text = |value: &str| toml::Value::String(value.to_owned()).to_string();
    let mut lines = vec!["[[exemptions]]".to_owned(), format!("origin = {}", text(&record.origin))];
    // What a rule disallows is what the site would have to permit; otherwise it is the whole origin.
    if let Some(rule) = &record.rule {
        let path = record.url.strip_prefix(&record.origin).unwrap_or_default();
        let path = path.split('?').next().unwrap_or_default();
        let Some(found) = [&rule.pattern, path].into_iter().find(|it| is_path(it)) else {
            return String::new();
        };
        lines.push(format!("paths = [{}]", text(found)));
    }
    lines.extend(record.agent.as_deref().map(|it| format!("agents = [{}]", text(it))));
    lines.push("by = \"\"      # who has given the permission".into());
    lines.push("reason = \"\"  # what for, and where that is written".into());
    lines.push("until = \"\"   # the last day, as in 2026-12-31".into());
    let lines: String = lines.iter().map(|line| format!("  {line}\n")).collect();
    let hint = "with the permission of the site, in the configuration:";
    format!("\n{}\n\n{lines}", paint.faint(hint))
}

/// Whether a text of a record, which may be cut or escaped, is a pattern of an exemption, too.
fn is_path(text: &str) -> bool {
    text.parse::<PathPattern>().is_ok() && !text.contains(['…', '\\'])
}

fn headline(record: &Record, paint: Paint) -> String {
    let words = event(record.event);
    let event = match record.event {
        Event::Denied => paint.bad(words),
        Event::WouldDeny | Event::Tunnelled => paint.doubtful(words),
        Event::Exempted => paint.good(words),
    };
    format!("{event}  {} {}\n", printable(&record.method), paint.strong(printable(&record.url)))
}

/// What was done with the request.
pub const fn event(event: Event) -> &'static str {
    match event {
        Event::Denied => "denied",
        Event::WouldDeny => "forwarded (would be denied: observe)",
        Event::Exempted => "forwarded (exempted)",
        Event::Tunnelled => "forwarded (tunnelled)",
    }
}

/// Why it was decided so, in a sentence.
pub fn why(record: &Record) -> String {
    match (record.reason, &record.rule, &record.sni) {
        (Reason::DisallowRule, Some(rule), _) => {
            let Rule { line, directive, pattern, .. } = rule;
            let read_as = read_as_clause(&rule.read_as);
            let (robots, agent) = (fill("{robots}", record), fill("{agent}", record));
            format!(
                "line {line} of {robots}, \"{directive}: {pattern}\", applies to {agent}{read_as}"
            )
        }
        (Reason::Undecided, ..) if record.is_of_robots() => fill(
            "the rules of {robots} for {agent} take too many steps for this URL, and undecided is \
             denied",
            record,
        ),
        (Reason::SniMismatch, _, Some(name)) => {
            format!("the client names {name} in TLS, and {} in its CONNECT", record.url)
        }
        (reason, ..) => fill(reason.row().explanation, record),
    }
}

/// `template` with the values of `record` in place of the names in braces.
fn fill(template: &str, record: &Record) -> String {
    let robots = record.robots.as_ref();
    let mut parts = template.split('{');
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('}').unwrap_or((part, ""));
        filled.push_str(match name {
            "agent" => record.agent.as_deref().unwrap_or("a client without a product token"),
            "cause" => {
                robots.and_then(|robots| robots.cause.as_deref()).unwrap_or("no cause is recorded")
            }
            "origin" => &record.origin,
            "robots" => robots.map_or("robots.txt", |robots| robots.url.as_str()),
            "url" => &record.url,
            unknown => unreachable!("a template names {unknown}"),
        });
        filled.push_str(rest);
    }
    filled
}

/// What the record says, each with its name.
pub fn fields(record: &Record, hash: &str) -> Vec<(&'static str, String)> {
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
    fields.extend(record.setting.iter().map(|setting| ("observed", format!("by {setting}"))));
    fields.extend(record.robots.as_deref().into_iter().flat_map(robots));
    fields.extend(record.trace_id.iter().map(|trace| ("trace", trace.clone())));
    fields.push(("place", format!("number {} of the log", record.seq)));
    fields.push(("hash", hash.to_owned()));
    fields
}

fn client(record: &Record) -> String {
    let Client { address, name } = &record.client;
    match (name, address) {
        (Some(name), Some(address)) => format!("{name} at {address}"),
        (None, Some(address)) => address.to_string(),
        (Some(name), None) => name.clone(),
        (None, None) => "not recorded".into(),
    }
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

/// The state of the robots.txt.
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
    let asked =
        robots.asked_as.as_ref().map(|agent| format!("as {agent}, for which alone this holds"));
    fields.extend(asked.map(|asked| ("asked", asked)));
    fields.extend(moments.into_iter().filter_map(|(what, time)| Some((what, print_time(time?)))));
    fields.extend(robots.sha256.iter().map(|sha256| ("sha256", sha256.clone())));
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::read::report::tests::log::{NOON, record};

    #[test]
    fn a_denial_ends_with_its_exemption_where_there_may_be_one() {
        let mut denied = record(NOON, "http://a.example", Some("ExampleBot"), Reason::DisallowRule);
        denied.url = "http://a.example/x/y?z=1".into();
        let of = |pattern: &str, record: &Record| {
            let read_as = Vec::new();
            let directive = "Disallow".into();
            let rule = Rule { line: 2, directive, pattern: pattern.into(), read_as };
            exemption(&Record { rule: Some(rule), ..record.clone() }, Paint::OFF)
        };
        for (pattern, paths) in [
            ("/x/", "paths = [\"/x/\"]"),
            ("*.pdf$", "paths = [\"*.pdf$\"]"),
            ("x", "paths = [\"/x/y\"]"),
            ("/a…", "paths = [\"/x/y\"]"),
        ] {
            let text = of(pattern, &denied);
            assert!(text.contains(paths) && text.contains("agents = [\"ExampleBot\"]"), "{text}");
        }
        denied.event = Event::Exempted;
        assert_eq!(of("/x/", &denied), "");
        let undeniable = record(NOON, "http://a.example", None, Reason::AgentRequired);
        assert_eq!(exemption(&undeniable, Paint::OFF), "");
    }

    #[test]
    fn every_reason_is_explained_without_a_name_in_braces() {
        for reason in Reason::ALL {
            let text =
                fill(reason.row().explanation, &record(NOON, "http://a.example", None, reason));
            assert!(!text.contains(['{', '}']), "{text}");
        }
    }
}
