//! Verifies credentials: from a cache if they were verified before, otherwise by hashing, for which
//! only a few run at a time and never on a thread that serves requests.

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit, Mac};
use http::HeaderMap;
use lru::LruCache;
use sha2::Sha256;
use tokio::time::timeout;
use tracing::{info, warn};
use ulid::Ulid;

use super::password::Credentials;
use super::semaphore::{FairSemaphore, SemaphorePermit};
use super::{RejectReason, User, Users};
use crate::runtime::clock;
use crate::runtime::lock::Lock;
use crate::types::ClientKey;

/// Verifications of passwords under way: each takes some tens of milliseconds of a core and 19 MiB.
pub(crate) const VERIFICATIONS_MAX: usize = 2;

/// How many of them may be for addresses that have been wrong before: the rest is kept for the others.
pub(crate) const VERIFICATIONS_OF_FAILED_MAX: usize = 1;

/// How long a request waits for its turn to be verified.
const VERIFICATION_WAIT: Duration = Duration::from_secs(5);

/// Credentials that are known without a verification, right ones and wrong ones each.
const CREDENTIALS_KNOWN_MAX: NonZeroUsize = NonZeroUsize::new(1024).expect("not zero");

/// Credentials as the cache keeps them: an HMAC under a key that lives as long as the process.
type Digest = [u8; 32];

/// Verifies passwords, a bounded number at a time.
pub struct Verifier {
    keyed: Hmac<Sha256>,
    known: Lock<Known>,
    attempts: Lock<Attempts>,
    under_way: Arc<FairSemaphore>,
    /// A further limit for addresses that failed before.
    of_failed: Arc<FairSemaphore>,
}

/// Permission for one verification; released when dropped.
struct Turn {
    _of_failed: Option<SemaphorePermit>,
    _under_way: SemaphorePermit,
}

/// Results verified against one version of the users. Wrong credentials have a cache of their own,
/// so that they never displace right ones.
struct Known {
    of: Arc<Users>,
    right: LruCache<Digest, Arc<User>>,
    wrong: LruCache<Digest, ()>,
}

impl Known {
    fn of(users: &Arc<Users>) -> Self {
        let of = Arc::clone(users);
        Self {
            of,
            right: LruCache::new(CREDENTIALS_KNOWN_MAX),
            wrong: LruCache::new(CREDENTIALS_KNOWN_MAX),
        }
    }
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verifier").finish_non_exhaustive()
    }
}

impl Verifier {
    /// A verifier that remembers no password, with a key of its own.
    pub fn new() -> Self {
        // Each ULID has 80 random bits.
        let key = [Ulid::new().to_bytes(), Ulid::new().to_bytes()].concat();
        Self {
            keyed: Hmac::new_from_slice(&key).expect("a key of any length is one"),
            known: Lock::new(Known::of(&Arc::default())),
            attempts: Lock::new(Attempts::new()),
            under_way: FairSemaphore::new(VERIFICATIONS_MAX),
            of_failed: FairSemaphore::new(VERIFICATIONS_OF_FAILED_MAX),
        }
    }

    /// The user whose credentials are in `fields`.
    pub async fn authenticate(
        &self,
        users: &Arc<Users>,
        address: IpAddr,
        fields: &HeaderMap,
    ) -> Result<Arc<User>, RejectReason> {
        let credentials = Credentials::of(fields).ok_or(RejectReason::NoCredentials)?;
        let digest = self.digest(&credentials);
        if let Some(known) = self.known(users, &digest) {
            return known;
        }
        let key = ClientKey::of(address);
        self.may_try(&key)?;
        let turn = timeout(VERIFICATION_WAIT, self.turn(&key)).await;
        let Ok(turn) = turn else { return Err(RejectReason::TooManyVerifications) };
        // The same credentials, or others from this address, may have been verified meanwhile.
        if let Some(known) = self.known(users, &digest) {
            return known;
        }
        self.may_try(&key)?;
        let asked = Arc::clone(users);
        let verified = tokio::task::spawn_blocking(move || {
            // The work continues after the client has left, so the permit stays with it.
            let _turn = turn;
            asked.verify(&credentials)
        });
        let Ok(verified) = verified.await else {
            warn!("the verification of a password panicked");
            return Err(RejectReason::TooManyVerifications);
        };
        self.learn(users, digest, verified.as_ref());
        match verified {
            Some(user) => {
                locked(&self.attempts).succeeded(&key);
                Ok(user)
            }
            None => {
                locked(&self.attempts).failed(key, clock::monotonic());
                info!(client = %address, "wrong name or password");
                Err(RejectReason::WrongCredentials)
            }
        }
    }

    /// Takes permits, for a test in which none is left.
    #[cfg(test)]
    pub fn turns(&self, count: usize) -> Vec<SemaphorePermit> {
        (0..count).map(|_| self.under_way.try_acquire(&ClientKey::Proxy).unwrap()).collect()
    }

    /// The same for addresses that failed before.
    #[cfg(test)]
    pub fn turns_of_failed(&self, count: usize) -> Vec<SemaphorePermit> {
        (0..count).map(|_| self.of_failed.try_acquire(&ClientKey::Proxy).unwrap()).collect()
    }

    /// Waits for a permit. Addresses are served in turn, however many attempts each has queued, and
    /// those that failed before share only a part of the permits: guessing does not keep out new
    /// clients.
    async fn turn(&self, key: &ClientKey) -> Turn {
        loop {
            let has_failed = self.has_failed(key);
            let of_failed = if has_failed { Some(self.of_failed.acquire(key).await) } else { None };
            let under_way = self.under_way.acquire(key).await;
            // Another attempt from this address may have failed while this one waited.
            if has_failed || !self.has_failed(key) {
                return Turn { _of_failed: of_failed, _under_way: under_way };
            }
        }
    }

    fn has_failed(&self, key: &ClientKey) -> bool {
        locked(&self.attempts).has_failed(key, clock::monotonic())
    }

    fn may_try(&self, key: &ClientKey) -> Result<(), RejectReason> {
        match locked(&self.attempts).wait(key, clock::monotonic()) {
            Some(wait) => Err(RejectReason::TooManyAttempts(wait)),
            None => Ok(()),
        }
    }

    fn digest(&self, credentials: &Credentials) -> Digest {
        let mut keyed = self.keyed.clone();
        // A name contains no colon, so the split is unambiguous.
        keyed.update(credentials.name.as_bytes());
        keyed.update(b":");
        keyed.update(credentials.password.bytes());
        keyed.finalize().into_bytes().into()
    }

    /// The cached result under this version of the users. Results under another version are
    /// dropped.
    fn known(
        &self,
        users: &Arc<Users>,
        digest: &Digest,
    ) -> Option<Result<Arc<User>, RejectReason>> {
        let mut known = locked(&self.known);
        if !Arc::ptr_eq(&known.of, users) {
            *known = Known::of(users);
        }
        if let Some(user) = known.right.get(digest) {
            return Some(Ok(Arc::clone(user)));
        }
        known.wrong.get(digest).map(|()| Err(RejectReason::WrongCredentials))
    }

    fn learn(&self, users: &Arc<Users>, digest: Digest, verified: Option<&Arc<User>>) {
        let mut known = locked(&self.known);
        // The users may have been replaced during the verification.
        if !Arc::ptr_eq(&known.of, users) {
            return;
        }
        match verified {
            Some(user) => drop(known.right.put(digest, Arc::clone(user))),
            None => drop(known.wrong.put(digest, ())),
        }
    }
}

/// The cache stays correct even if a thread panicked while it held the lock.
fn locked<T>(remembered: &Lock<T>) -> MutexGuard<'_, T> {
    remembered.lock()
}

// Limits password guessing by address: after [`ATTEMPTS_FREE`] failed attempts, each further one
// doubles the wait before the next. The caller passes the time in.

/// Addresses whose failed attempts are remembered.
const ATTEMPTS_REMEMBERED_MAX: NonZeroUsize = NonZeroUsize::new(4096).expect("not zero");

/// Failed attempts of one address that cost it nothing: a slip of the finger is none.
pub(crate) const ATTEMPTS_FREE: u32 = 5;

/// How long an address waits after the first that does; it doubles each time.
const ATTEMPT_WAIT_MIN: Duration = Duration::from_secs(1);

/// The longest wait: clients with the right password at the same address wait, too.
const ATTEMPT_WAIT_MAX: Duration = Duration::from_secs(60);

/// After so long without a failed attempt, those before are forgotten.
const ATTEMPTS_FORGOTTEN_AFTER: Duration = Duration::from_secs(10 * 60);

/// The failed attempts of each client.
#[derive(Debug)]
pub struct Attempts(LruCache<ClientKey, Failures>);

#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    last: Instant,
}

impl Failures {
    /// The earliest time at which another attempt is verified.
    fn next(self) -> Instant {
        let beyond = self.count.saturating_sub(ATTEMPTS_FREE);
        if beyond == 0 {
            return self.last;
        }
        let wait = ATTEMPT_WAIT_MIN.saturating_mul(1 << (beyond - 1).min(16));
        self.last + wait.min(ATTEMPT_WAIT_MAX)
    }
}

impl Attempts {
    /// No failed attempts.
    pub fn new() -> Self {
        Self(LruCache::new(ATTEMPTS_REMEMBERED_MAX))
    }

    /// How long `key` has to wait before another of its attempts is verified.
    pub fn wait(&self, key: &ClientKey, now: Instant) -> Option<Duration> {
        let next = self.0.peek(key)?.next();
        (next > now).then(|| next - now)
    }

    /// Whether `key` has failed recently.
    pub fn has_failed(&self, key: &ClientKey, now: Instant) -> bool {
        let is_recent =
            |failures: &Failures| now.duration_since(failures.last) <= ATTEMPTS_FORGOTTEN_AFTER;
        self.0.peek(key).is_some_and(is_recent)
    }

    /// Notes a failed attempt.
    pub fn failed(&mut self, key: ClientKey, now: Instant) {
        let failures = self.0.get_or_insert_mut(key, || Failures { count: 0, last: now });
        if now.duration_since(failures.last) > ATTEMPTS_FORGOTTEN_AFTER {
            failures.count = 0;
        }
        *failures = Failures { count: failures.count.saturating_add(1), last: now };
    }

    /// Forgets the failed attempts of a client.
    pub fn succeeded(&mut self, key: &ClientKey) {
        self.0.pop(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::clock;

    fn key(last: u8) -> ClientKey {
        ClientKey::of([192, 0, 2, last].into())
    }

    #[test]
    fn guessing_waits_longer_each_time_and_no_other_address_does() {
        let (mut attempts, mut now) = (Attempts::new(), clock::monotonic());
        for _ in 0..ATTEMPTS_FREE {
            attempts.failed(key(1), now);
            assert_eq!(attempts.wait(&key(1), now), None);
        }
        let mut waits = Vec::new();
        for _ in 0..10 {
            attempts.failed(key(1), now);
            let wait = attempts.wait(&key(1), now).unwrap();
            waits.push(wait.as_secs());
            now += wait;
            assert_eq!(attempts.wait(&key(1), now), None);
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60, 60]);
        assert_eq!(attempts.wait(&key(2), now), None);
    }

    #[test]
    fn a_success_or_a_long_quiet_ends_it() {
        let (mut attempts, now) = (Attempts::new(), clock::monotonic());
        (0..=ATTEMPTS_FREE).for_each(|_| attempts.failed(key(1), now));
        attempts.succeeded(&key(1));
        assert_eq!(attempts.wait(&key(1), now), None);
        (0..100).for_each(|_| attempts.failed(key(1), now));
        let later = now + ATTEMPTS_FORGOTTEN_AFTER + Duration::from_secs(1);
        attempts.failed(key(1), later);
        assert_eq!(attempts.wait(&key(1), later), None);
    }
}
