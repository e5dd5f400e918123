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
mod firefox;
mod flags;
mod init;
mod messages;
mod mounts;
mod namespaces;
mod network;
mod nss;
mod ports;
mod reach;
pub mod refused_connections;
mod relay_record;
mod rights;
pub mod seal;
mod sealed_process;
mod signals;
mod sockets;
mod steps;
mod supervise;
mod trust;
mod unix_relay;

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;

use rustix::process::geteuid;
use tracing::warn;

use super::super::clients::{self, ClientSetup};
use super::super::environment;
use super::super::ephemeral_proxy::EphemeralProxy;
use super::super::exit::{Exit, Failure, OrExit};
use super::super::rlimits::Rlimits;
use super::super::temporary_dir::{Purpose, TemporaryDir};
use super::child::{NOT_EXECUTABLE, NOT_FOUND, code};
use super::outcome::RunOutcome;
use crate::config::Settings;
use crate::name_server::{NameServer, VirtualAddresses};
use crate::proxy::RedirectKind;
use crate::runtime::lock::Lock;
use crate::server::Listeners;
use covered::Kept;
pub use flags::SealedFlags;
use messages::{NotExecuted, Release};
use mounts::Mount;
use ports::SERVED_PORTS;
use reach::Relay;
use refused_connections::{RefusedConnections, Report};
use relay_record::RelayRecords;
use sealed_process::SealedProcess;
use steps::ALLOCATOR;

/// Runs the command sealed, with a proxy of its own.
pub fn run(
    (flags, command): (&SealedFlags, &[OsString]),
    no_proxy: super::super::no_proxy::NoProxy,
    (mut settings, records): (Settings, &Path),
    rlimits: &Rlimits,
) -> Result<RunOutcome, Failure> {
    let served = flags.served()?;
    settings.egress.connect_ports.extend(&served);
    let (mut sealed, child) = SealedProcess::start(&served, &flags.reached(), command, rlimits)?;
    let virtual_addresses = Arc::<VirtualAddresses>::default();
    let listeners = listeners(&mut sealed, &virtual_addresses)?;
    // Its addresses are those of another network: outside they are not the proxy's.
    let proxy = EphemeralProxy::start_on(settings.clone(), records, (listeners, Vec::new()), None)?;
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
    let reached = unix_relay::start(&relay, &flags.sockets(), files.path()).or_exit(Exit::Usage)?;
    drop(entered);
    let (setup, _clients) = clients::set_up_for_command(proxy.address, no_proxy, &settings)?;
    let ended = match sealed.release(&release(&setup, files.path(), flags, reached)?)? {
        Some(failed) => Err(not_started(&command[0], &failed)),
        None => child.wait_for_status(false).map(|(status, connections)| {
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
    child.wait(false)?;
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
    fs::write(&names, format!("nameserver {}\n", sockets::NAME_SERVER))?;
    let target = Path::new("/etc/resolv.conf").canonicalize().map_err(|error| {
        io::Error::new(error.kind(), format!("/etc/resolv.conf is not there: {error}"))
    })?;
    let mut mounts = vec![Mount { source: names, target }];
    let mut own = vec![dir.to_owned()];
    if let Some(trust) = &setup.trust {
        mounts.extend(trust::mounts(trust, dir)?);
        let authorities = trust::one_by_one(trust, dir)?;
        mounts.extend(nss::mounts(&authorities, dir));
        mounts.extend(firefox::mounts(&authorities, dir));
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
