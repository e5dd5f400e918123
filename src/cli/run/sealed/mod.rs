//! `courtesy run --sealed`: the command has a network in which there is nothing but the proxy. Another
//! process of this program seals itself into namespaces, hands the sockets that are served there to
//! the proxy, and becomes the command ([`seal`]).
//!
//! ```text
//! proxy                                   seal (one thread), later the command
//!   starts it, sends standard input ──▶    namespaces, loopback, routes, sockets
//!   serves the sockets               ◀──   Sealing, descriptors
//!   variables and mounts (Release)   ──▶   mounts, gives up rights, executes the command
//! ```

mod channel;
mod inside;
mod mounts;
mod namespaces;
mod network;
mod reach;
pub mod refused;
pub mod seal;
mod sockets;
mod trust;

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use super::super::clients::{self, ClientSetup};
use super::super::environment;
use super::super::ephemeral_proxy::EphemeralProxy;
use super::super::exit::{Exit, Failure, OrExit};
use super::super::resources::Resources;
use super::super::temporary_dir::{Purpose, TemporaryDir};
use super::child::{NOT_EXECUTABLE, NOT_FOUND};
use super::ran::Ran;
use crate::config::Settings;
use crate::dns::{NameServer, StandIns};
use crate::proxy::OriginalDestination;
use crate::runtime::lock::Lock;
use crate::server::Listeners;
use inside::Inside;
use mounts::Mount;
use reach::{Relay, Service};
use refused::{Refused, Report};
use seal::{ALLOCATOR, NotExecuted, Release};

/// Ports whose connections are served: those of HTTP and HTTPS, and their usual alternatives.
const SERVED: [u16; 4] = [80, 443, 8080, 8443];

/// Ports that are served, at most: each takes two descriptors of the one message.
const PORTS_MAX: usize = 100;

/// The flags of sealed runs.
#[derive(Args, Clone, Debug, Default)]
pub struct SealedFlags {
    /// Give the command a network in which there is nothing but the proxy, so that nothing bypasses it
    #[arg(long)]
    pub sealed: bool,
    /// Ports to serve inside, besides 80, 443, 8080 and 8443; -8080 leaves one out
    #[arg(
        long,
        value_name = "PORTS",
        requires = "sealed",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    ports: Vec<i32>,
    /// A service outside that the command may reach, as in db.example:5432 (may be repeated)
    #[arg(long, value_name = "HOST:PORT", requires = "sealed")]
    reach: Vec<Service>,
    /// A socket of a service that is not hidden from the command, as in /run/docker.sock (may be
    /// repeated)
    #[arg(long, value_name = "PATH", requires = "sealed")]
    keep_socket: Vec<PathBuf>,
}

impl SealedFlags {
    /// The served ports, in the order of their numbers.
    fn served(&self) -> Result<Vec<u16>, Failure> {
        let mut served: Vec<_> = SERVED.to_vec();
        for named in &self.ports {
            let port = u16::try_from(named.unsigned_abs()).ok().filter(|port| *port > 0);
            let port = port
                .ok_or_else(|| anyhow::anyhow!("--ports: {named} is no port"))
                .or_exit(Exit::Usage)?;
            served.retain(|it| *it != port);
            served.extend((*named > 0).then_some(port));
        }
        served.sort_unstable();
        let reached = self.reach.iter().find(|service| served.contains(&service.port));
        let complaint = match reached {
            Some(Service { host, port }) => Some(format!(
                "--reach {host}:{port}: that port is served by the proxy; leave it out with --ports -{port}"
            )),
            None if served.len() + self.reach.len() > PORTS_MAX => {
                Some(format!("--ports and --reach: more than {PORTS_MAX} ports"))
            }
            None => None,
        };
        complaint.map_or(Ok(served), |it| Err(anyhow::anyhow!(it)).or_exit(Exit::Usage))
    }

    /// The ports of `--reach`, each once.
    fn reached(&self) -> Vec<u16> {
        let mut ports: Vec<_> = self.reach.iter().map(|service| service.port).collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    }
}

/// Runs the command sealed, with a proxy of its own.
pub fn run(
    (flags, command): (&SealedFlags, &[OsString]),
    no_proxy: super::super::no_proxy::NoProxy,
    (mut settings, records): (Settings, &Path),
    resources: &Resources,
) -> Result<Ran, Failure> {
    let served = flags.served()?;
    settings.egress.connect_ports.extend(&served);
    let (mut inside, child) = Inside::begin(&served, &flags.reached(), command, resources)?;
    let stand_ins = Arc::<StandIns>::default();
    let listeners = listeners(&mut inside, &stand_ins)?;
    // Its addresses are those of another network: outside they are not the proxy's.
    let proxy = EphemeralProxy::start_on(settings.clone(), records, (listeners, Vec::new()), None)?;
    let refused = Arc::<Lock<Refused>>::default();
    let relay = Relay::new(&flags.reach, Arc::clone(&stand_ins), Arc::clone(&refused));
    let entered = child.enter();
    let names = NameServer::new(Arc::clone(&stand_ins), Arc::clone(proxy.egress()));
    let (udp, tcp) = inside.take_names()?;
    names.start(udp, tcp)?;
    inside.take_reach().into_iter().try_for_each(|listener| relay.start(listener))?;
    let packets = inside.watch(&refused, &stand_ins)?;
    drop(entered);
    let files = TemporaryDir::new(Purpose::Sealed)?;
    let setup = clients::set_up(proxy.address, no_proxy, &settings)?;
    let mounts = mounts_of(&setup, files.path(), &flags.keep_socket)
        .map_err(|error| anyhow::anyhow!("cannot make what the command is to see: {error}"))
        .or_exit(Exit::InputOutput)?;
    let ended = match inside.release(&release(&setup, mounts))? {
        Some(failed) => Err(not_started(&command[0], &failed)),
        None => child.wait(false),
    };
    refused.lock().read(&packets, &stand_ins);
    let report = proxy.stop();
    let sealed = Report { refused: refused.lock().clone(), relayed: relay.relayed() };
    Ok(Ran { ended, report, sealed: Some(sealed) })
}

/// Whether a sealed run is possible here; takes a few milliseconds.
///
/// # Errors
///
/// Why not, and what helps.
pub fn attempt() -> Result<(), Failure> {
    let resources = Resources::claim();
    let (inside, child) = Inside::begin(&SERVED, &[], &["true".into()], &resources)?;
    drop(inside);
    child.wait(false).map(drop)
}

/// The proxy's own listener, and those of the served ports.
fn listeners(inside: &mut Inside, stand_ins: &Arc<StandIns>) -> Result<Listeners, Failure> {
    let kind = OriginalDestination::Routed(Arc::clone(stand_ins));
    let proxy = Listeners::handed_over(inside.take_proxy())?;
    Ok(proxy.with(Listeners::handed_over_transparent(inside.take_served(), kind)?))
}

fn release(setup: &ClientSetup, mounts: Vec<Mount>) -> Release {
    let variables = clients::variables(setup);
    let pairs = variables.into_iter().map(|variable| (variable.name.to_owned(), variable.value));
    let allocator = environment::variable(ALLOCATOR).map(|value| (ALLOCATOR.to_owned(), value));
    Release { variables: pairs.chain(allocator).collect(), mounts }
}

/// The name server, the authorities, and an empty file over each socket.
fn mounts_of(setup: &ClientSetup, dir: &Path, keep: &[PathBuf]) -> io::Result<Vec<Mount>> {
    let names = dir.join("resolv.conf");
    fs::write(&names, format!("nameserver {}\n", sockets::NAME_SERVER))?;
    let target = Path::new("/etc/resolv.conf").canonicalize().map_err(|error| {
        io::Error::new(error.kind(), format!("/etc/resolv.conf is not there: {error}"))
    })?;
    let mut mounts = vec![Mount { source: names, target }];
    if let Some(trust) = &setup.trust {
        mounts.extend(trust::mounts(trust, dir)?);
    }
    let empty = dir.join("empty");
    fs::write(&empty, "")?;
    let hidden = mounts::sockets_to_hide(keep).into_iter();
    mounts.extend(hidden.map(|target| Mount { source: empty.clone(), target }));
    Ok(mounts)
}

fn not_started(program: &OsString, failed: &NotExecuted) -> Failure {
    let kind = failed.number.map(|number| io::Error::from_raw_os_error(number).kind());
    let exit = match kind {
        Some(ErrorKind::NotFound) => Exit::Command(NOT_FOUND),
        Some(_) => Exit::Command(NOT_EXECUTABLE),
        // A step before: a mount, or a right that cannot be given up.
        None => Exit::Unavailable,
    };
    let error = anyhow::anyhow!("cannot run {}: {}", program.to_string_lossy(), failed.words);
    Failure { exit, error }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(ports: &[i32], reach: &[&str]) -> SealedFlags {
        let reach = reach.iter().map(|it| it.parse().unwrap()).collect();
        SealedFlags { ports: ports.to_vec(), reach, ..SealedFlags::default() }
    }

    #[test]
    fn ports_are_added_and_left_out() {
        for (ports, expected) in [
            (&[][..], Some(vec![80, 443, 8080, 8443])),
            (&[8000, -8080], Some(vec![80, 443, 8000, 8443])),
            (&[80, 80], Some(vec![80, 443, 8080, 8443])),
            (&[0], None),
            (&[65536], None),
        ] {
            assert_eq!(flags(ports, &[]).served().ok(), expected, "{ports:?}");
        }
    }

    #[test]
    fn a_port_is_served_or_reached() {
        let services = ["db.example:8080", "db.example:5432", "other.example:5432"];
        assert!(flags(&[], &services).served().is_err());
        assert!(flags(&[-8080], &services).served().is_ok());
        assert_eq!(flags(&[], &services).reached(), [5432, 8080]);
    }
}
