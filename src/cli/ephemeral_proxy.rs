//! A proxy inside this process, on a free port of loopback, with an audit directory of its own. It
//! works beside a `serve` that holds the lock of the state directory.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::environment;
use super::exit::{Exit, Failure, OrExit};
use crate::audit::{Health, Record, StartMode, Writer};
use crate::ca::CA_REMEDY;
use crate::config::Settings;
use crate::egress::EgressState;
use crate::pace::{self, Lanes};
use crate::proxy::{DecisionMetrics, RequestCounts, RequestMetrics, RunObserver};
use crate::runtime::clock::{Clock, SystemClock};
use crate::server::{Lifecycle, Listeners, Server, build};

/// A running proxy; dropped, it drains and ends.
#[derive(Debug)]
pub struct EphemeralProxy {
    pub address: SocketAddr,
    server: Server,
    lifecycle: Arc<Lifecycle>,
    request_metrics: Arc<RequestMetrics>,
    recorder: Recorder,
    lanes: Arc<Lanes>,
    egress: Arc<EgressState>,
    records: PathBuf,
}

/// Writes records of connections that another part of the program relays beside the proxy.
#[derive(Clone, Debug)]
pub struct Recorder {
    audit: Arc<Writer>,
    decision_metrics: Arc<DecisionMetrics>,
}

impl Recorder {
    /// Writes and counts `record`; whether the connection may go on: not where nothing is served
    /// without records (`audit.on_failure`).
    pub async fn record(&self, record: Record) -> bool {
        self.decision_metrics.log.log(&record, &self.audit);
        self.decision_metrics.count_recorded(record.event, record.reason, record.path_seen);
        // A loss is logged and counted by the writer.
        let written = self.audit.write(record, Vec::new()).await;
        written.is_ok() || !self.audit.is_stopped()
    }
}

/// The counts and records of a proxy that has ended.
#[derive(Clone, Debug, Default)]
pub struct ProxyReport {
    pub counts: RequestCounts,
    pub pace: pace::Counts,
    pub audit: Health,
    /// The file of the records.
    pub records: PathBuf,
}

impl EphemeralProxy {
    /// Starts with these settings, its records in `audit_dir`.
    pub fn start(
        settings: Settings,
        audit_dir: &Path,
        observer: Option<&Arc<RunObserver>>,
    ) -> Result<Self, Failure> {
        let address = [(Ipv4Addr::LOCALHOST, 0).into()];
        let listeners = Listeners::bind(&address).or_exit(Exit::Unavailable)?;
        let own = listeners.addresses();
        Self::start_on(settings, audit_dir, (listeners, own), observer)
    }

    /// The same on these listeners, watched by `observer`. It never connects to the addresses `own`.
    pub fn start_on(
        mut settings: Settings,
        audit_dir: &Path,
        (listeners, own): (Listeners, Vec<SocketAddr>),
        observer: Option<&Arc<RunObserver>>,
    ) -> Result<Self, Failure> {
        settings.listen.proxy = listeners.addresses();
        settings.listen.transparent.clear();
        // The clients of the machine's proxy have no access: this one is for its own command.
        settings.clients.open = false;
        settings.clients.allow.clear();
        settings.clients.users_file = None;
        settings.audit.dir = Some(audit_dir.to_owned());
        // A run shares what the machine knows; what is tried elsewhere is no business of others.
        settings.store.enabled &= settings.under_run;
        let ca = settings.ca(environment::credentials_directory().as_deref());
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let mut components = build(&settings, own, ca, clock)?;
        if let Some(observer) = observer {
            components.request_metrics = Arc::new(RequestMetrics::observed_by(observer.clone()));
            components.decision_metrics = Arc::new(DecisionMetrics::observed_by(observer.clone()));
            components.egress.lanes().set_listener(Arc::clone(observer) as _);
        }
        // With an invalid authority each CONNECT of the command would fail.
        if let Some(invalidity) = components.leaves.invalidity() {
            return Err(anyhow::anyhow!("{invalidity}; {CA_REMEDY}")).or_exit(Exit::Configuration);
        }
        components.lifecycle.started(StartMode::Run);
        let server = Server::start(listeners, &components)?;
        Ok(Self {
            address: server.addresses()[0],
            server,
            lifecycle: components.lifecycle,
            request_metrics: components.request_metrics,
            recorder: Recorder {
                audit: components.audit,
                decision_metrics: components.decision_metrics,
            },
            lanes: Arc::clone(components.egress.lanes()),
            egress: components.egress,
            records: audit_dir.join(crate::audit::FILE_NAME),
        })
    }

    /// Its access to origins.
    pub const fn egress(&self) -> &Arc<EgressState> {
        &self.egress
    }

    /// What writes records beside its own.
    pub fn recorder(&self) -> Recorder {
        self.recorder.clone()
    }

    /// Drains the proxy, and reports what it has done.
    pub fn stop(self) -> ProxyReport {
        let deadline = self.server.stop();
        self.lifecycle.stopped("the command has ended");
        if let Err(error) = self.recorder.audit.close_by(deadline) {
            tracing::error!("{error}");
        }
        ProxyReport {
            counts: self.request_metrics.counts(),
            pace: self.lanes.counts(),
            audit: self.recorder.audit.health(),
            records: self.records,
        }
    }
}
