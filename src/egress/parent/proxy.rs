//! A parent proxy: its address and credentials, and what the attempts to use it have shown.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tracing::{error, info, warn};

use super::address::{ParentAddress, ParentCredentials, ParentScheme, ParentTarget};
use super::connect::{self, HTTPS_PORT};
use super::socks;
use crate::clients::FairSemaphore;
use crate::egress::error::{Error, Failure, Fault, ParentFailure, TunnelFailure};
use crate::runtime::clock::monotonic;
use crate::runtime::lock::Lock;
use crate::types::loop_token::LoopToken;

/// Connections that may be made at a time by a parent, where no setting says so: half of the
/// default of `robots.max_fetches`.
const DIALS_MAX: usize = 128;

/// A parent proxy.
#[derive(Debug)]
pub struct Parent {
    pub address: ParentAddress,
    credentials: Option<ParentCredentials>,
    /// Permits for connections that are being made by it, for requests of clients.
    pub(in crate::egress) dials: Arc<FairSemaphore>,
    /// The same, for fetches of robots.txt: a parent that does not answer leaves the other half of
    /// them to other hosts, and no burst of requests holds them up.
    pub(in crate::egress) robots_dials: Arc<FairSemaphore>,
    health: Lock<Health>,
    /// Whether the last attempt failed.
    is_down: AtomicBool,
    /// Whether it refused the name and password when it was last used.
    refuses_credentials: AtomicBool,
    /// Whether it has answered anything else than that it refuses them.
    has_taken_credentials: AtomicBool,
    /// Whether it has opened a tunnel to a port that is not that of https.
    has_opened_ports: AtomicBool,
    /// What it refuses, in words, and when it did so last.
    refusal: Lock<Option<(String, Instant)>>,
    /// Whether it has opened no tunnel since.
    is_stopped: AtomicBool,
    failures: AtomicU64,
}

/// A parent's state, for metrics and readiness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentStats {
    /// Scheme, host and port.
    pub parent: String,
    /// Whether the last attempt succeeded; true before the first.
    pub is_up: bool,
    /// Whether it refused the name and password when it was last used.
    pub refuses_credentials: bool,
    /// What it refuses whatever is asked for, in words.
    pub refusal: Option<Refusal>,
    /// Attempts that failed.
    pub failures: u64,
}

/// What a parent refuses whatever is asked for: the settings are wrong, here or there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub reason: String,
    /// Whether it did so within the last minute, has opened no tunnel since, and no other way leads
    /// out.
    pub stops_all: bool,
}

/// For so long after a refusal of its only parent the proxy is not ready. After that it is asked
/// again: without requests it would never learn that the parent serves.
const REFUSAL_KEPT: Duration = Duration::from_mins(1);

impl Parent {
    pub(super) fn new(address: ParentAddress, credentials: Option<ParentCredentials>) -> Self {
        Self {
            address,
            credentials,
            dials: FairSemaphore::new(DIALS_MAX),
            robots_dials: FairSemaphore::new(DIALS_MAX),
            health: Lock::default(),
            is_down: AtomicBool::new(false),
            refuses_credentials: AtomicBool::new(false),
            has_taken_credentials: AtomicBool::new(false),
            has_opened_ports: AtomicBool::new(false),
            refusal: Lock::default(),
            is_stopped: AtomicBool::new(false),
            failures: AtomicU64::new(0),
        }
    }

    /// Whether connections by `other` are those by this one.
    pub fn is_same(&self, other: &Self) -> bool {
        self.address == other.address && self.credentials == other.credentials
    }

    /// Changes how many connections are made by it at a time, of each kind.
    pub(super) fn resize_dials(&self, max: usize) {
        self.dials.resize(max);
        self.robots_dials.resize(max);
    }

    /// The name and password that it is sent.
    pub(super) const fn credentials(&self) -> Option<&ParentCredentials> {
        self.credentials.as_ref()
    }

    /// Whether an attempt may begin at `now`.
    ///
    /// # Errors
    ///
    /// [`Failure::Parent`] during its back-off: it failed, and is not asked for each request.
    pub fn admit(&self, now: Instant) -> Result<(), Error> {
        let admitted = self.health.lock().admit(now);
        admitted.map_err(|wait| {
            // Retry-After counts whole seconds.
            let seconds = Duration::from_secs(wait.as_secs() + 1);
            let reason = format!("it failed, and is tried again within {seconds:?}");
            let failed =
                TunnelFailure { retry_after: Some(seconds), ..TunnelFailure::parent(reason) };
            self.failed(Failure::Parent, failed)
        })
    }

    /// Has the parent, to which `stream` leads, connect to `target` within `limit`. `loop_token`
    /// goes with a CONNECT.
    ///
    /// # Errors
    ///
    /// [`Failure::Parent`] or [`Failure::ParentTimeout`], whatever has failed, and what is at
    /// fault.
    pub async fn open(
        &self,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
        target: ParentTarget<'_>,
        loop_token: Option<&LoopToken>,
        limit: Duration,
    ) -> Result<(), (Error, Fault)> {
        let credentials = self.credentials.as_ref();
        let opened = async {
            match self.address.scheme() {
                ParentScheme::Http | ParentScheme::Https => {
                    connect::open(stream, target, credentials, loop_token).await
                }
                ParentScheme::Socks5 | ParentScheme::Socks5h => {
                    socks::open(stream, target, credentials).await
                }
            }
        };
        match timeout(limit, opened).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(tunnel_failure)) => {
                let fault = tunnel_failure.fault;
                Err((self.failed(Failure::Parent, tunnel_failure), fault))
            }
            Err(_) => {
                let reason = format!("no answer within {limit:?}");
                Err((self.error(Failure::ParentTimeout, &reason), Fault::Unknown))
            }
        }
    }

    /// A failure of this parent, with its reason.
    pub fn error(&self, failure: Failure, reason: &str) -> Error {
        self.failed(failure, TunnelFailure::parent(reason))
    }

    /// A failure of this parent, as it happened.
    pub(super) fn failed(&self, failure: Failure, tunnel_failure: TunnelFailure) -> Error {
        let TunnelFailure { reason, status, retry_after, .. } = tunnel_failure;
        let parent = self.address.to_string();
        let detail = format!("the parent proxy {parent}: {reason}");
        let failed = ParentFailure { parent, status, retry_after };
        Error { parent: Some(Box::new(failed)), ..Error::new(failure, detail) }
    }

    /// Notes that it has answered, by CONNECT or SOCKS; a change is logged.
    pub fn note_answer(&self) {
        self.note_taken_credentials();
        self.note_reached();
    }

    /// Notes that it has opened a tunnel to a port.
    pub fn note_tunnel(&self, port: u16) {
        self.note_answer();
        // Each tunnel does so, and workers share them.
        if self.is_stopped.load(Ordering::Relaxed) {
            self.is_stopped.store(false, Ordering::Relaxed);
        }
        if port != HTTPS_PORT && !self.has_opened_ports.load(Ordering::Relaxed) {
            self.has_opened_ports.store(true, Ordering::Relaxed);
            *self.refusal.lock() = None;
        }
    }

    /// Notes that it refuses a port; a change is logged. Once it has opened such a tunnel, a refusal
    /// is of one host: no request is to change the readiness.
    fn note_refused_port(&self, error: &Error, now: Instant) {
        if self.has_opened_ports.load(Ordering::Relaxed) {
            return;
        }
        if self.note_refusal(error, now) {
            error!(parent = %self.address, "{error}");
        }
    }

    /// Whether it is the first.
    fn note_refusal(&self, error: &Error, now: Instant) -> bool {
        self.is_stopped.store(true, Ordering::Relaxed);
        self.refusal.lock().replace((error.detail.to_string(), now)).is_none()
    }

    /// Notes that it has taken a connection; a change is logged.
    pub fn note_reached(&self) {
        self.health.lock().succeeded();
        if self.is_down.swap(false, Ordering::Relaxed) {
            info!(parent = %self.address, "the parent proxy serves again");
        }
    }

    /// Notes that it has answered something else than that it refuses the credentials.
    pub(super) fn note_taken_credentials(&self) {
        // Each response does so, and workers share them.
        if !self.has_taken_credentials.load(Ordering::Relaxed) {
            self.has_taken_credentials.store(true, Ordering::Relaxed);
        }
        if self.refuses_credentials.load(Ordering::Relaxed) {
            self.refuses_credentials.store(false, Ordering::Relaxed);
            *self.refusal.lock() = None;
        }
    }

    /// Notes that it, or the origin behind it, refuses the credentials; a change is logged. Once it
    /// has taken them it is the origin's word: no site is to fill the log or to change the
    /// readiness.
    pub(super) fn note_refused_credentials(&self, error: &Error) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        if self.has_taken_credentials.load(Ordering::Relaxed) {
            return;
        }
        self.note_refusal(error, monotonic());
        if !self.refuses_credentials.swap(true, Ordering::Relaxed) {
            error!(parent = %self.address, "the parent proxy refuses the credentials: {error}");
        }
    }

    /// Notes that an attempt which began at `began` has failed; a change is logged.
    pub fn note_failure(&self, fault: Fault, error: &Error, (began, now): (Instant, Instant)) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        match fault {
            Fault::Unknown => return,
            Fault::Target => return self.note_answer(),
            Fault::Port => {
                self.note_answer();
                return self.note_refused_port(error, now);
            }
            Fault::Parent | Fault::Credentials => self.health.lock().failed(began, now),
        }
        let (refuses, parent) = (fault == Fault::Credentials, &self.address);
        let refused = self.refuses_credentials.swap(refuses, Ordering::Relaxed);
        if refuses {
            self.note_refusal(error, now);
        }
        let was_down = self.is_down.swap(true, Ordering::Relaxed);
        if refuses && !refused {
            error!(%parent, "the parent proxy refuses the credentials: {error}");
        } else if !refuses && !was_down {
            warn!(%parent, "the parent proxy fails: {error}");
        }
    }

    /// `is_only`: no other way leads out.
    pub(super) fn stats(&self, is_only: bool) -> ParentStats {
        let refusal = self.refusal.lock().as_ref().map(|(reason, at)| Refusal {
            reason: reason.clone(),
            stops_all: is_only
                && self.is_stopped.load(Ordering::Relaxed)
                && monotonic().saturating_duration_since(*at) < REFUSAL_KEPT,
        });
        ParentStats {
            refusal,
            parent: self.address.to_string(),
            is_up: !self.is_down.load(Ordering::Relaxed),
            refuses_credentials: self.refuses_credentials.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
        }
    }
}

// Whether a parent proxy serves, and when one that does not is tried again. Pure: times are
// arguments.

/// The wait after the first failure of a parent; it doubles with each one in a row.
const BACK_OFF_MIN: Duration = Duration::from_secs(1);

/// The longest wait between two attempts to use a parent that fails.
const BACK_OFF_MAX: Duration = Duration::from_secs(30);

/// What the attempts to use a parent have shown.
#[derive(Debug, Default)]
pub struct Health {
    /// Failures in a row. Attempts that were under way together count as one.
    failures: u32,
    failed_at: Option<Instant>,
    retry_at: Option<Instant>,
}

impl Health {
    /// Whether an attempt may begin. While the parent fails, one may at the end of each back-off.
    ///
    /// # Errors
    ///
    /// How long the back-off still lasts.
    pub fn admit(&mut self, now: Instant) -> Result<(), Duration> {
        match self.retry_at {
            Some(retry_at) if now < retry_at => Err(retry_at - now),
            Some(_) => {
                self.retry_at = Some(now + back_off(self.failures));
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// An attempt has reached the parent.
    pub fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// An attempt that began at `began` has failed because of the parent.
    pub fn failed(&mut self, began: Instant, now: Instant) {
        if self.failed_at.is_some_and(|at| began < at) {
            return;
        }
        self.failures = self.failures.saturating_add(1);
        self.failed_at = Some(now);
        self.retry_at = Some(now + back_off(self.failures));
    }
}

fn back_off(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    BACK_OFF_MIN.saturating_mul(1 << doublings).min(BACK_OFF_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_back_off_grows_from_one_second_to_thirty() {
        let (mut health, mut now) = (Health::default(), crate::runtime::clock::monotonic());
        for wait in [1, 2, 4, 8, 16, 30, 30] {
            assert_eq!(health.admit(now), Ok(()), "{wait}");
            health.failed(now, now);
            assert_eq!(health.admit(now), Err(wait * SECOND));
            now += wait * SECOND;
        }
    }

    #[test]
    fn one_attempt_at_a_time_looks_whether_the_parent_serves_again() {
        let (mut health, now) = (Health::default(), crate::runtime::clock::monotonic());
        health.failed(now, now);
        let later = now + SECOND;
        assert_eq!(health.admit(later), Ok(()));
        assert_eq!(health.admit(later), Err(SECOND));
        health.succeeded();
        for _ in 0..3 {
            assert_eq!(health.admit(later), Ok(()));
        }
    }

    #[test]
    fn attempts_that_were_under_way_together_count_as_one() {
        let (mut health, now) = (Health::default(), crate::runtime::clock::monotonic());
        for _ in 0..100 {
            health.failed(now, now + SECOND);
        }
        assert_eq!(health.admit(now + SECOND), Err(SECOND));
    }
}
