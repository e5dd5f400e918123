//! The proxy over real sockets: scripted origins before it, raw clients behind it, and what crossed
//! the wires compared byte by byte. One module for each topic. What computes and needs no proxy is here
//! as well: the conformance cases, and properties of whatever reads strangers' bytes.

#[path = "../properties/mod.rs"]
mod properties;
#[allow(dead_code, unused_imports, reason = "the other binaries need more of it")]
#[path = "../testkit/mod.rs"]
mod testkit;

mod access;
mod admin;
mod agents;
mod audit;
mod bodies;
mod changes;
mod classify;
mod clients;
mod conformance;
mod connect;
mod connections;
mod corpus;
mod crawlers;
mod egress;
mod evidence;
mod faults;
mod fields;
mod first_contact;
mod flights;
mod http2_in_clear;
mod https;
mod idle_connections;
mod lasting;
mod life;
mod listener_tls;
mod metrics;
mod mint;
mod origins_tls;
mod own_listeners;
mod pace;
mod pace_address;
mod pace_clients;
mod pace_crawlers;
mod pace_holds;
mod pace_hour;
mod pace_neighbours;
mod pace_requests;
mod pace_told;
mod parent_failures;
mod parent_loops;
mod parents;
mod per_agent;
mod policy;
mod raw_bytes;
mod refusals;
mod reload;
mod robots_properties;
mod sites;
mod sni;
mod socks;
mod spellings;
mod steps;
mod tls;
mod transparent;
mod transparent_attacks;
mod transparent_connections;
mod transparent_parent;
mod upgrades;
mod wire;
