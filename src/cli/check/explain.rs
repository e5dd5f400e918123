//! A result on the terminal: the verdict, the deciding line, and its freshness.

use super::answer::{Answer, Outcome, Robots};
use crate::audit::read_as_clause;
use crate::cli::human_duration::human_duration;
use crate::cli::paint::Paint;

/// The whole explanation with line ends.
pub fn explain(answer: &Answer, paint: Paint) -> String {
    let mut lines = vec![headline(answer.ruling.decision, &answer.url, paint)];
    lines.extend(why(answer, paint).into_iter().map(|line| format!("  {line}")));
    lines.join("\n") + "\n"
}

/// A query that could not be made.
pub fn refused(url: &str, why: &str, paint: Paint) -> String {
    format!("{}  {url}\n  {why}\n", paint.doubtful("refused"))
}

fn headline(outcome: Outcome, url: &str, paint: Paint) -> String {
    let word = match outcome {
        Outcome::Allow => paint.good("allow   "),
        Outcome::Disallow => paint.bad("disallow"),
        Outcome::Undecided => paint.doubtful("undecided"),
    };
    format!("{word}  {}", paint.strong(url))
}

fn why(answer: &Answer, paint: Paint) -> Vec<String> {
    let (basis, robots) = (&answer.ruling.basis, &answer.robots);
    let url = &robots.url;
    let cause = basis.cause.as_deref().unwrap_or_default();
    let mut lines = match (basis.reason, &basis.group) {
        ("rule", _) => by_rule(answer, paint),
        ("no_rule", Some(group)) => {
            vec![format!(
                "no rule of the group \"{}\" (line {}) of {url} matches",
                group.token, group.line
            )]
        }
        ("no_group", _) => vec![format!("no group of {url} applies to this agent")],
        ("robots_txt_itself", _) => {
            vec!["a robots.txt may always be fetched (RFC 9309 §2.2.2)".into()]
        }
        ("unavailable", _) => vec![format!("{url} is not to be had: {cause} (RFC 9309 §2.3.1.3)")],
        ("unreachable" | "long_unreachable", _) => unreachable(answer, cause),
        _ => vec![cause.to_owned()],
    };
    lines.extend(robots.oddity.clone());
    lines.extend(answer.pace.line().filter(|_| answer.ruling.decision == Outcome::Allow));
    let let_through = answer.let_through.as_ref();
    lines.extend(let_through.map(|setting| format!("but the proxy lets it through, by {setting}")));
    let group = basis.group.as_ref().filter(|_| basis.reason == "rule");
    let group = group.map(|group| format!("group \"{}\" (line {})", group.token, group.line));
    let evidence: Vec<String> = group.into_iter().chain(evidence(robots)).collect();
    if !evidence.is_empty() {
        lines.push(paint.faint(evidence.join("; ")));
    }
    lines
}

fn by_rule(answer: &Answer, paint: Paint) -> Vec<String> {
    let (basis, line) = (&answer.ruling.basis, answer.ruling.line.unwrap_or_default());
    let directive = if basis.directive == Some("allow") { "Allow" } else { "Disallow" };
    let pattern = basis.pattern.as_deref().unwrap_or_default();
    let read_as = read_as_clause(&basis.read_as);
    let mut lines =
        vec![format!("line {line} of {}   {directive}: {pattern}{read_as}", answer.robots.url)];
    lines.extend(answer.robots.excerpt.iter().map(|(number, text)| {
        let (mark, text) =
            if *number == line { ("▸", paint.strong(text)) } else { (" ", paint.faint(text)) };
        format!("  {mark} {number:>4} │ {text}").trim_end().to_owned()
    }));
    lines
}

fn unreachable(answer: &Answer, cause: &str) -> Vec<String> {
    let mut lines = vec![format!("{} cannot be had: {cause}", answer.robots.url)];
    lines.push(match answer.ruling.decision {
        Outcome::Allow => format!("the profile {} allows everything meanwhile", answer.profile),
        _ => "so nothing of this origin may be fetched for now (RFC 9309 §2.3.1.4)".into(),
    });
    lines
}

/// The version of the file, its age, and when it expires.
fn evidence(robots: &Robots) -> Vec<String> {
    let mut parts = Vec::new();
    parts.extend(robots.sha256.as_ref().map(|digest| format!("sha256 {}…", &digest[..12])));
    parts.extend(robots.url_reached.as_ref().map(|url| format!("redirected to {url}")));
    parts.extend(robots.cut.then(|| "cut at the size limit".to_owned()));
    let fetched = robots.age.map(|age| match age.as_secs() {
        0 => "fetched just now".to_owned(),
        _ => format!("fetched {} ago", human_duration(age)),
    });
    let current = robots.current_for.map(|left| match robots.sha256 {
        Some(_) => format!("current for {}", human_duration(left)),
        None => format!("to be asked for again in {}", human_duration(left)),
    });
    let timing: Vec<String> = fetched.into_iter().chain(current).collect();
    if !timing.is_empty() {
        parts.push(timing.join(", "));
    }
    parts
}
