//! The robots.txt engine against the conformance cases beside this file; see `README.md`.

mod access;
mod cases;
mod pace;
mod real;
mod schedule;
mod written;
