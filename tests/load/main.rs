//! The load plan, row by row, with the real program: crowds of clients that do nothing, speak slowly or
//! read slowly, and all kinds of trouble at once for as long as one likes. What a row costs is printed;
//! what is asserted is a bound on memory, and ratios within one run.
//!
//! | variable | without it | what it makes larger |
//! | --- | --- | --- |
//! | `COURTESY_TEST_SOAK` | 15s | how long mixed traffic and faults go on (`l9_…`); `1h` for the real one |
//! | `COURTESY_TEST_IDLE` | 1000 | clients that do nothing (`l1_…`); 10000 for the real one |
//! | `COURTESY_TEST_READERS` | 100 | clients that read 1 kB a second (`l8_…`); 1000 for the real one |
//! | `COURTESY_TEST_TUNNELS` | 200 | tunnels by a parent proxy at a time; 10000 for the real one |
//! | `COURTESY_TEST_PROGRAM` | the one built with the tests | names another build, as of a release |
//!
//! The real ones want the release build, and `--nocapture` shows how it goes:
//! `COURTESY_TEST_PROGRAM=$(packaging/compile) COURTESY_TEST_SOAK=1h cargo test --test load -- --nocapture l9`.

#[allow(dead_code, unused_imports, reason = "the other binaries need more of it")]
#[path = "../testkit/mod.rs"]
mod testkit;

mod gauge;
mod group;
mod idle;
mod ordinary;
mod parent_tunnels;
mod site;
mod slow_heads;
mod slow_readers;
mod soak;
mod stalled;
mod turn;
