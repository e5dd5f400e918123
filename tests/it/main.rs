//! The proxy over real sockets: scripted origins before it, raw clients behind it, and what crossed
//! the wires compared byte by byte. One module for each topic; `support` has the three parties.

#[path = "../hostile/mod.rs"]
mod hostile;
mod support;

mod access;
mod admin;
mod agents;
mod audit;
mod bodies;
mod changes;
mod classify;
mod clients;
mod connect;
mod connections;
mod crawlers;
mod egress;
mod evidence;
mod faults;
mod fields;
mod first_contact;
mod flights;
mod https;
mod lasting;
mod life;
mod metrics;
mod mint;
mod per_agent;
mod policy;
mod raw_bytes;
mod refusals;
mod reload;
mod resting;
mod sni;
mod spellings;
mod steps;
mod tls;
mod upgrades;
