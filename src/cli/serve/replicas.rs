//! Whether this process looks like one of several pods, which should share an engine.

use tracing::warn;

use crate::cli::environment;
use crate::config::Settings;

/// The letters of the random parts of names (`rand.SafeEncodeString` of Kubernetes).
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Of the part that all pods of a Deployment have in common: a number of 32 bits, encoded.
const HASH_BYTES: std::ops::RangeInclusive<usize> = 6..=10;
/// Of the part that differs.
const RANDOM_BYTES: usize = 5;

/// Warns in the log where a pod looks replicated and no engine is set: each proxy would have a pace
/// of its own.
pub fn warn_without_engine(settings: &Settings) {
    let is_set = settings.engine.url.is_some() || settings.engine.url_file.is_some();
    if is_set || !environment::is_set("KUBERNETES_SERVICE_HOST") {
        return;
    }
    if let Some(host) = environment::variable("HOSTNAME").filter(|host| is_of_several(host)) {
        warn!(
            host,
            "this pod looks like one of several, and no shared engine is set (engine.url): each \
             keeps a pace of its own, so a site gets as many times the pace as there are pods"
        );
    }
}

/// Whether a host is named as a pod of a Deployment (`NAME-HASH-RANDOM`) or of a StatefulSet
/// (`NAME-NUMBER`).
fn is_of_several(host: &str) -> bool {
    let is_random = |part: &str| part.bytes().all(|byte| LETTERS.contains(&byte));
    let mut parts = host.rsplit('-');
    let (Some(last), Some(before)) = (parts.next(), parts.next()) else { return false };
    let is_ordinal = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
    let is_of_deployment = parts.next().is_some()
        && last.len() == RANDOM_BYTES
        && is_random(last)
        && HASH_BYTES.contains(&before.len())
        && is_random(before);
    !before.is_empty() && (is_ordinal || is_of_deployment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_of_deployments_and_stateful_sets_are_named_so() {
        for (host, is_so) in [
            ("courtesy-6d4cf56db6-x7k2p", true),
            ("my-crawler-7f9c8b5d4-zq4wv", true),
            ("courtesy-0", true),
            ("courtesy-12", true),
            // Of a DaemonSet or a Job, or of no pod.
            ("courtesy-x7k2p", false),
            ("courtesy", false),
            ("web-server-eu", false),
            ("a-b-c", false),
            ("-0", false),
            ("0", false),
            ("", false),
        ] {
            assert_eq!(is_of_several(host), is_so, "{host}");
        }
    }
}
