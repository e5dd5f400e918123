//! The rules as text of nftables (nft(8)).

use std::fmt::Display;

use ipnet::IpNet;

/// Family and name of the table: ours alone, so that it can be replaced and removed as a whole.
pub const TABLE: &str = "inet courtesy";

/// Removes the table. The first line makes one where there is none, so that the second succeeds.
pub const REMOVE: &str = "table inet courtesy\ndelete table inet courtesy\n";

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
        let redirect = lines().find(|line| line.ends_with(&format!("redirect to :{to}")));
        let redirected: Vec<u16> = redirect
            .unwrap_or_default()
            .split(|char: char| !char.is_ascii_digit())
            .filter_map(|number| number.parse().ok())
            .collect();
        let is_exempt = lines().any(|line| line == format!("meta skuid {uid} return"));
        let mut missing: Vec<_> = ports
            .iter()
            .filter(|port| redirect.is_none() || !redirected.contains(port))
            .map(|port| format!("port {port} is not redirected to :{to}"))
            .collect();
        if !is_exempt {
            missing.push(format!("the proxy's own connections (uid {uid}) are not exempt: a loop"));
        }
        if !lines().any(|line| line.contains("udp dport 443 reject")) {
            missing.push("UDP to port 443 is not rejected: HTTP/3 bypasses the proxy".into());
        }
        missing
    }
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
}
