//! `courtesy redirect`: the rules of the network by which connections of a crawler reach a
//! transparent listener (`listen.transparent`).

use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};

use anyhow::anyhow;
use clap::{Args, ValueEnum};
use ipnet::IpNet;

use super::exit::{Exit, Failure, OrExit};
use super::output;

/// The arguments of `courtesy redirect`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  courtesy redirect print
  courtesy redirect apply --uid 65532 --except 10.96.0.0/12
  courtesy redirect check
  courtesy redirect remove

The rules are a table of their own, `inet courtesy`, of nftables (`nft` has to be installed; to
apply and remove them takes CAP_NET_ADMIN in the network namespace). They redirect TCP connections
that begin in this namespace, to the given ports of any address, to PORT on loopback, where
listen.transparent has to have a listener for IPv4 and one for IPv6. Left alone are the processes
of the proxy's user, addresses of this machine, and what --except names. UDP to port 443 is
rejected, so that HTTP/3 falls back to TCP. Other ports are not touched: what a crawler fetches
from them bypasses the proxy.

The proxy must run as a user of its own: a crawler of the same user bypasses it.

Exit codes of check: 0 the rules are there and something listens · 1 not so.")]
pub struct RedirectArgs {
    /// What to do with the rules
    #[arg(value_enum)]
    action: Action,
    /// The user id of the proxy, whose own connections are not redirected
    #[arg(long, value_name = "N", default_value_t = 65532)]
    uid: u32,
    /// The ports whose connections are redirected
    #[arg(long, value_name = "PORTS", value_delimiter = ',', default_values_t = [80, 443])]
    ports: Vec<u16>,
    /// The port of the transparent listener, on loopback
    #[arg(long, value_name = "PORT", default_value_t = 3130)]
    to: u16,
    /// An address block that is not redirected (may be repeated)
    #[arg(long, value_name = "BLOCK")]
    except: Vec<IpNet>,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum Action {
    /// Print the rules, for `nft -f`
    Print,
    /// Put them in effect, in the place of those that are
    Apply,
    /// Take them away; nothing is changed if there are none
    Remove,
    /// Say whether they are in effect, and whether the listener is there
    Check,
}

/// Runs `courtesy redirect`.
pub fn run(args: &RedirectArgs) -> Result<Exit, Failure> {
    let rules = Rules {
        uid: args.uid,
        ports: args.ports.clone(),
        to: args.to,
        except: args.except.clone(),
    };
    match args.action {
        Action::Print => output::print(rules.script())?,
        Action::Apply => run_nft(&rules.script())?,
        Action::Remove => run_nft(REMOVE)?,
        Action::Check => return check(&rules),
    }
    Ok(Exit::Done)
}

/// Whether this machine has IPv6, on loopback at least: there redirected connections arrive.
pub fn has_ipv6() -> bool {
    TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok()
}

fn check(rules: &Rules) -> Result<Exit, Failure> {
    let mut missing = match table()? {
        Some(table) => rules.missing_in(&table),
        None => vec![format!("there is no table {}", TABLE)],
    };
    let v6 = has_ipv6().then_some(IpAddr::V6(Ipv6Addr::LOCALHOST));
    for address in [IpAddr::V4(Ipv4Addr::LOCALHOST)].into_iter().chain(v6) {
        if let Err(error) = TcpStream::connect((address, rules.to)) {
            missing.push(format!("nothing listens at {address}, port {}: {error}", rules.to));
        }
    }
    for line in &missing {
        output::print(format!("{line}\n"))?;
    }
    Ok(if missing.is_empty() { Exit::Done } else { Exit::No })
}

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

/// Has `nft` execute `script`, all of it or nothing.
pub fn run_nft(script: &str) -> Result<(), Failure> {
    let output = execute(&["-f", "-"], script)?;
    if output.status.success() { Ok(()) } else { Err(failure(&output)) }
}

/// The table as `nft` prints it; `None`: there is none.
pub fn table() -> Result<Option<String>, Failure> {
    let table: Vec<_> = ["list", "table"].into_iter().chain(TABLE.split(' ')).collect();
    let output = execute(&table, "")?;
    let message = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        return Ok(Some(String::from_utf8_lossy(&output.stdout).into_owned()));
    }
    if message.contains("No such file or directory") { Ok(None) } else { Err(failure(&output)) }
}

fn execute(arguments: &[&str], input: &str) -> Result<Output, Failure> {
    let mut command = Command::new("nft");
    command.args(arguments).env("LC_ALL", "C");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => anyhow!("nft is not installed (package nftables)"),
        _ => anyhow!("cannot run nft: {error}"),
    });
    let mut child = child.or_exit(Exit::Unavailable)?;
    if let Some(mut stdin) = child.stdin.take() {
        // It may have ended already; its own message says why.
        let _ = stdin.write_all(input.as_bytes());
    }
    Ok(child.wait_with_output()?)
}

fn failure(output: &Output) -> Failure {
    let message = String::from_utf8_lossy(&output.stderr);
    let is_denied = message.contains("Operation not permitted");
    let exit = if is_denied { Exit::Permission } else { Exit::Unavailable };
    Failure { exit, error: anyhow!("nft: {}", message.trim()) }
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
