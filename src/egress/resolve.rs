//! Names to addresses, through the system's resolver: each name is asked for once at a time, kept
//! briefly, bounded in look-ups under way, with a deadline of its own. What comes back is judged by
//! the caller.
//!
//! `getaddrinfo` tells no TTL, so every answer is kept for the same time: floor and ceiling are one.
//! It cannot be interrupted either. A look-up goes on when nobody waits for it any more, holds its
//! place until it ends, and leaves its answer to those who ask next.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lru::LruCache;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;

use super::error::{Error, Failure};
use super::hosts_file;
use crate::clock;
use crate::limits::{
    DNS_ADDRESSES_MAX, DNS_CACHE_ENTRIES, DNS_LOOKUPS_MAX, DNS_NEGATIVE_TTL, DNS_TIMEOUT, DNS_TTL,
};

type Answer = Result<Vec<IpAddr>, Error>;

/// A look-up under way, or over: what it found.
type LookUp = watch::Receiver<Option<Answer>>;

/// How a name is looked up: waits, and may wait long.
type System = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;

pub struct Resolver {
    system: Arc<System>,
    names: Arc<Mutex<Names>>,
    places: Arc<Semaphore>,
    deadline: Duration,
}

struct Names {
    kept: LruCache<Box<str>, Kept>,
    under_way: HashMap<Box<str>, LookUp>,
}

struct Kept {
    answer: Answer,
    until: Instant,
}

impl Resolver {
    pub fn new() -> Self {
        Self::over(ask_system, DNS_LOOKUPS_MAX, DNS_TIMEOUT)
    }

    /// Names as `system` tells them, so many at once.
    pub(super) fn over(
        system: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static,
        places: usize,
        deadline: Duration,
    ) -> Self {
        let entries = NonZeroUsize::new(DNS_CACHE_ENTRIES).expect("a bound above zero");
        let names = Names { kept: LruCache::sparse(entries), under_way: HashMap::new() };
        Self {
            system: Arc::new(system),
            names: Arc::new(Mutex::new(names)),
            places: Arc::new(Semaphore::new(places)),
            deadline,
        }
    }

    /// The addresses of `name`, at least one.
    pub async fn resolve(&self, name: &str) -> Answer {
        if let Some(answer) = lock(&self.names).kept(name) {
            return answer;
        }
        match timeout(self.deadline, self.ask(name)).await {
            Ok(answer) => answer,
            Err(_) => Err(self.late(name)),
        }
    }

    async fn ask(&self, name: &str) -> Answer {
        let under_way = lock(&self.names).joined(name);
        let mut look_up = match under_way {
            Some(look_up) => look_up,
            None => {
                let places = Arc::clone(&self.places);
                let place = places.acquire_owned().await.expect("the semaphore is never closed");
                // Somebody who waited for a place, too, may have had one earlier.
                if let Some(answer) = lock(&self.names).kept(name) {
                    return answer;
                }
                self.look_up(name, place)
            }
        };
        let found = look_up.wait_for(Option::is_some).await.ok().and_then(|answer| answer.clone());
        found.unwrap_or_else(|| {
            Err(Error::new(Failure::Dns, format!("the look-up of {name} ended without an answer")))
        })
    }

    /// Begins to look `name` up, or joins those who do.
    fn look_up(&self, name: &str, place: OwnedSemaphorePermit) -> LookUp {
        let mut names = lock(&self.names);
        if let Some(look_up) = names.joined(name) {
            return look_up;
        }
        let (sender, look_up) = watch::channel(None);
        names.under_way.insert(name.into(), look_up.clone());
        let (system, names, name) = (Arc::clone(&self.system), Arc::clone(&self.names), Box::from(name));
        tokio::task::spawn_blocking(move || {
            let answer = answer(&name, system(&name));
            lock(&names).end(&name, answer.clone());
            drop(place);
            // Nobody may be waiting any more.
            let _ = sender.send(Some(answer));
        });
        look_up
    }

    /// Nothing came in time. Where the look-up is still under way, who asks next need not wait as long.
    fn late(&self, name: &str) -> Error {
        let mut names = lock(&self.names);
        let Self { deadline, .. } = self;
        if !names.under_way.contains_key(name) {
            let detail = format!("too many look-ups are under way: none of {name} began within {deadline:?}");
            return Error::new(Failure::DnsTimeout, detail);
        }
        let error =
            Error::new(Failure::DnsTimeout, format!("looking up {name} took longer than {deadline:?}"));
        names.keep(name, Err(error.clone()));
        error
    }
}

impl std::fmt::Debug for Resolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resolver").field("places", &self.places).finish_non_exhaustive()
    }
}

impl Names {
    fn kept(&mut self, name: &str) -> Option<Answer> {
        let now = clock::monotonic();
        self.kept.get(name).filter(|kept| now < kept.until).map(|kept| kept.answer.clone())
    }

    fn keep(&mut self, name: &str, answer: Answer) {
        let length = if answer.is_ok() { DNS_TTL } else { DNS_NEGATIVE_TTL };
        self.kept.put(name.into(), Kept { answer, until: clock::monotonic() + length });
    }

    /// The look-up of `name` under way. One that its runtime dropped before it began is none.
    fn joined(&self, name: &str) -> Option<LookUp> {
        self.under_way.get(name).filter(|look_up| look_up.has_changed().is_ok()).cloned()
    }

    fn end(&mut self, name: &str, answer: Answer) {
        self.under_way.remove(name);
        self.keep(name, answer);
    }
}

fn lock(names: &Mutex<Names>) -> MutexGuard<'_, Names> {
    names.lock().unwrap_or_else(PoisonError::into_inner)
}

fn answer(name: &str, found: io::Result<Vec<IpAddr>>) -> Answer {
    let mut addresses =
        found.map_err(|error| Error::new(Failure::Dns, format!("cannot resolve {name}: {error}")))?;
    addresses.truncate(DNS_ADDRESSES_MAX);
    addresses.dedup();
    if addresses.is_empty() {
        return Err(Error::new(Failure::Dns, format!("{name} has no address")));
    }
    Ok(addresses)
}

/// A dot at the end asks for the absolute name: it skips the resolver's search list, and a public name
/// never becomes a cluster-internal one. Single labels have no such form, and the machine's own list
/// does not know it.
fn ask_system(name: &str) -> io::Result<Vec<IpAddr>> {
    let ask = |name: String| Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect());
    if !name.contains('.') {
        return ask(name.to_owned());
    }
    match hosts_file::listed(name) {
        listed if listed.is_empty() => ask(format!("{name}.")),
        listed => Ok(listed),
    }
}
