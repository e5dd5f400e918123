//! A glob matches as the definition says, every choice of a star tried; a host pattern matches one host
//! or whole labels below one.

use courtesy::types::origin::HostPattern;
use courtesy::types::origin::host::Glob;
use courtesy::types::origin::{Host, Origin, Scheme};

/// A pattern and a text, each on a line of its own.
pub fn holds(bytes: &[u8]) {
    let mut lines = bytes.splitn(2, |byte| *byte == b'\n');
    let Ok(pattern) = std::str::from_utf8(lines.next().unwrap_or_default()) else { return };
    let text = lines.next().unwrap_or_default();
    assert_eq!(Glob::new(pattern).matches(text), matches(pattern.as_bytes(), text));

    let Some(host) = std::str::from_utf8(text).ok() else { return };
    let (Some(hosts), Ok(origin)) =
        (HostPattern::new(pattern), Origin::from_authority(Scheme::Https, host))
    else {
        return;
    };
    // One host has many spellings; that they are one is a property of its own (`url`).
    let named = |text: &str| match Origin::from_authority(Scheme::Https, text) {
        Ok(named) => named.host().to_string(),
        Err(_) => text.to_ascii_lowercase(),
    };
    let expected = match (origin.host(), pattern.strip_prefix("*.").map(named)) {
        (Host::Name(name), Some(parent)) => {
            let labels: Vec<&str> = name.split('.').collect();
            (1..labels.len()).any(|from| labels[from..].join(".") == parent)
        }
        (host, None) => host.to_string() == named(pattern),
        // Stars are for names, but `*.0.0.1` says what it covers.
        (host, Some(parent)) => host.to_string().ends_with(&format!(".{parent}")),
    };
    assert_eq!(hosts.matches(origin.host()), expected, "{pattern} on {origin}");
}

/// The ends of the text's beginnings that the pattern matches, sign after sign.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let mut ends = vec![true; 1];
    ends.resize(text.len() + 1, false);
    for sign in pattern {
        let before = std::mem::take(&mut ends);
        ends = (0..=text.len())
            .map(|end| match sign {
                b'*' => before[..=end].contains(&true),
                sign => end > 0 && before[end - 1] && text[end - 1].eq_ignore_ascii_case(sign),
            })
            .collect();
    }
    ends[text.len()]
}
