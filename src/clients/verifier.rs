//! Verifies credentials: from a cache if they were verified before, otherwise by hashing, for which
//! only a few run at a time and never on a thread that serves requests.

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use http::HeaderMap;
use lru::LruCache;
use sha2::Sha256;
use tokio::time::timeout;
use tracing::{info, warn};
use ulid::Ulid;

use super::attempts::Attempts;
use super::credentials::Credentials;
use super::semaphore::{FairSemaphore, SemaphorePermit};
use super::{RejectReason, User, Users};
use crate::runtime::clock;
use crate::runtime::lock::Lock;
use crate::types::client_key::ClientKey;

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
