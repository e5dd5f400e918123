//! Sockets inherited from the service manager (sd_listen_fds(3)): they outlive the process, so that
//! a restart refuses no connection. The one called `admin` is for the operator, the others are for
//! clients.

use std::net::{SocketAddr, TcpListener};

use listenfd::ListenFd;

use super::super::environment;
use super::super::exit::{Exit, Failure, OrExit};
use crate::config::{Change, Override};

/// Their source, as complaints name it.
const VARIABLE: &str = "$LISTEN_FDS";

/// The inherited sockets; empty without a service manager.
#[derive(Debug, Default)]
pub struct Sockets {
    pub proxy: Vec<TcpListener>,
    pub admin: Option<TcpListener>,
}

impl Sockets {
    /// Takes them; a second call finds none.
    pub fn take() -> Result<Self, Failure> {
        let names = environment::variable("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':');
        let (mut handed_over, mut sockets) = (ListenFd::from_env(), Self::default());
        for number in 0..handed_over.len() {
            let name = names.next().unwrap_or_default();
            let socket = handed_over
                .take_tcp_listener(number)
                .map_err(|error| {
                    anyhow::anyhow!("the socket \"{name}\" of {VARIABLE} cannot be used: {error}")
                })
                .or_exit(Exit::Unavailable)?;
            match name {
                "admin" => sockets.admin = socket,
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
        let proxy: Vec<_> = self.proxy.iter().filter_map(address).collect();
        let proxy = (!proxy.is_empty()).then_some(("listen.proxy", Change::SetList(proxy)));
        let admin =
            self.admin.as_ref().and_then(address).map(|it| ("listen.admin", Change::Set(it)));
        proxy
            .into_iter()
            .chain(admin)
            .map(|(key, change)| Override { key, change, flag: VARIABLE })
            .collect()
    }
}
