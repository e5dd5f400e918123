//! Names to addresses, through the system's resolver: each name is asked for once at a time, kept
//! briefly, bounded in look-ups under way, with a deadline of its own. What comes back is judged by
//! the caller.
//!
//! `getaddrinfo` tells no TTL, so every answer is kept for the same time: floor and ceiling are one.
//! It cannot be interrupted either. A look-up goes on when nobody waits for it any more, holds its
//! place until it ends, and leaves its answer to those who ask next. So clients take turns at the places,
//! and some are kept from each client. What the places were not enough for says nothing of a name.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lru::LruCache;
use tokio::sync::watch;
use tokio::time::timeout;

use super::asker::Asker;
use super::error::{Error, Failure};
use super::{hosts_file, shortage};
use crate::clients::{FairSemaphore, Permit};
use crate::runtime::clock;

/// How long an answer of the resolver is kept, floor and ceiling in one: getaddrinfo tells no TTL, so
/// short enough to follow a change, long enough that a crawl does not ask for each connection.
const DNS_TTL: Duration = Duration::from_secs(30);

/// How long a failed look-up is kept.
const DNS_NEGATIVE_TTL: Duration = Duration::from_secs(5);

/// Deadline of one look-up, waiting for a place included.
const DNS_TIMEOUT: Duration = Duration::from_secs(8);

/// Names kept by the resolver's cache.
const DNS_CACHE_ENTRIES: usize = 10_000;

/// Addresses used of one answer.
pub(crate) const DNS_ADDRESSES_MAX: usize = 16;

type Answer = Result<Vec<IpAddr>, Error>;

/// A look-up under way, or over: what it found.
type LookUp = watch::Receiver<Progress>;

/// How far a look-up has come.
#[derive(Clone, Debug)]
enum Progress {
    /// It waits for a thread.
    Waiting,
    Asking(Instant),
    Ended(Answer),
}

/// Of its deadline a look-up must have had so much, in tenths, before its name is said to be silent: the
/// rest was spent in queues of our own.
const SILENT_TENTHS: u32 = 9;

/// How a name is looked up: waits, and may wait long.
type System = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;

pub struct Resolver {
    system: Arc<System>,
    names: Arc<Mutex<Names>>,
    places: Arc<FairSemaphore>,
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
    /// With so many look-ups under way at once.
    pub fn new(places: usize) -> Self {
        Self::over(ask_system, places, DNS_TIMEOUT)
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
            places: FairSemaphore::new(places),
            deadline,
        }
    }

    /// Another number of look-ups under way at once, from now on.
    pub fn resize(&self, places: usize) {
        self.places.resize(places);
    }

    /// The addresses of `name`, at least one, looked up in `asker`'s turn.
    pub async fn resolve(&self, name: &str, asker: Asker<'_>) -> Answer {
        if let Some(answer) = lock(&self.names).kept(name) {
            return answer;
        }
        match timeout(self.deadline, self.ask(name, asker)).await {
            Ok(answer) => answer,
            Err(_) => Err(self.late(name)),
        }
    }

    async fn ask(&self, name: &str, asker: Asker<'_>) -> Answer {
        let under_way = lock(&self.names).joined(name);
        let mut look_up = match under_way {
            Some(look_up) => look_up,
            None => {
                let place = self.place(asker).await;
                // Another request that waited for a place may have had one earlier.
                if let Some(answer) = lock(&self.names).kept(name) {
                    return answer;
                }
                self.look_up(name, place)
            }
        };
        let ended = look_up.wait_for(|progress| matches!(progress, Progress::Ended(_))).await;
        match ended.as_deref() {
            Ok(Progress::Ended(answer)) => answer.clone(),
            _ => Err(Error::new(
                Failure::Exhausted,
                format!("the look-up of {name} ended without an answer: the proxy is stopping"),
            )),
        }
    }

    async fn place(&self, asker: Asker<'_>) -> Permit {
        match self.places.try_acquire(asker.client()) {
            Some(place) => place,
            None => {
                asker.is_queued();
                self.places.acquire(asker.client()).await
            }
        }
    }

    /// Begins to look `name` up, or joins those who do.
    fn look_up(&self, name: &str, place: Permit) -> LookUp {
        let mut names = lock(&self.names);
        if let Some(look_up) = names.joined(name) {
            return look_up;
        }
        let (sender, look_up) = watch::channel(Progress::Waiting);
        names.under_way.insert(name.into(), look_up.clone());
        let (system, names, name) =
            (Arc::clone(&self.system), Arc::clone(&self.names), Box::from(name));
        tokio::task::spawn_blocking(move || {
            let _ = sender.send(Progress::Asking(clock::monotonic()));
            let answer = answer(&name, system(&name));
            lock(&names).end(&name, answer.clone());
            drop(place);
            // Nobody may be waiting any more.
            let _ = sender.send(Progress::Ended(answer));
        });
        look_up
    }

    /// Nothing came in time. Where the look-up has had its time, who asks next need not wait as long.
    fn late(&self, name: &str) -> Error {
        let mut names = lock(&self.names);
        let Self { deadline, .. } = self;
        let since = names.joined(name).and_then(|look_up| look_up.borrow().since());
        let is_silent =
            since.is_some_and(|since| since.elapsed() >= *deadline * SILENT_TENTHS / 10);
        if !is_silent {
            let detail = format!(
                "too many look-ups are under way: that of {name} did not end within {deadline:?} \
                 (egress.max_lookups)"
            );
            return Error::new(Failure::Exhausted, detail);
        }
        let error = Error::new(
            Failure::DnsTimeout,
            format!("looking up {name} took longer than {deadline:?}"),
        );
        names.keep(name, Err(error.clone()));
        error
    }
}

impl Progress {
    /// Since when the system has been asked.
    const fn since(&self) -> Option<Instant> {
        match self {
            Self::Asking(since) => Some(*since),
            Self::Waiting | Self::Ended(_) => None,
        }
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

    /// What says nothing of the name is not kept.
    fn keep(&mut self, name: &str, answer: Answer) {
        if matches!(&answer, Err(error) if error.failure.is_ours()) {
            return;
        }
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
    let mut addresses = found.map_err(|error| {
        let failure = match () {
            () if shortage::look_up_is_exhausted(&error) => Failure::Exhausted,
            () if says_not_found(&error) => Failure::NameNotFound,
            () => Failure::Dns,
        };
        Error::new(failure, format!("cannot resolve {name}: {error}"))
    })?;
    addresses.truncate(DNS_ADDRESSES_MAX);
    addresses.dedup();
    if addresses.is_empty() {
        return Err(Error::new(Failure::Dns, format!("{name} has no address")));
    }
    Ok(addresses)
}

/// Whether it is `EAI_NONAME` of getaddrinfo(3), of which the standard library keeps the words alone: those of glibc
/// and of musl. Another resolver's failure is one of the kind [`Failure::Dns`].
fn says_not_found(error: &io::Error) -> bool {
    let words = error.to_string();
    ["Name or service not known", "Name does not resolve"]
        .iter()
        .any(|not_found| words.ends_with(not_found))
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
