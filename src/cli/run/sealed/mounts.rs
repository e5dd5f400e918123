//! What the command sees in the place of files and sockets of the machine.

use std::io;
use std::path::{Path, PathBuf};

use rustix::mount::mount_bind;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use super::super::super::environment;

/// A file or directory, and what it is mounted over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    pub source: PathBuf,
    pub target: PathBuf,
}

/// Makes the mounts in their order.
///
/// # Errors
///
/// Of the first that the system refuses, with its target.
pub fn make(mounts: &[Mount]) -> io::Result<()> {
    for Mount { source, target } in mounts {
        mount_bind(source, target).map_err(|error| {
            io::Error::other(format!("cannot mount over {}: {error}", target.display()))
        })?;
    }
    Ok(())
}

/// Sockets of services that act outside of the namespaces for each client that writes to them: message buses,
/// container engines, resolvers and agents. Below `$XDG_RUNTIME_DIR` where they begin with `~`.
const SOCKETS: [&str; 19] = [
    "/run/dbus/system_bus_socket",
    "/run/systemd/private",
    "/run/systemd/resolve/io.systemd.Resolve",
    "/run/systemd/resolve/io.systemd.Resolve.Monitor",
    "/run/systemd/io.systemd.ManagedOOM",
    "/run/avahi-daemon/socket",
    "/run/nscd/socket",
    "/run/docker.sock",
    "/run/podman/podman.sock",
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
    "/run/snapd.socket",
    "~/bus",
    "~/systemd/private",
    "~/docker.sock",
    "~/podman/podman.sock",
    "~/gnupg/S.gpg-agent",
    "~/gnupg/S.gpg-agent.ssh",
    "~/keyring/ssh",
];

/// The sockets of [`SOCKETS`], and of variables that name some, which are there and not in `keep`.
pub fn sockets_to_hide(keep: &[PathBuf]) -> Vec<PathBuf> {
    let runtime_dir = environment::variable("XDG_RUNTIME_DIR")
        .unwrap_or_else(|| format!("/run/user/{}", geteuid().as_raw()));
    let listed = SOCKETS.iter().map(|socket| match socket.strip_prefix("~/") {
        Some(rest) => Path::new(&runtime_dir).join(rest),
        None => PathBuf::from(socket),
    });
    let agent = environment::variable("SSH_AUTH_SOCK").map(PathBuf::from);
    let bus = environment::variable("DBUS_SESSION_BUS_ADDRESS");
    let bus = bus.and_then(|bus| {
        let path = bus.strip_prefix("unix:path=")?;
        Some(PathBuf::from(path.split([',', ';']).next()?))
    });
    let docker = environment::variable("DOCKER_HOST")
        .and_then(|host| Some(PathBuf::from(host.strip_prefix("unix://")?)));
    let keep: Vec<_> = keep.iter().filter_map(|path| path.canonicalize().ok()).collect();
    let mut found: Vec<_> = listed
        .chain([agent, bus, docker].into_iter().flatten())
        .filter_map(|path| path.canonicalize().ok())
        .filter(|path| !keep.contains(path))
        .collect();
    found.sort();
    found.dedup();
    found
}
