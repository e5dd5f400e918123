//! Panics: counted for the metrics, and logged with their place. A runtime keeps one to the
//! task it happens in, so that it costs one connection; the hook is the one place that sees them all.

use std::panic::{PanicHookInfo, set_hook};
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::error;

/// Of the process, as the hook is.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// From now on, panics are counted and logged.
pub fn watch() {
    set_hook(Box::new(note));
}

/// How many there have been.
pub fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

/// A formatted message may contain bytes from a client, so only literal messages are logged.
fn note(panic: &PanicHookInfo<'_>) {
    COUNT.fetch_add(1, Ordering::Relaxed);
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    let thread = std::thread::current();
    let said = panic.payload().downcast_ref::<&str>().copied().unwrap_or("its text is not shown");
    error!(
        place,
        thread = thread.name(),
        "a panic, which is a fault of courtesy: please report it ({said})"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_counted() {
        let before = count();
        watch();
        let panicked = std::panic::catch_unwind(|| panic!("on purpose"));
        drop(std::panic::take_hook());
        assert!(panicked.is_err() && count() > before);
    }
}
