//! The proxy under test, put together as `courtesy serve` does it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use courtesy::clock::{Clock, ManualClock};
use courtesy::config::{Roots, Settings};
use courtesy::moment::Moment;
use courtesy::server::{Listeners, Server, assemble};
use courtesy::store::{Stats, Store};
use serde_json::Value;
use tempfile::TempDir;

use super::client::{Client, Response};

/// When every test begins: 2026-01-01.
pub const NOW: Moment = Moment::from_millis(1_767_225_600_000);

/// A running proxy with its own state; it stops and leaves nothing behind when dropped.
#[derive(Debug)]
pub struct Proxy {
    pub clock: Arc<ManualClock>,
    address: SocketAddr,
    store: Arc<Store>,
    server: Option<Server>,
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

    pub fn at(listening: SocketAddr, edit: impl FnOnce(&mut Settings)) -> Self {
        let state = TempDir::new().expect("a directory");
        let mut settings =
            Settings { state_dir: state.path().into(), workers: Some(2), ..Settings::default() };
        settings.egress.allow =
            vec!["127.0.0.0/8".parse().expect("a block"), "::1/128".parse().expect("a block")];
        settings.limits.drain_timeout = Duration::from_secs(2);
        // Reading the system's takes longer than most tests.
        settings.tls.roots = Roots::Bundled;
        edit(&mut settings);
        let listeners = Listeners::bind(&[listening]).expect("a free port");
        let clock = ManualClock::starting_at(NOW);
        let assembly = assemble(&settings, listeners.addresses(), Arc::clone(&clock) as Arc<dyn Clock>)
            .expect("sound settings");
        let server = Server::start(listeners, &assembly).expect("threads");
        let address = server.addresses()[0];
        Self { clock, address, store: Arc::clone(&assembly.store), server: Some(server), state }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn client(&self) -> Client {
        Client::connect(self.address)
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

    /// The denial records so far, as they stand in the file.
    #[track_caller]
    pub fn records(&self) -> Vec<Value> {
        let path = self.state.path().join("audit/denials.jsonl");
        let lines = std::fs::read_to_string(path).expect("the file of records");
        assert!(lines.is_empty() || lines.ends_with('\n'), "a torn record: {lines}");
        lines.lines().map(|line| serde_json::from_str(line).expect("a record")).collect()
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
        if let Some(server) = self.server.take() {
            server.stop();
        }
    }
}
