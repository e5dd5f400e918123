//! `courtesy serve` as its operator has it: a process of its own, its flags, its log lines, and the
//! commands that ask it.

mod admin;
mod check;
mod descriptors;
mod expired;
mod health;
mod lifecycle;
mod logs;
mod manager;
mod metrics;
mod permissions;
mod probes;
mod reload;
mod sockets;
mod start;
mod store;
mod support;
