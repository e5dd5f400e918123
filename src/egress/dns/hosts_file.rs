//! Reads the hosts file (hosts(5)). The system's resolver looks a name up there as it is written,
//! and does not find the absolute form that [`super::resolver`] asks for.

use std::net::IpAddr;
use std::path::Path;

use crate::clients::limits::NAMED_LIST_BYTES_MAX;
use crate::runtime::files;

const FILE: &str = "/etc/hosts";

/// The addresses in the hosts file for `name`.
pub fn addresses_of(name: &str) -> Vec<IpAddr> {
    files::read_text(Path::new(FILE), NAMED_LIST_BYTES_MAX)
        .map(|text| addresses(&text, name))
        .unwrap_or_default()
}

/// Each line holds an address, its names, and a comment. Other lines are ignored.
fn addresses(text: &str, name: &str) -> Vec<IpAddr> {
    let address = |line: &str| {
        let mut words = line.split('#').next()?.split_whitespace();
        let address = words.next()?.parse().ok()?;
        words.any(|listed| listed.eq_ignore_ascii_case(name)).then_some(address)
    };
    text.lines().filter_map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_the_addresses_of_all_its_lines() {
        let text = "127.0.0.1\tlocalhost\n\
                    10.0.0.5  db.internal.test  DB # not c.test\n\
                    fd00::5 db.internal.test\n\
                    fe80::1%eth0 zone.test\n\
                    nonsense c.test\n\
                    #10.0.0.6 c.test\n";
        let of = |name| addresses(text, name).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(of("db.internal.test"), ["10.0.0.5", "fd00::5"]);
        assert_eq!(of("db"), ["10.0.0.5"]);
        for name in ["c.test", "zone.test", "internal.test", "not", ""] {
            assert!(of(name).is_empty(), "{name}");
        }
    }
}
