//! Sockets inherited from the service manager (sd_listen_fds(3)): they outlive the process, so that
//! a restart refuses no connection. Their names (`FileDescriptorName=`, systemd.socket(5)) tell what
//! they are for: `admin` for the operator, `transparent` for connections that are redirected, and any
//! other for clients of the proxy.

use std::net::{SocketAddr, TcpListener};

use listenfd::ListenFd;

use super::super::environment;
use super::super::exit::{Exit, Failure, OrExit};
use crate::config::{Change, Override};

/// Their source, as error messages name it.
const VARIABLE: &str = "$LISTEN_FDS";

/// The inherited sockets; empty without a service manager.
#[derive(Debug, Default)]
pub struct Sockets {
    pub proxy: Vec<TcpListener>,
    pub transparent: Vec<TcpListener>,
    pub admin: Option<TcpListener>,
}

impl Sockets {
    /// Takes them; a second call finds none.
    pub fn take() -> Result<Self, Failure> {
        let names = environment::variable("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':');
        let (mut inherited, mut sockets) = (ListenFd::from_env(), Self::default());
        for number in 0..inherited.len() {
            let name = names.next().unwrap_or_default();
            let socket = inherited
                .take_tcp_listener(number)
                .map_err(|error| {
                    anyhow::anyhow!("the socket \"{name}\" of {VARIABLE} cannot be used: {error}")
                })
                .or_exit(Exit::Unavailable)?;
            match name {
                "admin" => sockets.admin = socket,
                "transparent" => sockets.transparent.extend(socket),
                _ => sockets.proxy.extend(socket),
            }
        }
        Ok(sockets)
    }

    /// Puts their addresses in the place of those that are set: they are checked like others, and
    /// changes in the file are ignored.
    pub fn overrides(&self) -> Vec<Override> {
        let address =
            |socket: &TcpListener| socket.local_addr().ok().as_ref().map(SocketAddr::to_string);
        let list = |key: &'static str, sockets: &[TcpListener]| {
            let addresses: Vec<_> = sockets.iter().filter_map(address).collect();
            (!addresses.is_empty()).then_some((key, Change::SetList(addresses)))
        };
        let proxy = list("listen.proxy", &self.proxy);
        let transparent = list("listen.transparent", &self.transparent);
        let admin =
            self.admin.as_ref().and_then(address).map(|it| ("listen.admin", Change::Set(it)));
        proxy
            .into_iter()
            .chain(transparent)
            .chain(admin)
            .map(|(key, change)| Override { key, change, flag: VARIABLE })
            .collect()
    }
}
