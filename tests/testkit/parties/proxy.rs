//! The proxy under test, put together as `courtesy serve` does it.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use courtesy::admin::{Admin, Listener};
use courtesy::audit::Writer;
use courtesy::audit::segment;
use courtesy::audit::segment::FoundLine;
use courtesy::ca::{Leaves, Source};
use courtesy::config::{Roots, Settings};
use courtesy::proxy::RedirectKind;
use courtesy::runtime::clock::ManualClock;
use courtesy::server::{Components, Listeners, Server, SetupErrors, build};
use courtesy::store::{Stats, Store};
use courtesy::types::timestamp::Timestamp;
use rustls::ClientConfig;
use serde_json::Value;
use tempfile::TempDir;

use super::client::{Client, Response};
use super::{H2, Origin, tls};

/// When every test begins: 2026-01-01.
pub const NOW: Timestamp = Timestamp::from_millis(1_767_225_600_000);

/// Lets CONNECT go to these ports, and trusts the certificates of origins.
fn before(ports: impl IntoIterator<Item = u16>, settings: &mut Settings) {
    settings.egress.connect_ports.extend(ports);
    let file = settings.state_dir.join("origins.pem");
    std::fs::write(&file, tls::origins_ca()).expect("a directory that can be written to");
    settings.tls.extra_roots.push(file);
}

fn ports(origins: &[&Origin]) -> Vec<u16> {
    origins.iter().map(|origin| origin.address().port()).collect()
}

/// A running proxy with its own state; it stops and leaves nothing behind when dropped.
#[derive(Debug)]
pub struct Proxy {
    pub clock: Arc<ManualClock>,
    address: SocketAddr,
    admin: Option<Admin>,
    admin_address: SocketAddr,
    store: Arc<Store>,
    pub audit: Arc<Writer>,
    pub leaves: Arc<Leaves>,
    pub ca: Source,
    server: Option<Server>,
    settings: Mutex<Settings>,
    state: TempDir,
}

impl Proxy {
    /// As it comes, but for loopback, which it may reach.
    pub fn start() -> Self {
        Self::with(|_| {})
    }

    pub fn with(edit: impl FnOnce(&mut Settings)) -> Self {
        Self::at((Ipv4Addr::LOCALHOST, 0).into(), edit)
    }

    /// One that lets CONNECT go to these origins, and trusts their certificates.
    pub fn before(origins: &[&Origin], edit: impl FnOnce(&mut Settings)) -> Self {
        Self::before_ports(&ports(origins), edit)
    }

    /// The same, for whatever origins have these ports.
    pub fn before_ports(ports: &[u16], edit: impl FnOnce(&mut Settings)) -> Self {
        Self::with(|settings| {
            before(ports.iter().copied(), settings);
            edit(settings);
        })
    }

    /// The same, with a listener at `address` for connections that are led there.
    pub fn transparent(
        address: SocketAddr,
        origins: &[&Origin],
        edit: impl FnOnce(&mut Settings),
    ) -> Self {
        Self::at((Ipv4Addr::LOCALHOST, 0).into(), |settings| {
            before(ports(origins), settings);
            settings.listen.transparent = vec![address];
            edit(settings);
        })
    }

    pub fn at(listening: SocketAddr, edit: impl FnOnce(&mut Settings)) -> Self {
        Self::on(TempDir::new().expect("a directory"), (listening, &[]), edit)
    }

    /// One for which the listeners `own` are its own, too; the test keeps them, and sees who comes.
    pub fn owning(own: &[SocketAddr], edit: impl FnOnce(&mut Settings)) -> Self {
        let listening = ((Ipv4Addr::LOCALHOST, 0).into(), own);
        Self::on(TempDir::new().expect("a directory"), listening, edit)
    }

    /// Starts again, with the state that this one leaves.
    pub fn restart(mut self, edit: impl FnOnce(&mut Settings)) -> Self {
        self.stop();
        // The next writer of records waits for nobody.
        let Self { state, audit, .. } = self;
        drop(audit);
        Self::on(state, ((Ipv4Addr::LOCALHOST, 0).into(), &[]), edit)
    }

    fn on(
        state: TempDir,
        (listening, others): (SocketAddr, &[SocketAddr]),
        edit: impl FnOnce(&mut Settings),
    ) -> Self {
        let mut settings =
            Settings { state_dir: state.path().into(), workers: Some(2), ..Settings::default() };
        settings.egress.allow =
            vec!["127.0.0.0/8".parse().expect("a block"), "::1/128".parse().expect("a block")];
        settings.limits.drain_timeout = Duration::from_secs(2);
        // Reading the system's takes longer than most tests.
        settings.tls.roots = Roots::Bundled;
        edit(&mut settings);
        let listeners = Listeners::bind(&[listening]).expect("a free port");
        let transparent = &settings.listen.transparent;
        let redirect = RedirectKind::Routed(Arc::default());
        let transparent = Listeners::bind_transparent(transparent, redirect);
        let listeners = listeners.with(transparent.expect("a free port"));
        let admin = Listener::bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a free port");
        let admin_address = admin.address();
        let own = [&listeners.addresses(), &[admin_address][..], others].concat();
        let clock = ManualClock::starting_at(NOW);
        let ca = settings.ca(None);
        let components =
            build(&settings, own, ca.clone(), Arc::clone(&clock) as _).expect("sound settings");
        let admin = Admin::start(Some(admin), None, components.monitored_parts(NOW).into(), None)
            .expect("a thread");
        let server = Server::start(listeners, &components).expect("threads");
        let address = server.addresses()[0];
        let Components { store, audit, leaves, .. } = components;
        let (admin, server, settings) = (Some(admin), Some(server), Mutex::new(settings));
        Self {
            clock,
            address,
            admin,
            admin_address,
            store,
            audit,
            leaves,
            ca,
            server,
            settings,
            state,
        }
    }

    /// Goes on with other settings, as after a SIGHUP. With an error, they stay.
    pub fn try_change(&self, edit: impl FnOnce(&mut Settings)) -> Result<(), SetupErrors> {
        let mut running = self.settings.lock().expect("no panic while locked");
        let mut settings = running.clone();
        edit(&mut settings);
        let server = self.server.as_ref().expect("it serves");
        server.reload(settings.clone(), Some(settings.ca(None)))?;
        *running = settings;
        Ok(())
    }

    #[track_caller]
    pub fn change(&self, edit: impl FnOnce(&mut Settings)) {
        self.try_change(edit).expect("sound settings");
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn client(&self) -> Client {
        Client::connect(self.address)
    }

    pub fn admin_address(&self) -> SocketAddr {
        self.admin_address
    }

    /// What the admin listener answers.
    #[track_caller]
    pub fn admin(&self, path: &str) -> Response {
        Client::connect(self.admin_address).get(&format!("http://{}{path}", self.admin_address))
    }

    /// How a client speaks TLS that trusts the proxy's CA.
    pub fn trusted(&self, alpn: &[&str]) -> Arc<ClientConfig> {
        tls::trusting(&self.leaves.authority().bundle(), alpn)
    }

    /// A client inside an intercepted tunnel, which speaks HTTP/1.1.
    #[track_caller]
    pub fn https(&self, authority: &str) -> Client {
        let tunnel = self.client().tunnel(authority);
        tunnel.secured(self.trusted(&["http/1.1"]), tls::host(authority)).expect("a handshake")
    }

    /// A client inside an intercepted tunnel, which speaks HTTP/2.
    #[track_caller]
    pub fn h2(&self, authority: &str) -> H2 {
        let tunnel = self.client().tunnel(authority);
        H2::start(tunnel.into_tcp(), self.trusted(&["h2"]), authority)
    }

    /// One GET by a connection of its own.
    #[track_caller]
    pub fn get(&self, url: &str) -> Response {
        self.client().get(url)
    }

    #[track_caller]
    pub fn exchange(&self, method: &str, url: &str, fields: &str) -> Response {
        self.client().exchange(method, url, fields)
    }

    pub fn stats(&self) -> Stats {
        self.store.stats()
    }

    /// The denial records so far, as they stand in the files.
    #[track_caller]
    pub fn records(&self) -> Vec<Value> {
        self.lines().into_iter().filter(|line| line.get("reason").is_some()).collect()
    }

    /// All lines of the log so far, in the order of the chain. Read again where a file was closed or
    /// compressed between listing and reading.
    #[track_caller]
    pub fn lines(&self) -> Vec<Value> {
        loop {
            match read_lines(&self.audit_dir()) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                lines => return lines.expect("the files of records"),
            }
        }
    }

    pub fn audit_dir(&self) -> PathBuf {
        self.state.path().join("audit")
    }

    /// The only record.
    #[track_caller]
    pub fn record(&self) -> Value {
        let mut records = self.records();
        assert_eq!(records.len(), 1, "{records:#?}");
        records.remove(0)
    }

    /// Stops as on SIGTERM: what is under way may end.
    pub fn stop(&mut self) {
        let admin = self.admin.take();
        admin.iter().for_each(Admin::note_draining);
        if let Some(server) = self.server.take() {
            server.stop();
        }
        // The last totals are its last line.
        self.audit.close().expect("the disk answers");
    }
}

fn read_lines(dir: &Path) -> io::Result<Vec<Value>> {
    let mut all = Vec::new();
    for segment in segment::list(dir)? {
        let mut lines = segment.lines()?;
        loop {
            match lines.next()? {
                FoundLine::Line(line) => all.push(serde_json::from_slice(line).expect("a record")),
                FoundLine::Rest(rest) => panic!("a torn record: {}", String::from_utf8_lossy(rest)),
                FoundLine::End => break,
            }
        }
    }
    Ok(all)
}
