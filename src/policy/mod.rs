//! Decides what a robots.txt means. Pure: time is an argument, nothing here does I/O, logs or
//! fails.
//!
//! [`access`] describes how a fetch ended, [`state`] what is known of an origin after it, and
//! [`profile`] holds, as one table of knobs, everything on which the published texts differ.
//! [`change`] classifies what a new file changes. [`exemption`] holds the operator's exemptions
//! from all of them. [`reason`] is the table of the reasons for denials.

pub mod access;
pub mod change;
pub mod decision;
pub mod exemption;
pub mod limits;
pub mod mode;
pub mod pace;
pub mod profile;
pub mod reason;
pub mod state;
