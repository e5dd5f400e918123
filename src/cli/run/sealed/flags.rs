//! The flags of sealed runs.

use std::path::PathBuf;

use clap::Args;

use super::super::super::exit::Failure;
use super::ports::served_ports;
use super::reach::{Reach, Service};

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
