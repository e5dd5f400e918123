//! The only reader of the environment.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::warn;

/// All variables, lossily as UTF-8: a setting with other bytes is refused by its own check.
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
pub fn variables() -> Vec<(String, String)> {
    let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    std::env::vars_os().map(|(name, value)| (lossy(name), lossy(value))).collect()
}

/// The directory in which systemd hands secrets to a service (LoadCredential=).
pub fn credentials_directory() -> Option<PathBuf> {
    let of_systemd = variables().into_iter().find(|(name, _)| name == "CREDENTIALS_DIRECTORY");
    of_systemd.map(|(_, dir)| dir.into())
}

/// Whether a variable is set and not empty, as NO_COLOR asks.
pub fn is_set(name: &str) -> bool {
    variable(name).is_some()
}

/// A variable, if it is set and not empty.
pub fn variable(name: &str) -> Option<String> {
    let found = variables().into_iter().find(|(variable, _)| variable == name);
    found.map(|(_, value)| value).filter(|value| !value.is_empty())
}

// The resource limits of this process (setrlimit(2)): as many descriptors as it may have, and no core
// file, because the key of the CA would be in it.

/// The limits as they were before, for a command that is started from here: it may need a core file, and
/// an old program may close every descriptor up to its limit, one by one.
#[derive(Clone, Debug)]
pub struct Rlimits {
    core: Rlimit,
    files: Rlimit,
}

impl Rlimits {
    /// Takes all descriptors that may be had, and forbids core files. What the system refuses is logged.
    pub fn raise() -> Self {
        let before = Self { core: getrlimit(Resource::Core), files: getrlimit(Resource::Nofile) };
        let Rlimit { maximum, .. } = before.files;
        if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
            warn!("the limit on open files stays at {}: {error}", shown(before.files.current));
        }
        let none = Rlimit { current: Some(0), maximum: before.core.maximum };
        if let Err(error) = setrlimit(Resource::Core, none) {
            warn!("a core file of this process would have the key of the CA in it: {error}");
        }
        before
    }

    /// Starts a command with the limits that this process had before.
    pub fn lend<T>(&self, begin: impl FnOnce() -> T) -> T {
        // An error leaves the command with the limits of this process.
        let _ = setrlimit(Resource::Core, self.core);
        let _ = setrlimit(Resource::Nofile, self.files);
        let begun = begin();
        Self::raise();
        begun
    }
}

fn shown(limit: Option<u64>) -> String {
    limit.map_or_else(|| "unlimited".into(), |limit| limit.to_string())
}

// Which hosts clients contact directly. The command's own services on loopback are not a crawl:
// requests to WebDriver, a database or a local API must not go to the proxy, which refuses loopback.

/// What every client tried takes from `NO_PROXY` (see `docs/guide/clients.md`): names with and without the
/// dot, the address itself for those without blocks. `::1` is not there on purpose: Ruby parts entries
/// at colons and would leave out every IPv4 address that ends in `.1`; in brackets, httpx refuses to
/// start. Ruby, Go, Java and Chromium leave it out by themselves.
const LOOPBACK: &str = "localhost,.localhost,127.0.0.1,127.0.0.0/8";

/// The same for Java, which knows neither blocks nor a leading dot.
const LOOPBACK_OF_JAVA: [&str; 4] = ["localhost", "*.localhost", "127.*", "[::1]"];

/// Chromium leaves loopback out by itself; this entry takes that back. To others it is a host that
/// does not exist.
const NOT_LOOPBACK: &str = "<-loopback>";

/// The flags of the commands that set variables for clients.
#[derive(Args, Clone, Debug, Default)]
pub struct NoProxyFlags {
    /// Hosts that bypass the proxy, besides loopback, separated by commas (NO_PROXY)
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true)]
    no_proxy: String,
    /// Send loopback (localhost, 127.0.0.0/8) through the proxy, too, to test a local site; the proxy
    /// contacts it only with --allow-private
    #[arg(long)]
    proxy_loopback: bool,
}

impl NoProxyFlags {
    /// The hosts that the flags name.
    pub fn list(&self) -> NoProxy {
        NoProxy { hosts: self.no_proxy.clone(), proxy_loopback: self.proxy_loopback }
    }
}

/// The hosts that bypass the proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NoProxy {
    /// Those that the user names, separated by commas.
    pub hosts: String,
    /// Whether loopback goes through the proxy; otherwise it is left out.
    pub proxy_loopback: bool,
}

impl NoProxy {
    /// The value of `NO_PROXY`. Never empty: an inherited list would let clients bypass the proxy.
    pub fn variable(&self) -> String {
        let loopback = if self.proxy_loopback { NOT_LOOPBACK } else { LOOPBACK };
        std::iter::once(loopback).chain(self.named()).collect::<Vec<_>>().join(",")
    }

    /// The value of Java's `http.nonProxyHosts`; set even when empty, as Java leaves out loopback by
    /// itself otherwise.
    pub fn of_java(&self) -> String {
        let loopback = LOOPBACK_OF_JAVA.iter().filter(|_| !self.proxy_loopback);
        let named = self.named().filter(|host| *host != NOT_LOOPBACK).map(|host| {
            match host.strip_prefix('.') {
                Some(domain) => format!("*.{domain}"),
                None => host.to_owned(),
            }
        });
        loopback.map(ToString::to_string).chain(named).collect::<Vec<_>>().join("|")
    }

    fn named(&self) -> impl Iterator<Item = &str> {
        self.hosts.split(',').map(str::trim).filter(|host| !host.is_empty())
    }
}

/// The first executable file of this name on the `PATH`.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = variable("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    file.metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_bypasses_the_proxy_besides_the_named_hosts() {
        let mut list = NoProxy { hosts: "intranet, .internal".into(), proxy_loopback: false };
        assert_eq!(
            list.variable(),
            "localhost,.localhost,127.0.0.1,127.0.0.0/8,intranet,.internal"
        );
        assert_eq!(list.of_java(), "localhost|*.localhost|127.*|[::1]|intranet|*.internal");
        list.proxy_loopback = true;
        assert_eq!(list.variable(), "<-loopback>,intranet,.internal");
        assert_eq!(list.of_java(), "intranet|*.internal");
    }

    /// Ruby finds the host "1" in "::1", and any address that ends in ".1" would go around the proxy.
    #[test]
    fn no_entry_has_a_colon() {
        for proxy_loopback in [false, true] {
            assert!(!NoProxy { proxy_loopback, ..NoProxy::default() }.variable().contains(':'));
        }
    }
}
