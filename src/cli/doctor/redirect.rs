//! Transparent listeners: whether the rules of the network lead there, and for which user they do not.

use std::net::SocketAddr;

use rustix::process::geteuid;

use super::super::redirect::{Rules, TABLE, exempt_uids, has_ipv6, table};
use super::finding::Finding;
use crate::config::Settings;

/// The ports by which crawlers reach sites without another being named.
const PORTS: [u16; 2] = [80, 443];

/// Whether the rules hold that `courtesy redirect apply` makes; empty without a transparent listener.
pub fn redirect(settings: &Settings) -> Vec<Finding> {
    let listeners = &settings.listen.transparent;
    let Some(first) = listeners.first() else { return Vec::new() };
    let table = table().map_err(|failure| format!("{:#}", failure.error));
    let mut findings = rules(first.port(), table, geteuid().as_raw());
    findings.extend(without_listener(listeners, first.port(), has_ipv6()));
    findings
}

/// What the `table` of nftables says, or why it cannot be read, to a process of user `uid`.
fn rules(port: u16, table: Result<Option<String>, String>, uid: u32) -> Vec<Finding> {
    const SUBJECT: &str = "redirect rules";
    const REMEDY: &str = "as root: courtesy redirect apply --uid UID-OF-THE-PROXY";
    let table = match table {
        Err(error) => return vec![Finding::untried(SUBJECT, error)],
        Ok(None) => {
            let said = format!("there is no table {TABLE}: nothing leads to listen.transparent");
            return vec![Finding::bad(SUBJECT, said, REMEDY)];
        }
        Ok(Some(table)) => table,
    };
    let exempt: Vec<_> = exempt_uids(&table).collect();
    let proxy = exempt.first().copied().unwrap_or(u32::MAX);
    let wanted = Rules { uid: proxy, ports: PORTS.into(), to: port, except: Vec::new() };
    let missing = match &exempt[..] {
        [] => vec!["no user is exempt: the proxy's own connections would be a loop".to_owned()],
        _ => wanted.missing_in(&table),
    };
    if !missing.is_empty() {
        return vec![Finding::bad(SUBJECT, missing.join("\n"), REMEDY)];
    }
    let said = format!("ports 80 and 443 lead to port {port}, but those of uid {proxy}");
    let mut findings = vec![Finding::well(SUBJECT, said)];
    if exempt.contains(&uid) {
        let said = format!("this is one of uid {uid}, which is exempt: it bypasses the proxy");
        let remedy = "run the proxy as a user of its own, and crawlers as others";
        findings.push(Finding::known("crawlers of this user", said, remedy));
    }
    findings
}

/// A version of IP whose redirected connections are refused, because no transparent listener of it
/// is set.
fn without_listener(listeners: &[SocketAddr], port: u16, has_ipv6: bool) -> Option<Finding> {
    let listens = |is_v6: bool| {
        let is_one = |it: &&SocketAddr| it.port() == port && it.is_ipv6() == is_v6;
        listeners.iter().any(|it| is_one(&it))
    };
    let (family, address) = match (listens(false), listens(true) || !has_ipv6) {
        (true, true) => return None,
        (false, _) => ("IPv4", format!("127.0.0.1:{port}")),
        (true, false) => ("IPv6", format!("[::1]:{port}")),
    };
    let said = format!("none at port {port} for {family}: its redirected connections are refused");
    let remedy = format!("add \"{address}\" to listen.transparent");
    Some(Finding::bad("transparent listeners", said, remedy))
}

#[cfg(test)]
mod tests {
    use super::super::finding::State;
    use super::*;

    fn applied() -> String {
        Rules { uid: 65532, ports: PORTS.into(), to: 3130, except: Vec::new() }.script()
    }

    #[test]
    fn rules_are_held_against_those_that_apply_makes() {
        let one_version = applied().replace("tcp dport", "meta nfproto ipv4 tcp dport");
        let no_exemption = applied().replace("meta skuid 65532 return", "");
        for (table, expected, words) in [
            (Ok(Some(applied())), State::Well, "but those of uid 65532"),
            (Ok(None), State::Bad, "there is no table inet courtesy"),
            (Ok(Some(one_version)), State::Bad, "for IPv4 only"),
            (Ok(Some(no_exemption)), State::Bad, "loop"),
            (Ok(Some(applied().replace(":3130", ":3131"))), State::Bad, "not redirected"),
            (Err("nft: Operation not permitted".into()), State::Untried, "not permitted"),
        ] {
            let found = rules(3130, table, 1000);
            let [finding] = &found[..] else { panic!("{found:?}") };
            assert_eq!(finding.state, expected, "{finding}");
            assert!(finding.detail.contains(words), "{finding}");
        }
    }

    #[test]
    fn a_crawler_of_the_proxys_user_is_warned_of() {
        let found = rules(3130, Ok(Some(applied())), 65532);
        assert_eq!(found.len(), 2);
        assert_eq!(found[1].state, State::Known);
        assert!(found[1].detail.contains("bypasses the proxy"), "{}", found[1]);
    }

    #[test]
    fn each_version_of_ip_needs_a_listener() {
        let [v4, v6] = ["127.0.0.1:3130", "[::1]:3130"].map(|it| it.parse().unwrap());
        let lacks = |listeners: &[SocketAddr], has_ipv6| {
            without_listener(listeners, 3130, has_ipv6).map(|it| it.remedy.unwrap_or_default())
        };
        assert_eq!(lacks(&[v4, v6], true), None);
        assert_eq!(lacks(&[v4], false), None);
        assert_eq!(lacks(&[v4], true).unwrap(), "add \"[::1]:3130\" to listen.transparent");
        assert_eq!(lacks(&[v6], true).unwrap(), "add \"127.0.0.1:3130\" to listen.transparent");
    }
}
