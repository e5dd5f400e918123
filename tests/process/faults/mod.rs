//! What goes wrong in a hostile world, row by row of the fault plan, with the real program: origins that
//! never end, names that lie, addresses that nobody may reach. `README.md` beside this file says which
//! test shows which row, here and elsewhere.
//!
//! | variable | without it | what it does |
//! | --- | --- | --- |
//! | `COURTESY_TEST_REQUESTS` | 3000 | how many random and mutated requests are sent |
//! | `COURTESY_TEST_SEED` | 1 | from which number they are drawn |
//! | `COURTESY_TEST_ROTATIONS` | 20 | how often the log is rotated under load |
//! | `COURTESY_TEST_ORIGINS` | 2000 | how many origins are visited beside the hostile ones |
//! | `COURTESY_TEST_STALLED` | 100 | how much of a crowd of stalled requests there is, in hundredths |
//! | `COURTESY_TEST_NO_NAMESPACES` | unset | passes over, and says so, what needs name spaces of its own |

mod world;

mod addresses;
mod egress;
mod memory;
mod pace;
mod random;
mod resolver;
mod rotated;
mod shortage;
