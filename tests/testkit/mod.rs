//! What the tests of several binaries share: the three parties of a test in one process, the program
//! as a process, files made to be hard, networks of their own.

pub mod hostile;
mod inside;
pub mod parties;
pub mod processes;
pub mod spacing;
pub mod stored;

pub use inside::inside;
