//! The shared engine: whether it can be reached, does all that is asked of it, and keeps what it
//! has.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use rustix::process::geteuid;

use super::finding::Finding;
use crate::cli::engine::{EngineClient, missing, other_settings};
use crate::cli::exit::Failure;
use crate::cli::redirect::{Rules, TABLE, exempt_uids, has_ipv6, table};
use crate::config::Settings;
use crate::egress::ParentAddress;
use crate::engine::{Engine, Error, ErrorKind, Status};
use crate::types::sanitize;

/// From this error of the clock's reading on two proxies that do not see each other may start requests
/// with a delay of a second closer than that: each begins in the first tenth of its cells, which are a
/// fifth longer than the delay.
const CLOCK_ERROR_NOTICE: Duration = Duration::from_millis(50);

/// The offset of clocks from which on `courtesy doctor` asks for a remedy, as the alert does.
const OFFSET_NOTICE: Duration = Duration::from_secs(2);

/// The oldest server of Redis that has all commands of the scripts.
const REDIS_MIN: (u32, u32) = (6, 2);

const ENGINE: &str = "shared engine";

/// Names that are shown, and bytes of each.
const NAMES_MAX: usize = 10;
const NAME_BYTES_MAX: usize = 200;

/// What is found of the engine; nothing where none is set.
pub fn engine(settings: &Settings) -> Vec<Finding> {
    let scratch = format!("doctor-{}", ulid::Ulid::new().to_string().to_lowercase());
    match EngineClient::start(settings, Some(&scratch)) {
        Ok(None) => Vec::new(),
        Ok(Some(observer)) => of(&observer).into_iter().chain(proxies(settings)).collect(),
        Err(Failure { error, .. }) => {
            let remedy = "each file that [engine] names has to be readable, and secret ones by \
                          their owner alone";
            vec![Finding::bad(ENGINE, format!("{error:#}"), remedy)]
        }
    }
}

fn of(observer: &EngineClient) -> Vec<Finding> {
    if let Err(fault) = observer.wait_until_reachable() {
        let kind = observer.engine.status().last_error.map(|fault| fault.kind);
        let remedy = remedy(kind.unwrap_or(ErrorKind::Timeout));
        return vec![Finding::bad(ENGINE, format!("cannot be used: {fault}"), remedy)];
    }
    let faults = observer.run(observer.engine.probe());
    let pushes = observer.wait(observer.engine.probe_push());
    let status = observer.engine.status();
    vec![server(&status), operations(&faults), memory(&status), clock(&status), holds(&pushes)]
}

/// Whether holds reach the other proxies at once. Without the right all else works.
fn holds(pushed: &Result<(), Error>) -> Finding {
    let subject = "shared engine, holds";
    match pushed {
        Ok(()) => Finding::well(subject, "those of one proxy reach the others at once"),
        Err(error) => {
            let said = format!("those of one proxy reach the others within 15 s: {error}");
            let remedy = "give the user +publish +subscribe +unsubscribe and the channels of \
                          engine.prefix (&courtesy:*)";
            Finding::known(subject, said, remedy)
        }
    }
}

/// Whether all proxies are there, with names of their own and these settings.
fn proxies(settings: &Settings) -> Vec<Finding> {
    let subject = "shared engine, proxies";
    let Ok(Some(observer)) = EngineClient::start(settings, None) else { return Vec::new() };
    if observer.wait_until_reachable().is_err() {
        return Vec::new();
    }
    let roster = match observer.wait(observer.engine.roster()) {
        Ok(roster) => roster,
        Err(error) => return vec![Finding::bad(subject, error.to_string(), remedy(error.kind))],
    };
    let all = match roster.missing().count() {
        0 if roster.proxies.is_empty() => Finding::well(subject, "none is there"),
        0 => Finding::well(subject, missing(&roster)),
        _ => {
            let remedy = "start those that are silent again, or find what cuts them off: courtesy \
                          engine members names them; those that end in order are not missed";
            Finding::bad(subject, missing(&roster), remedy)
        }
    };
    let names = roster.namesakes().into_iter().map(|name| {
        let name = sanitize::text(name.as_bytes(), NAME_BYTES_MAX);
        let said = format!("several live proxies have the name {name}");
        Finding::bad("shared engine, names", said, "give each its own engine.name, or leave it out")
    });
    let others = other_settings(&roster).map(|said| {
        let remedy = "give all the same, and reload those that are behind: courtesy reload";
        Finding::bad("shared engine, settings", said, remedy)
    });
    [all].into_iter().chain(names.take(NAMES_MAX)).chain(others).collect()
}

fn server(status: &Status) -> Finding {
    let name = status.server.as_deref().unwrap_or("a server without a version");
    let version = name.strip_prefix("redis ").and_then(version);
    if version.is_some_and(|version| version < REDIS_MIN) {
        let (major, minor) = REDIS_MIN;
        let remedy = format!("use Redis {major}.{minor} or newer, or Valkey");
        return Finding::bad(ENGINE, format!("{name} is too old"), remedy);
    }
    Finding::well(ENGINE, format!("{name} can be reached"))
}

/// The first two numbers of a version.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn operations(faults: &[(&str, Error)]) -> Finding {
    let subject = "shared engine, operations";
    let Some((_, first)) = faults.first() else {
        return Finding::well(subject, "each script ran on keys of its own, which are removed");
    };
    let lines: Vec<_> = faults.iter().map(|(word, error)| format!("{word}: {error}")).collect();
    Finding::bad(subject, lines.join("\n"), remedy(first.kind))
}

fn memory(status: &Status) -> Finding {
    let subject = "shared engine, memory";
    if status.may_evict {
        let said = "the server may forget holds and outages when its memory is full";
        return Finding::bad(subject, said, "set its maxmemory-policy to noeviction");
    }
    Finding::well(subject, "the server forgets nothing before its time")
}

fn clock(status: &Status) -> Finding {
    let subject = "shared engine, clock";
    let Some(offset) = status.clock_offset else {
        return Finding::untried(subject, "the server did not tell its time");
    };
    let (distance, word) = (offset.unsigned_abs(), if offset < 0 { "behind" } else { "ahead of" });
    let said = format!("the server's is {} ms {word} this machine's", distance / 1000);
    if Duration::from_micros(distance) >= OFFSET_NOTICE {
        let remedy = "have both set by NTP, slewed and not stepped; beyond a minute nothing that \
                      is fetched here is shared";
        return Finding::bad(subject, said, remedy);
    }
    let error = status.clock_error.unwrap_or_default();
    if error > CLOCK_ERROR_NOTICE {
        let said = format!("{said}, and may be {} ms more or less", error.as_millis());
        let remedy = "use a server that responds within 100 ms: where proxies do not see each other, \
                      they keep a pace by its clock";
        return Finding::bad(subject, said, remedy);
    }
    Finding::well(subject, said)
}

/// What to do about an error of this kind.
const fn remedy(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Connection
        | ErrorKind::Timeout
        | ErrorKind::Late
        | ErrorKind::Broken
        | ErrorKind::Full => {
            "start the server, or name the right one: engine.url; nothing on the way may drop its \
             port"
        }
        ErrorKind::Tls => {
            "engine.ca must have signed the server's certificate for its name in \
                           engine.url; some servers ask for engine.cert and engine.key"
        }
        ErrorKind::Authentication => {
            "engine.user and engine.password_file must be those of the server's ACL"
        }
        ErrorKind::Permission => {
            "give the user the rights that stand in docs/operate/cluster.md, on the keys of \
             engine.prefix"
        }
        ErrorKind::Memory => "raise the server's maxmemory",
        ErrorKind::Persistence => {
            "the server cannot write to its disk, or lacks replicas: see its log"
        }
        ErrorKind::Busy => "end the script of another program that runs there: SCRIPT KILL",
        ErrorKind::ReadOnly | ErrorKind::MasterDown => {
            "engine.url must name the primary; where sentinels watch it, set engine.sentinel"
        }
        ErrorKind::Loading | ErrorKind::Moving => "try again when the server has read its data",
        ErrorKind::ClusterDown => {
            "all slots of the cluster must have a node: see CLUSTER INFO there"
        }
        ErrorKind::Sentinel => {
            "engine.url must name sentinels, and engine.sentinel a primary of theirs"
        }
        ErrorKind::Settings => "change the setting of [engine] that is named there",
        ErrorKind::Missing => "start the proxies that are missing, or wait ten minutes",
        ErrorKind::Removed => "give each program on the server its own engine.prefix, by its ACL",
        ErrorKind::WrongType | ErrorKind::Protocol | ErrorKind::TooLarge => {
            "engine.url must name a Redis or Valkey server, without a proxy in between"
        }
    }
}

/// How long a parent may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Variables by which other programs find a proxy, and this one does not.
const VARIABLES: [&str; 6] =
    ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];

/// Whether each parent can be connected to; empty without one. `is_set` tells the variables that
/// are set.
pub fn parents(settings: &Settings, is_set: impl Fn(&str) -> bool) -> Vec<Finding> {
    let egress = &settings.egress;
    if let Err(error) = egress.parents() {
        let remedy = "write NAME:PASSWORD into it, readable by its owner and group only";
        return vec![Finding::bad("parent proxy", error.to_string(), remedy)];
    }
    let named = egress.parents.iter().filter_map(|rule| rule.parent.as_ref());
    let mut addresses: Vec<&ParentAddress> = Vec::new();
    for address in egress.parent.iter().chain(named) {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    let ignored = VARIABLES.into_iter().find(|name| is_set(name));
    addresses.into_iter().map(|address| parent(address, ignored)).collect()
}

fn parent(address: &ParentAddress, ignored: Option<&str>) -> Finding {
    let subject = format!("parent proxy {address}");
    match connect(address) {
        Ok(()) => {
            let mut said = "accepts connections".to_owned();
            if let Some(name) = ignored {
                said.push_str(&format!("\nnote: {name} is set, and means nothing to courtesy"));
            }
            Finding::well(subject, said)
        }
        Err(error) => {
            let remedy = "check egress.parent, and that the parent runs";
            Finding::bad(subject, format!("cannot be connected to: {error}"), remedy)
        }
    }
}

fn connect(address: &ParentAddress) -> std::io::Result<()> {
    let mut failed = None;
    for at in (address.host(), address.port()).to_socket_addrs()? {
        match TcpStream::connect_timeout(&at, CONNECT_TIMEOUT) {
            Ok(_) => return Ok(()),
            Err(error) => failed = Some(error),
        }
    }
    Err(failed.unwrap_or_else(|| std::io::ErrorKind::NotFound.into()))
}

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
    use std::net::TcpListener;

    use super::*;
    use crate::cli::doctor::finding::State;

    #[test]
    fn a_server_that_is_too_old_and_one_that_may_forget_are_named() {
        for (name, state) in [
            ("redis 6.0.16", State::Bad),
            ("redis 6.2.0", State::Well),
            ("redis 7.0.15", State::Well),
            ("redis 10.1.0", State::Well),
            ("valkey 7.2.5", State::Well),
        ] {
            let status = Status { server: Some(name.to_owned()), ..Status::default() };
            assert_eq!(server(&status).state, state, "{name}");
        }
        assert_eq!(memory(&Status { may_evict: true, ..Status::default() }).state, State::Bad);
    }

    #[test]
    fn clocks_that_differ_are_named_with_their_distance() {
        let at = |offset| clock(&Status { clock_offset: Some(offset), ..Status::default() });
        assert_eq!(at(-40_000).detail, "the server's is 40 ms behind this machine's");
        assert_eq!(at(1_999_999).state, State::Well);
        let far = at(3_000_000);
        assert_eq!(far.detail, "the server's is 3000 ms ahead of this machine's");
        assert_eq!(far.state, State::Bad);
    }

    #[test]
    fn each_parent_is_tried_once() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let open = format!("socks5h://{}", listener.local_addr().unwrap());
        let mut settings = Settings::default();
        assert!(parents(&settings, |_| true).is_empty());
        settings.egress.parent = Some(open.parse().unwrap());
        settings.egress.parents = ["a.example=direct".to_owned(), format!("b.example={open}")]
            .map(|rule| rule.parse().unwrap())
            .to_vec();
        let found = parents(&settings, |name| name == "HTTP_PROXY");
        let [finding] = &found[..] else { panic!("{}", found.len()) };
        let said = finding.to_string();
        assert!(said.contains("accepts connections") && said.contains("HTTP_PROXY"), "{said}");
        drop(listener);
        let said = parents(&settings, |_| false)[0].to_string();
        assert!(said.contains("cannot be connected to"), "{said}");
    }

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
