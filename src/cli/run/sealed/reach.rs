//! Services outside that the command may reach (`--reach`): connections to exactly these hosts and
//! ports are relayed, past the policy for pages.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::{info, warn};

use super::mounts::Mount;
use super::refused_connections::{self, NO_ADDRESS, RefusedConnections, RelayRecords, ServiceName};
use crate::name_server::VirtualAddresses;
use crate::runtime::lock::Lock;
use crate::types::origin::{Host, Origin, Scheme};

/// Connections to these services at one time.
const CONNECTIONS_MAX: usize = 256;

/// What `--reach` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    Service(Service),
    /// The path of a Unix socket.
    Socket(PathBuf),
}

impl std::str::FromStr for Reach {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with('/') {
            Ok(Self::Socket(text.into()))
        } else {
            text.parse().map(Self::Service)
        }
    }
}

/// A service, `HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    pub host: Host,
    /// A TCP port; of IPv4 and IPv6 alike.
    pub port: u16,
}

impl std::str::FromStr for Service {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let has_port = text.rsplit(':').next().is_some_and(|port| port.parse::<u16>().is_ok());
        let origin = Origin::from_authority(Scheme::Http, text).ok().filter(|_| has_port);
        let origin =
            origin.ok_or("write host and port, as in db.example:5432, or the path of a socket")?;
        Ok(Self { host: origin.host().clone(), port: origin.port() })
    }
}

/// The services, and what was relayed to them.
#[derive(Debug)]
pub struct Relay {
    services: Vec<(Service, Vec<IpAddr>)>,
    virtual_addresses: Arc<VirtualAddresses>,
    refused: Arc<Lock<RefusedConnections>>,
    records: RelayRecords,
    relayed: AtomicU64,
    permits: Arc<Semaphore>,
}

impl Relay {
    /// Looks the services up, to know them by their addresses, too.
    pub fn new(
        services: &[Service],
        virtual_addresses: Arc<VirtualAddresses>,
        refused: Arc<Lock<RefusedConnections>>,
        records: RelayRecords,
    ) -> Arc<Self> {
        let services = with_addresses(services);
        let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let relayed = AtomicU64::new(0);
        Arc::new(Self { services, virtual_addresses, refused, records, relayed, permits })
    }

    /// Connections relayed so far.
    pub fn relayed(&self) -> u64 {
        self.relayed.load(Ordering::Relaxed)
    }

    /// The place of a connection, when one is free.
    pub async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.permits).acquire_owned().await.ok()
    }

    /// Counts and records a connection that was made; whether it may go on.
    pub async fn count(
        &self,
        service: &refused_connections::ServiceName<'_>,
        client: IpAddr,
    ) -> bool {
        self.relayed.fetch_add(1, Ordering::Relaxed);
        self.records.record(service, client).await
    }

    /// Serves `listener` in tasks of the current runtime.
    pub fn start(self: &Arc<Self>, listener: TcpListener) -> std::io::Result<()> {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let relay = Arc::clone(self);
        tokio::spawn(async move {
            loop {
                let Some(permit) = relay.permit().await else { return };
                let Ok((client, peer)) = listener.accept().await else {
                    tokio::task::yield_now().await;
                    continue;
                };
                let relay = Arc::clone(&relay);
                tokio::spawn(async move {
                    relay.serve(client, peer.ip()).await;
                    drop(permit);
                });
            }
        });
        Ok(())
    }

    async fn serve(&self, mut client: TcpStream, peer: IpAddr) {
        let Ok(destination) = client.local_addr() else { return };
        let Some(service) = self.service(destination) else {
            self.refused.lock().note(destination, false, &self.virtual_addresses);
            return;
        };
        let Service { host, port } = service;
        // An address of IPv6 is looked up without its brackets.
        let name = host.to_string();
        match TcpStream::connect((name.trim_matches(['[', ']']), *port)).await {
            Ok(mut server) => {
                let recorded = refused_connections::ServiceName::Tcp(&name, *port);
                if !self.count(&recorded, peer).await {
                    return;
                }
                info!("relayed to {host}:{port} (--reach)");
                // An error is the end of one side.
                let _ = copy_bidirectional(&mut client, &mut server).await;
            }
            Err(error) => warn!("{host}:{port} is not reached (--reach): {error}"),
        }
    }

    fn service(&self, destination: SocketAddr) -> Option<&Service> {
        let name = self.virtual_addresses.name_of(destination.ip()).map(Host::Name);
        named_by(&self.services, name, destination)
    }
}

fn with_addresses(services: &[Service]) -> Vec<(Service, Vec<IpAddr>)> {
    let addresses = |service: &Service| match &service.host {
        Host::Name(name) => {
            let found = (&**name, service.port).to_socket_addrs();
            found.map(|found| found.map(|address| address.ip()).collect()).unwrap_or_default()
        }
        Host::V4(address) => vec![IpAddr::V4(*address)],
        Host::V6(address) => vec![IpAddr::V6(*address)],
    };
    services.iter().map(|it| (it.clone(), addresses(it))).collect()
}

/// The service at `destination`, which is the virtual address of `name`, if there is one.
fn named_by(
    services: &[(Service, Vec<IpAddr>)],
    name: Option<Host>,
    destination: SocketAddr,
) -> Option<&Service> {
    let is = |(service, addresses): &&(Service, Vec<IpAddr>)| {
        let is_host = match &name {
            Some(name) => service.host == *name,
            None => addresses.contains(&destination.ip().to_canonical()),
        };
        is_host && service.port == destination.port()
    };
    services.iter().find(is).map(|(service, _)| service)
}

// Unix sockets outside that the command may reach (`--reach PATH`). In the place of each the command
// sees a socket of the proxy, which relays bytes and no descriptors: none of another network gets in.

/// Serves a socket in `dir` for each of `paths`, in tasks of the current runtime; where each is to be
/// mounted.
///
/// # Errors
///
/// A path does not exist, or its socket cannot be made.
pub fn start_unix_relay(
    relay: &Arc<Relay>,
    paths: &[PathBuf],
    dir: &Path,
) -> io::Result<Vec<Mount>> {
    let serve = |(number, path): (usize, &PathBuf)| {
        let named = |error| io::Error::other(format!("--reach {}: {error}", path.display()));
        let target = path.canonicalize().map_err(named)?;
        let source = dir.join(format!("reach-{number}"));
        let listener = UnixListener::bind(&source).map_err(named)?;
        listener.set_nonblocking(true)?;
        let listener = tokio::net::UnixListener::from_std(listener)?;
        tokio::spawn(serve(Arc::clone(relay), listener, target.clone()));
        Ok(Mount { source, target })
    };
    paths.iter().enumerate().map(serve).collect()
}

async fn serve(relay: Arc<Relay>, listener: tokio::net::UnixListener, path: PathBuf) {
    let path: Arc<Path> = path.into();
    loop {
        let Some(permit) = relay.permit().await else { return };
        let Ok((client, _)) = listener.accept().await else {
            tokio::task::yield_now().await;
            continue;
        };
        let (relay, path) = (Arc::clone(&relay), Arc::clone(&path));
        tokio::spawn(async move {
            relay_to(&relay, client, &path).await;
            drop(permit);
        });
    }
}

async fn relay_to(relay: &Relay, mut client: UnixStream, path: &Path) {
    let shown = path.display().to_string();
    match UnixStream::connect(path).await {
        Ok(mut server) => {
            if !relay.count(&ServiceName::Unix(&shown), NO_ADDRESS).await {
                return;
            }
            info!("relayed to {shown} (--reach)");
            // An error is the end of one side.
            let _ = copy_bidirectional(&mut client, &mut server).await;
        }
        Err(error) => warn!("{shown} is not reached (--reach): {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_a_host_and_a_port() {
        let service = "DB.example:5432".parse::<Service>().unwrap();
        assert_eq!((service.host.to_string(), service.port), ("db.example".into(), 5432));
        assert_eq!("[::1]:80".parse::<Service>().unwrap().port, 80);
        for text in ["db.example", "db.example:", "5432", "http://db.example:1", "a b:1"] {
            assert!(text.parse::<Reach>().is_err(), "{text}");
        }
        let socket = "/run/docker.sock".parse::<Reach>();
        assert_eq!(socket, Ok(Reach::Socket("/run/docker.sock".into())));
    }

    #[test]
    fn exactly_the_named_services_are_reached() {
        let virtual_addresses = VirtualAddresses::default();
        let (db, _) = virtual_addresses.addresses_of("db.example");
        let (other, _) = virtual_addresses.addresses_of("other.example");
        let services = ["db.example:5432", "127.0.0.1:6379"].map(|it| it.parse().unwrap());
        let services = with_addresses(&services);
        let named = |ip: std::net::Ipv4Addr, port| {
            (virtual_addresses.name_of(ip.into()), (ip, port).into())
        };
        let reached = |ip, port| {
            let (name, destination) = named(ip, port);
            named_by(&services, name.map(Host::Name), destination).is_some()
        };
        assert!(reached(db, 5432) && reached([127, 0, 0, 1].into(), 6379));
        assert!(!reached(db, 6379) && !reached(other, 5432));
        assert!(!reached([127, 0, 0, 1].into(), 5432) && !reached([10, 0, 0, 1].into(), 5432));
    }
}
