//! What starts the program, and what starts other programs beside it: the command line as a shell
//! sees it, clients and auditors that are not ours, what outlives a process, what goes wrong around
//! one. Each test has processes, ports and directories of its own.

#[allow(dead_code, unused_imports, reason = "the other binaries need more of it")]
#[path = "../testkit/mod.rs"]
mod testkit;

mod audit_cli;
mod audit_report;
mod ca;
mod check;
mod cli;
mod clients;
mod console;
mod demo;
mod doctor;
mod durability;
mod engine;
mod evidence;
mod faults;
mod machine;
mod naive_crawler;
mod pace_shown;
mod pages;
mod parent_variables;
mod personal_data;
mod publishing;
mod recipes;
mod replay;
mod run;
mod run_told;
mod sealed;
mod sealed_clients;
mod serve;
mod store;
mod transparent;
mod transparent_https;
mod transparent_loop;
mod users;
