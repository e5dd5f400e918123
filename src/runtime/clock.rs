//! The only module that reads the clock; all other code is given the time.

use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use http::HeaderValue;
use rustix::time::{ClockId, clock_gettime};
use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;

use crate::types::timestamp::Timestamp;

/// Where Linux names the boot (random(4)).
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// By how much a time namespace shifts its clocks.
const TIME_OFFSETS: &str = "/proc/self/timens_offsets";

/// A trait, so that tests can advance thirty days at once.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The date, for policy and records.
    fn wall(&self) -> Timestamp;

    /// How far the clock was advanced by hand, which the monotonic clock was not.
    fn advanced(&self) -> Duration {
        Duration::ZERO
    }
}

/// The system's clock.
#[derive(Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the date")]
    fn wall(&self) -> Timestamp {
        moment(SystemTime::now())
    }
}

/// The system's date as a timestamp. Dates before 1970 become the first one. Those after 9999 go on in
/// the last century before: time has to pass, or nothing that is known would ever run out.
fn moment(date: SystemTime) -> Timestamp {
    const CENTURY: u64 = 36_524 * 24 * 60 * 60 * 1000;
    let since_epoch = date.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let millis = u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX);
    Timestamp::from_millis(match millis.checked_sub(Timestamp::LAST.millis()) {
        None | Some(0) => millis,
        Some(beyond) => Timestamp::LAST.millis() - CENTURY + beyond % CENTURY,
    })
}

/// rustls reads the date here, because its own implementation panics before 1970.
impl TimeProvider for SystemClock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_millis(self.wall().millis())))
    }
}

/// The current value of a `Date` header (RFC 9110 §6.6.1), of the clock that all else goes by.
pub fn http_date() -> HeaderValue {
    thread_local!(static LAST: RefCell<Option<(u64, HeaderValue)>> = const { RefCell::new(None) });
    let now = SystemClock.wall();
    let second = now.millis() / 1000;
    LAST.with_borrow_mut(|last| match last {
        Some((of, value)) if *of == second => value.clone(),
        _ => last.insert((second, date_of(now))).1.clone(),
    })
}

fn date_of(moment: Timestamp) -> HeaderValue {
    let date = SystemTime::UNIX_EPOCH + Duration::from_millis(moment.millis());
    HeaderValue::try_from(httpdate::fmt_http_date(date)).expect("a date is ASCII")
}

/// A clock that only moves when it is advanced; for tests and for `courtesy demo`.
#[derive(Debug)]
pub struct ManualClock {
    start: Timestamp,
    millis: AtomicU64,
}

impl ManualClock {
    /// A clock that shows `moment` until it is advanced.
    pub fn starting_at(moment: Timestamp) -> Arc<Self> {
        Arc::new(Self { start: moment, millis: AtomicU64::new(moment.millis()) })
    }

    /// Advances the clock.
    pub fn advance(&self, by: Duration) {
        let millis = self.wall().plus(by).millis();
        self.millis.store(millis, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn wall(&self) -> Timestamp {
        Timestamp::from_millis(self.millis.load(Ordering::SeqCst))
    }

    fn advanced(&self) -> Duration {
        self.wall().since(self.start)
    }
}

/// Reads the monotonic clock, to measure durations; never for policy.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the one place that reads the monotonic clock"
)]
pub fn monotonic() -> Instant {
    Instant::now()
}

/// The same in whole microseconds since an unknown moment, for what reads it twice in each request:
/// at half the instructions.
pub fn monotonic_micros() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let below_second = time.tv_nsec.unsigned_abs() / 1000;
    time.tv_sec.unsigned_abs() * 1_000_000 + below_second
}

/// The time since the boot, which no date moves, and which goes on while the machine sleeps.
#[derive(Clone, Debug)]
pub struct Boottime {
    /// The boot; `None` where the system does not name it.
    pub boot: Option<String>,
    /// Microseconds, by the machine's own count: a container may have been given another
    /// (time_namespaces(7)).
    pub micros: u64,
}

impl Boottime {
    /// The time now.
    pub fn now() -> Self {
        static BOOT: OnceLock<(Option<String>, i64)> = OnceLock::new();
        let (boot, shift) = BOOT.get_or_init(|| {
            let boot = std::fs::read_to_string(BOOT_ID).ok();
            let boot = boot.map(|it| it.trim().to_owned()).filter(|it| !it.is_empty());
            let offsets = std::fs::read_to_string(TIME_OFFSETS).unwrap_or_default();
            (boot, boottime_shift(&offsets))
        });
        let time = clock_gettime(ClockId::Boottime);
        let micros = time.tv_sec * 1_000_000 + time.tv_nsec / 1000 - shift;
        Self { boot: boot.clone(), micros: micros.max(0).unsigned_abs() }
    }
}

/// How far the clock of this time namespace is ahead of the machine's, in microseconds.
fn boottime_shift(offsets: &str) -> i64 {
    let shift = |line: &str| {
        let mut words = line.split_whitespace();
        let is_boottime = matches!(words.next(), Some("boottime" | "7"));
        let seconds: i64 = words.next()?.parse().ok()?;
        let nanos: i64 = words.next()?.parse().ok()?;
        is_boottime.then_some(seconds * 1_000_000 + nanos / 1000)
    };
    offsets.lines().find_map(shift).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn f16_dates_that_http_cannot_write_are_such_that_it_can() {
        let after = |seconds: u64| moment(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(
            moment(SystemTime::UNIX_EPOCH - Duration::from_secs(1)),
            Timestamp::from_millis(0)
        );
        assert_eq!(date_of(after(253_402_300_799)), "Fri, 31 Dec 9999 23:59:59 GMT");
        let (beyond, later) = (after(253_402_300_800), after(253_402_387_200));
        assert_eq!(date_of(beyond), "Mon, 01 Jan 9900 00:00:00 GMT");
        assert_eq!(later.since(beyond), Duration::from_hours(24), "time passes");
        assert_eq!(date_of(after(0)), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(date_of(after(784_111_777)), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(Timestamp::LAST.plus(Duration::MAX), Timestamp::LAST);
        assert_eq!(
            serde_json::from_str::<Timestamp>("18446744073709551615").unwrap(),
            Timestamp::LAST
        );
        assert_eq!(serde_json::to_string(&Timestamp::from_millis(7)).unwrap(), "7");
    }

    proptest! {
        #[test]
        fn f16_no_date_of_the_system_panics(seconds in any::<i64>(), by in any::<u64>()) {
            let distance = Duration::from_secs(seconds.unsigned_abs());
            let epoch = SystemTime::UNIX_EPOCH;
            let date = if seconds < 0 { epoch.checked_sub(distance) } else { epoch.checked_add(distance) };
            let moment = moment(date.unwrap_or(epoch));
            let later = moment.plus(Duration::from_millis(by));
            prop_assert!(moment <= later && later <= Timestamp::LAST);
            for moment in [moment, later] {
                date_of(moment);
                UnixTime::since_unix_epoch(Duration::from_millis(moment.millis()));
            }
        }
    }
}
