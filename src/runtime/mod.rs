//! What every part that does I/O stands on: clock, timers, shutdown, histograms, files.

pub mod box_future;
pub mod clock;
pub mod crypto_provider;
pub mod files;
pub mod histogram;
pub mod lazy_timer;
pub mod limits;
pub mod listener;
pub mod lock;
pub mod secret_file;
pub mod sharded_counters;
pub mod shutdown;
