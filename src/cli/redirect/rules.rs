//! The rules as text of nftables (nft(8)).

use std::fmt::Display;

use ipnet::IpNet;

/// Family and name of the table: ours alone, so that it can be replaced and removed as a whole.
pub const TABLE: &str = "inet courtesy";

/// Removes the table. The first line makes one where there is none, so that the second succeeds.
pub const REMOVE: &str = "table inet courtesy\ndelete table inet courtesy\n";

/// What a rule begins with that is for one version of IP only.
const V4: &str = "meta nfproto ipv4";
const V6: &str = "meta nfproto ipv6";

/// What is redirected, and where to.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The user of the proxy, whose own connections would otherwise come back to it.
    pub uid: u32,
    pub ports: Vec<u16>,
    /// The port of the transparent listener on loopback.
    pub to: u16,
    pub except: Vec<IpNet>,
}

impl Rules {
    /// One transaction that puts these rules in the place of all earlier ones.
    pub fn script(&self) -> String {
        let Self { uid, to, .. } = self;
        let (v4, v6): (Vec<_>, Vec<_>) =
            self.except.iter().partition(|block| block.addr().is_ipv4());
        let exempt = |family: &str, blocks: &[&IpNet]| match blocks {
            [] => String::new(),
            blocks => format!("    {family} daddr {{ {} }} return\n", list(blocks)),
        };
        let exempt = exempt("ip", &v4) + &exempt("ip6", &v6);
        format!(
            "{REMOVE}\
             table {TABLE} {{\n  \
               chain out {{\n    \
                 type nat hook output priority -100; policy accept;\n    \
                 meta skuid {uid} return\n    \
                 fib daddr type local return\n\
             {exempt}    \
                 tcp dport {{ {} }} redirect to :{to}\n  \
               }}\n  \
               chain quic {{\n    \
                 type filter hook output priority 0; policy accept;\n    \
                 meta skuid != {uid} udp dport 443 reject\n  \
               }}\n\
             }}\n",
            list(&self.ports)
        )
    }

    /// What a `table`, as nft prints it, lacks of these rules; one sentence each.
    pub fn missing_in(&self, table: &str) -> Vec<String> {
        let Self { uid, to, ports, .. } = self;
        let lines = || table.lines().map(str::trim);
        let by = |families: &[&str], port| {
            let redirects = |line| self.redirected(line, families).any(|found| found == port);
            lines().any(redirects)
        };
        let mut missing = Vec::new();
        for port in ports {
            let (v4, v6) = (by(&["", V4], *port), by(&["", V6], *port));
            missing.extend(match (v4, v6) {
                (true, true) => None,
                (true, false) => Some(format!("port {port} is redirected for IPv4 only")),
                (false, true) => Some(format!("port {port} is redirected for IPv6 only")),
                (false, false) => Some(format!("port {port} is not redirected to :{to}")),
            });
        }
        if !exempt_uids(table).any(|exempt| exempt == *uid) {
            missing.push(format!("the proxy's own connections (uid {uid}) are not exempt: a loop"));
        }
        if !lines().any(|line| line.contains("udp dport 443 reject")) {
            missing.push("UDP to port 443 is not rejected: HTTP/3 bypasses the proxy".into());
        }
        missing
    }

    /// The ports that a rule redirects, if that is all it does, for one of these families.
    fn redirected(&self, rule: &str, families: &[&str]) -> impl Iterator<Item = u16> {
        let rule = rule.strip_suffix(&format!(" redirect to :{}", self.to)).unwrap_or_default();
        let (family, ports) = rule.split_once("tcp dport ").unwrap_or_default();
        let ports = if families.contains(&family.trim()) { ports } else { "" };
        ports.split(|char: char| !char.is_ascii_digit()).filter_map(|number| number.parse().ok())
    }
}

/// The users whose connections a `table`, as nft prints it, leaves alone.
pub fn exempt_uids(table: &str) -> impl Iterator<Item = u32> {
    let uid =
        |line: &str| line.trim().strip_prefix("meta skuid ")?.strip_suffix(" return")?.parse().ok();
    table.lines().filter_map(uid)
}

fn list(items: &[impl Display]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Rules {
        let except = ["10.96.0.0/12", "fd00::/8"].map(|block| block.parse().unwrap());
        Rules { uid: 65532, ports: vec![80, 443], to: 3130, except: except.into() }
    }

    #[test]
    fn the_rules_are_one_transaction() {
        assert_eq!(
            rules().script(),
            "\
table inet courtesy
delete table inet courtesy
table inet courtesy {
  chain out {
    type nat hook output priority -100; policy accept;
    meta skuid 65532 return
    fib daddr type local return
    ip daddr { 10.96.0.0/12 } return
    ip6 daddr { fd00::/8 } return
    tcp dport { 80, 443 } redirect to :3130
  }
  chain quic {
    type filter hook output priority 0; policy accept;
    meta skuid != 65532 udp dport 443 reject
  }
}
"
        );
    }

    #[test]
    fn what_a_table_lacks_is_named() {
        let table = rules().script();
        assert_eq!(rules().missing_in(&table), [""; 0]);
        let other = Rules { uid: 1, ports: vec![80, 8080], ..rules() };
        assert_eq!(
            other.missing_in(&table),
            [
                "port 8080 is not redirected to :3130",
                "the proxy's own connections (uid 1) are not exempt: a loop"
            ]
        );
        assert_eq!(rules().missing_in("table inet courtesy {}").len(), 4);
    }

    #[test]
    fn rules_for_one_version_of_ip_are_named() {
        let table = rules().script();
        for (before, expected) in [
            ("meta nfproto ipv4", "IPv4 only"),
            ("meta nfproto ipv6", "IPv6 only"),
            ("ip daddr 192.0.2.1", "not redirected"),
        ] {
            let table = table.replace("tcp dport", &format!("{before} tcp dport"));
            let missing = rules().missing_in(&table);
            assert_eq!(missing.len(), 2, "{missing:?}");
            assert!(missing.iter().all(|line| line.contains(expected)), "{missing:?}");
        }
    }

    #[test]
    fn the_port_of_the_listener_is_not_taken_for_a_redirected_one() {
        let other = Rules { ports: vec![3130], ..rules() };
        assert_eq!(other.missing_in(&rules().script()), ["port 3130 is not redirected to :3130"]);
    }

    #[test]
    fn the_exempt_users_are_read_from_the_table() {
        assert_eq!(exempt_uids(&rules().script()).collect::<Vec<_>>(), [65532]);
        assert_eq!(exempt_uids("").count(), 0);
    }
}
