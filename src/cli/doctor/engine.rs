//! The shared engine: whether it can be reached, does all that is asked of it, and keeps what it
//! has.

use std::time::Duration;

use super::super::engine_client::EngineClient;
use super::super::exit::Failure;
use super::finding::Finding;
use crate::config::Settings;
use crate::engine::{Engine, Error, ErrorKind, Status};

/// The offset of clocks from which on `courtesy doctor` asks for a remedy, as the alert does.
const OFFSET_NOTICE: Duration = Duration::from_secs(2);

/// The oldest server of Redis that has all commands of the scripts.
const REDIS_MIN: (u32, u32) = (6, 2);

const ENGINE: &str = "shared engine";

/// What is found of the engine; nothing where none is set.
pub fn engine(settings: &Settings) -> Vec<Finding> {
    let scratch = format!("doctor-{}", ulid::Ulid::new().to_string().to_lowercase());
    match EngineClient::start(settings, Some(&scratch)) {
        Ok(None) => Vec::new(),
        Ok(Some(observer)) => of(&observer).into_iter().chain(namesakes(settings)).collect(),
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
    let status = observer.engine.status();
    vec![server(&status), operations(&faults), memory(&status), clock(&status)]
}

/// Two live proxies of the name that the settings give this one; nothing where they give none.
fn namesakes(settings: &Settings) -> Option<Finding> {
    let name = settings.engine.name.as_deref()?;
    let observer = EngineClient::start(settings, None).ok()??;
    observer.wait_until_reachable().ok()?;
    let has_namesake = observer.wait(observer.engine.has_namesake(name)).ok()?;
    has_namesake.then(|| {
        let said = format!("two live proxies have the name {name}");
        Finding::bad("shared engine, names", said, "give each its own engine.name, or leave it out")
    })
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
    Finding::well(subject, said)
}

/// What to do about an error of this kind.
const fn remedy(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Connection | ErrorKind::Timeout | ErrorKind::Broken | ErrorKind::Full => {
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
            "engine.cluster is for clusters; all slots of one must have a node"
        }
        ErrorKind::Sentinel => {
            "engine.url must name sentinels, and engine.sentinel a primary of theirs"
        }
        ErrorKind::Settings => "change the setting of [engine] that is named there",
        ErrorKind::Removed => "give each program on the server its own engine.prefix, by its ACL",
        ErrorKind::WrongType | ErrorKind::Protocol | ErrorKind::TooLarge => {
            "engine.url must name a Redis or Valkey server, without a proxy in between"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::State;
    use super::*;

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
}
