//! What every part that does I/O stands on: clock, timers, locks, counters, histograms, files.

pub mod box_future;
pub mod clock;
pub mod counters;
pub mod crypto_provider;
pub(crate) mod delegate_io;
pub mod files;
pub mod histogram;
pub mod lazy_timer;
pub mod limits;
pub mod listener;
pub mod lock;
pub mod secret_file;
