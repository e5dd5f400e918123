//! `courtesy run --sealed`: the command has a network in which there is nothing but the proxy.
//! Another process of this program seals itself into namespaces, hands the sockets that are served
//! there to the proxy, and becomes the command ([`seal`]).
//!
//! ```text
//! proxy                                   seal (one thread), later the command
//!   starts it, sends standard input ──▶    namespaces, loopback, routes, sockets
//!   serves the sockets               ◀──   Sealing, descriptors
//!   variables and mounts (Release)   ──▶   mounts, gives up rights, executes the command
//! ```

mod channel;
mod covered;
mod descriptors;
mod mounts;
mod network;
mod reach;
pub mod refused_connections;
pub mod seal;
mod sealed_process;
mod trust;

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;

use clap::Args;
use rustix::process::geteuid;
use tracing::warn;

use super::child::{NOT_EXECUTABLE, NOT_FOUND, RunOutcome, code};
use crate::cli::clients::{self, ClientSetup};
use crate::cli::environment::{self, Rlimits};
use crate::cli::ephemeral_proxy::EphemeralProxy;
use crate::cli::exit::{Exit, Failure, OrExit};
use crate::cli::temporary_dir::{Purpose, TemporaryDir};
use crate::config::Settings;
use crate::name_server::{NameServer, VirtualAddresses};
use crate::proxy::{RedirectKind, RunObserver};
use crate::runtime::lock::Lock;
use crate::server::Listeners;
use channel::{NotExecuted, Release};
use covered::Kept;
use mounts::Mount;
use network::{SERVED_PORTS, served_ports};
use reach::{Reach, Relay, Service};
use refused_connections::{RefusedConnections, RelayRecords, Report};
use seal::ALLOCATOR;
use sealed_process::SealedProcess;

/// Runs the command sealed, with a proxy of its own.
pub fn run(
    (flags, command): (&SealedFlags, &[OsString]),
    no_proxy: crate::cli::environment::NoProxy,
    (mut settings, records): (Settings, &Path),
    observer: &Arc<RunObserver>,
    rlimits: &Rlimits,
) -> Result<RunOutcome, Failure> {
    let served = flags.served()?;
    settings.egress.connect_ports.extend(&served);
    let (mut sealed, child) = SealedProcess::start(&served, &flags.reached(), command, rlimits)?;
    let virtual_addresses = Arc::<VirtualAddresses>::default();
    let listeners = listeners(&mut sealed, &virtual_addresses)?;
    // Its addresses are those of another network: outside they are not the proxy's.
    let listeners = (listeners, Vec::new());
    let proxy = EphemeralProxy::start_on(settings.clone(), records, listeners, Some(observer))?;
    let refused = Arc::<Lock<RefusedConnections>>::default();
    let records = RelayRecords::new(proxy.recorder(), settings.robots.profile);
    let services = flags.services();
    let relay =
        Relay::new(&services, Arc::clone(&virtual_addresses), Arc::clone(&refused), records);
    let files = TemporaryDir::new_passable(Purpose::Sealed)?;
    let entered = child.enter();
    let names = NameServer::new(Arc::clone(&virtual_addresses), Arc::clone(proxy.egress()));
    let (udp, tcp) = sealed.take_names()?;
    names.start(udp, tcp)?;
    sealed.take_reach().into_iter().try_for_each(|listener| relay.start(listener))?;
    let packets = sealed.watch(&refused, &virtual_addresses)?;
    let reached =
        reach::start_unix_relay(&relay, &flags.sockets(), files.path()).or_exit(Exit::Usage)?;
    drop(entered);
    let (setup, _clients) = clients::set_up_for_command(proxy.address, no_proxy, &settings)?;
    let ended = match sealed.release(&release(&setup, files.path(), flags, reached)?)? {
        Some(failed) => Err(not_started(&command[0], &failed)),
        None => child.wait_for_status(None).map(|(status, connections)| {
            note_killed(status, sealed.has_processes());
            note_users(status);
            (code(status), connections)
        }),
    };
    // Its end is that of all processes inside, were one left.
    drop(sealed);
    refused.lock().read(&packets, &virtual_addresses);
    let report = proxy.stop();
    let sealed = Report { refused: refused.lock().clone(), relayed: relay.relayed() };
    Ok(RunOutcome { ended, report, sealed: Some(sealed) })
}

/// Says that the run ended because the process between the proxy and the command was killed. It
/// ends by no signal when the command does.
fn note_killed(status: ExitStatus, has_processes: bool) {
    if let Some(number) = status.signal().filter(|_| has_processes) {
        warn!("signal {number} ended the process that starts the command, and the command with it");
    }
}

/// Says why a program of root may have failed that becomes another user, as a daemon does.
fn note_users(status: ExitStatus) {
    if geteuid().is_root() && status.code().is_some_and(|code| code != 0) {
        warn!(
            "root is the only user inside, and cannot become another one (setuid, sudo -u): a command that \
             does is to be run sealed as that user (sudo -u USER courtesy run --sealed)"
        );
    }
}

/// Whether a sealed run is possible here; takes a few milliseconds.
///
/// # Errors
///
/// Why not, and what helps.
pub fn attempt() -> Result<Possible, Failure> {
    let rlimits = Rlimits::raise();
    let (sealed, child) = SealedProcess::start(&SERVED_PORTS, &[], &["true".into()], &rlimits)?;
    let possible = Possible { processes: sealed.has_processes() };
    drop(sealed);
    child.wait(None)?;
    Ok(possible)
}

/// What a sealed run can have here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Possible {
    /// A namespace of processes.
    pub processes: bool,
}

/// The proxy's own listener, and those of the served ports.
fn listeners(
    sealed: &mut SealedProcess,
    virtual_addresses: &Arc<VirtualAddresses>,
) -> Result<Listeners, Failure> {
    let redirect = RedirectKind::Routed(Arc::clone(virtual_addresses));
    let proxy = Listeners::inherited(sealed.take_proxy())?;
    Ok(proxy.with(Listeners::inherited_transparent(sealed.take_served(), redirect)?))
}

/// The variables of the command, and the files that it sees in place of others. `reached` are the
/// sockets of `--reach`.
fn release(
    setup: &ClientSetup,
    dir: &Path,
    flags: &SealedFlags,
    reached: Vec<Mount>,
) -> Result<Release, Failure> {
    let mounts = mounts_of(setup, dir, flags, reached)
        .map_err(|error| anyhow::anyhow!("cannot make the files of the command: {error}"))
        .or_exit(Exit::InputOutput)?;
    let variables = clients::variables(setup);
    let pairs = variables.into_iter().map(|variable| (variable.name.to_owned(), variable.value));
    let allocator = environment::variable(ALLOCATOR).map(|value| (ALLOCATOR.to_owned(), value));
    Ok(Release { variables: pairs.chain(allocator).collect(), mounts })
}

/// The name server, the authorities, the sockets of `--reach`, and what covers other sockets.
fn mounts_of(
    setup: &ClientSetup,
    dir: &Path,
    flags: &SealedFlags,
    reached: Vec<Mount>,
) -> io::Result<Vec<Mount>> {
    let names = dir.join("resolv.conf");
    fs::write(&names, format!("nameserver {}\n", network::NAME_SERVER))?;
    let target = Path::new("/etc/resolv.conf").canonicalize().map_err(|error| {
        io::Error::new(error.kind(), format!("/etc/resolv.conf is not there: {error}"))
    })?;
    let mut mounts = vec![Mount { source: names, target }];
    let mut own = vec![dir.to_owned()];
    if let Some(trust) = &setup.trust {
        mounts.extend(trust::mounts(trust, dir)?);
        let authorities = trust::one_by_one(trust, dir)?;
        mounts.extend(trust::nss_mounts(&authorities, dir));
        mounts.extend(trust::firefox_mounts(&authorities, dir));
        own.extend(trust.authority.parent().map(Path::to_owned));
    }
    mounts.extend(reached);
    mounts.extend(mounts::kernel_log(dir)?);
    let sockets = [&flags.keep_socket[..], &flags.sockets()].concat();
    covered::cover(mounts, Kept { sockets: &sockets, directories: &own }, dir)
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

/// The flags of sealed runs.
#[derive(Args, Clone, Debug, Default)]
pub struct SealedFlags {
    /// Give the command a network in which there is nothing but the proxy, so that nothing bypasses
    /// it
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
    /// A service outside that the command may reach, as in db.example:5432 or
    /// /run/postgresql/.s.PGSQL.5432; each connection is recorded (may be repeated)
    #[arg(long, value_name = "HOST:PORT|PATH", requires = "sealed")]
    reach: Vec<Reach>,
    /// A socket that is not hidden from the command, for services that take descriptors, such as
    /// D-Bus; nothing is recorded (may be repeated)
    #[arg(long, value_name = "PATH", requires = "sealed")]
    pub keep_socket: Vec<PathBuf>,
}

impl SealedFlags {
    /// The served ports, in the order of their numbers.
    pub fn served(&self) -> Result<Vec<u16>, Failure> {
        served_ports(&self.ports, &self.services())
    }

    /// The hosts and ports of `--reach`.
    pub fn services(&self) -> Vec<Service> {
        let services = self.reach.iter().filter_map(|it| match it {
            Reach::Service(service) => Some(service.clone()),
            Reach::Socket(_) => None,
        });
        services.collect()
    }

    /// The Unix sockets of `--reach`.
    pub fn sockets(&self) -> Vec<PathBuf> {
        let sockets = self.reach.iter().filter_map(|it| match it {
            Reach::Service(_) => None,
            Reach::Socket(path) => Some(path.clone()),
        });
        sockets.collect()
    }

    /// The ports of `--reach`, each once.
    pub fn reached(&self) -> Vec<u16> {
        let mut ports: Vec<_> = self.services().iter().map(|service| service.port).collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    }
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
