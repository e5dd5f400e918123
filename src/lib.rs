//! **courtesy** is a crawler politeness proxy: a forward HTTP proxy that takes the origin and the
//! agent from each request, asks what the origin's robots.txt says to that agent (RFC 9309),
//! answers 403 itself where it says no, forwards the rest, and leaves one audit record per denial.
//!
//! # The map
//!
//! Five floors. A module names only what stands on floors below its own, or before it on its own
//! floor; `tests/architecture.rs` reads the source and says where that is not so.
//!
//! ```text
//! 4  program   config  admin  server  cli  main        puts it together; reads files, environment, signals
//! 3  proxy     proxy                                   the life of one request
//! 2  edges     clock  deadline  shutdown  heap  carried  numbers  latency  listener  files  private  suites
//!              clients  ca  egress  evidence  fetch  store  audit  review   one thing each
//! 1  policy    policy                                  what a robots.txt means now               pure
//! 0  words     limits  moment  text  glob  robots  origin  agent       what things are called    pure
//! ```
//!
//! | where | what |
//! | --- | --- |
//! | [`limits`] | every bound that is no setting, with unit and source |
//! | [`moment`] | a date that the pure floors can be given |
//! | [`text`], [`glob`] | strangers' text made fit to show; patterns over a User-Agent |
//! | [`robots`] | what a robots.txt says: parse, patterns, groups, the most specific rule. A crate of its own in all but name |
//! | [`origin`] | scheme, host and port, normalised: the key of everything that is known |
//! | [`agent`] | the product token in a User-Agent |
//! | [`policy`] | profiles (the dialects as one table of knobs), the state machine, decisions with their basis, exemptions |
//! | [`clock`] | the only reader of the clock |
//! | `deadline` | an end of waiting that is put off again and again |
//! | [`shutdown`] | the end of the proxy, as it is heard of |
//! | [`carried`] | a request while it is passed from hand to hand |
//! | `numbers` | what is counted, each worker for itself |
//! | [`listener`] | TCP sockets that are bound first and listen later |
//! | [`latency`] | how long things took, counted in buckets |
//! | [`files`] | files that an operator names, read whole and bounded |
//! | [`private`] | files that hold secrets |
//! | [`suites`] | the cryptography of TLS, for both sides |
//! | [`clients`] | who may use the proxy: addresses, users and their passwords; how much each may have at a time, turns, the memory of requests |
//! | [`ca`] | the local certificate authority: its files, its rotation, a leaf for each intercepted host |
//! | [`egress`] | the way out: resolve, judge addresses, connect, TLS, HTTP/1.1 or HTTP/2, pool |
//! | [`evidence`] | what records can be checked against: files and captures by SHA-256, WARC |
//! | [`fetch`] | one robots.txt: redirects, deadline, size limit, decoding |
//! | [`store`] | what is known of each origin, and what single agents were told; one fetch that all wait for, then one for each agent |
//! | [`audit`] | the denial record, its chain, its files and its writer; notices of robots.txt files that changed (`watch`) |
//! | [`review`] | reads the records: filter, follow, verify, decide again, report, archive their evidence |
//! | [`proxy`] | target, gate, forward, respond: the path of a request |
//! | [`config`] | the settings, and every complaint about them |
//! | [`admin`] | health, readiness, metrics and settings, told on a listener of their own; panics; the control socket |
//! | [`server`] | listeners, who accepts, workers, other settings while it runs, drain |
//! | [`cli`] | one file for each subcommand |
//!
//! # The path of one request
//!
//! ```text
//! server      accept, who is let in, limits
//!   proxy::wire   one request at a time, and none that could be read in two ways
//!   proxy::handle
//!     clients     407, or who asks and how much of it is under way
//!     target      absolute-form, CONNECT, or what runs inside one → Destination
//!     rules       User-Agent → agent, profile, mode
//!     gate        store.known(origin)  ── due? one fetch, the others wait ──▶ state.after(result)
//!                 policy::decide       ── disallow ─▶ audit.write ─▶ respond::denied
//!     forward     Permit → egress → response, streamed
//! ```
//!
//! A CONNECT becomes a value first (`proxy/connect.rs`). What runs inside an intercepted one re-enters
//! the same `handle`, by a channel whose scope is that one origin.
//!
//! # Invariants
//!
//! 1. No request reaches an origin without a `Permit`, which only `proxy/gate.rs` can make. It owns
//!    the target it was granted for; what was checked is what is sent.
//! 2. No denial without its record: it is with the operating system before the 403 is sent.
//! 3. A decision is data, verdict and basis; the response, the record and the terminal print it.
//! 4. Parsing and matching never fail and take time in proportion to the file and the path.
//! 5. At most one fetch of a robots.txt per origin and agent is under way, one per origin until the origin
//!    tells agents apart; it outlives the client that caused it, unless others wait for its place, and it
//!    never goes through the proxy itself. What one agent was told decides for no other.
//! 6. Every queue, body, redirect chain, cache and wait is bounded, in [`limits`] or by a setting.
//! 7. Only `proxy/respond.rs` makes the proxy's responses, only [`config`] knows the file format, only
//!    [`clock`] reads the clock.
//! 8. Addresses are judged after resolution, and the connection goes to the address that was judged.
#![forbid(unsafe_code)]
pub mod admin;
pub mod audit;
pub mod ca;
pub mod cli;
pub mod clients;
pub mod config;
pub mod egress;
pub mod limits;
pub mod policy;
pub mod proxy;
pub mod robots;
pub mod runtime;
pub mod server;
pub mod store;
pub mod types;
pub mod watch;
