//! A host in the configuration, or all hosts below a name.

use std::fmt;

use super::{Host, parse_host};

/// A host, or `*.example.com` for those below it, but not itself. Compared label by label in normal
/// form: lower case, A-labels, no trailing dot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPattern {
    host: Host,
    below: bool,
}

impl HostPattern {
    /// `None` if the host is invalid, or a star stands for anything but whole labels before a name.
    pub fn new(text: &str) -> Option<Self> {
        let (host, below) = match text.strip_prefix("*.") {
            Some(parent) => (parse_host(parent).ok()?, true),
            None => (parse_host(text).ok()?, false),
        };
        let is_name = matches!(host, Host::Name(_));
        (is_name || !below).then_some(Self { host, below })
    }

    /// Whether `host` matches.
    pub fn matches(&self, host: &Host) -> bool {
        match (&self.host, host, self.below) {
            (Host::Name(parent), Host::Name(name), true) => {
                name.strip_suffix(&**parent).is_some_and(|labels| labels.ends_with('.'))
            }
            (own, host, false) => own == host,
            _ => false,
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.below {
            f.write_str("*.")?;
        }
        self.host.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_a_host_or_what_is_below_one() {
        for text in [
            "",
            "*",
            "*.",
            "a*b.example",
            "**.example",
            "*example.com",
            "a b",
            "*.10.0.0.1",
            "*.[::1]",
        ] {
            assert_eq!(HostPattern::new(text), None, "{text}");
        }
    }

    #[test]
    fn hosts_are_compared_in_normal_form_label_by_label() {
        let matches = |pattern: &str, host: &str| {
            HostPattern::new(pattern).unwrap().matches(&parse_host(host).unwrap())
        };
        for (pattern, host) in [
            ("example.com", "EXAMPLE.com."),
            ("Example.com.", "example.com"),
            ("*.example.com", "a.b.example.com"),
            ("*.m\u{fc}ller.example", "www.xn--mller-kva.example"),
            ("[::1]", "[0::1]"),
        ] {
            assert!(matches(pattern, host), "{pattern} {host}");
        }
        for (pattern, host) in [
            ("*.example.com", "example.com"),
            ("*.example.com", "notexample.com"),
            ("*.example.com", "example.com.evil.example"),
            ("example.com", "www.example.com"),
            ("0.0.1", "10.0.0.1"),
        ] {
            assert!(
                HostPattern::new(pattern).is_none() || !matches(pattern, host),
                "{pattern} {host}"
            );
        }
    }
}
