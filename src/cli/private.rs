//! A proxy of one's own: in this process, on a free port of loopback, with a directory of its own
//! for its records. It works beside a `serve` that holds the state directory.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::environment;
use super::exit::{Exit, Failure, OrExit};
use crate::audit::{Health, How, Writer};
use crate::ca::CURE;
use crate::config::Settings;
use crate::proxy::{RequestCounts, RequestMetrics};
use crate::runtime::clock::{Clock, SystemClock};
use crate::server::{Lifecycle, Listeners, Server, build};

/// Serving; dropped, it drains and ends.
#[derive(Debug)]
pub struct PrivateProxy {
    pub address: SocketAddr,
    server: Server,
    lifecycle: Arc<Lifecycle>,
    request_metrics: Arc<RequestMetrics>,
    audit: Arc<Writer>,
    records: PathBuf,
}

/// What there is to say when it has ended.
#[derive(Clone, Debug, Default)]
pub struct Account {
    pub counts: RequestCounts,
    pub audit: Health,
    /// The file of the records.
    pub records: PathBuf,
}

impl PrivateProxy {
    /// Starts with these settings, its records in `audit_dir`.
    pub fn start(mut settings: Settings, audit_dir: &Path) -> Result<Self, Failure> {
        settings.listen.proxy = vec![(Ipv4Addr::LOCALHOST, 0).into()];
        // Whoever else may use the machine's proxy, this one is for its own command.
        settings.clients.open = false;
        settings.clients.allow.clear();
        settings.clients.users_file = None;
        settings.audit.dir = Some(audit_dir.to_owned());
        settings.store.enabled = false;
        let ca = settings.ca(environment::credentials_directory().as_deref());
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let listeners = Listeners::bind(&settings.listen.proxy).or_exit(Exit::Unavailable)?;
        let mut components = build(&settings, listeners.addresses(), ca, clock)?;
        components.request_metrics = Arc::new(RequestMetrics::with_origins());
        // A command of its own would only see each CONNECT fail.
        if let Some(invalidity) = components.leaves.invalidity() {
            return Err(anyhow::anyhow!("{invalidity}; {CURE}")).or_exit(Exit::Configuration);
        }
        components.lifecycle.started(How::Run);
        let server = Server::start(listeners, &components)?;
        Ok(Self {
            address: server.addresses()[0],
            server,
            lifecycle: components.lifecycle,
            request_metrics: components.request_metrics,
            audit: components.audit,
            records: audit_dir.join(crate::audit::FILE_NAME),
        })
    }

    /// Lets the requests under way end, and tells what has been.
    pub fn stop(self) -> Account {
        self.server.stop();
        self.lifecycle.stopped("the command has ended");
        if let Err(error) = self.audit.close() {
            tracing::error!("{error}");
        }
        Account {
            counts: self.request_metrics.counts(),
            audit: self.audit.health(),
            records: self.records,
        }
    }
}
