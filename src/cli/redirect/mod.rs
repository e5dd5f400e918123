//! `courtesy redirect`: the rules of the network by which connections of a crawler reach a
//! transparent listener (`listen.transparent`).

mod nft;
mod rules;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};

use clap::{Args, ValueEnum};
use ipnet::IpNet;

use super::exit::{Exit, Failure};
use super::output;
pub use nft::list as table;
pub use rules::{Rules, TABLE, exempt_uids};

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
        Action::Apply => nft::run(&rules.script())?,
        Action::Remove => nft::run(rules::REMOVE)?,
        Action::Check => return check(&rules),
    }
    Ok(Exit::Done)
}

/// Whether this machine has IPv6, on loopback at least: there redirected connections arrive.
pub fn has_ipv6() -> bool {
    TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok()
}

fn check(rules: &Rules) -> Result<Exit, Failure> {
    let mut missing = match nft::list()? {
        Some(table) => rules.missing_in(&table),
        None => vec![format!("there is no table {}", rules::TABLE)],
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
