//! What outlives the process, shown with real processes: `courtesy serve` is killed, restarted at
//! other dates, put on a disk that fills up, and shown more origins than it has memory for. What it
//! answered, wrote and asked of the sites is held against what it must.
//!
//! | variable | without it | what it makes larger |
//! | --- | --- | --- |
//! | `COURTESY_TEST_KILLS` | 3 | how many times the proxy is killed under load |
//! | `COURTESY_TEST_ORIGINS` | 10000 | how many origins are visited |

mod disk;
mod hang;
mod killed;
mod origins;
mod pace;
mod readers;
mod restarts;
mod store;
