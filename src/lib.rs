//! **courtesy** is a crawler politeness proxy: a forward HTTP proxy that takes the origin and the
//! agent from each request, looks up what the origin's robots.txt allows that agent (RFC 9309),
//! answers 403 itself where the path is disallowed, forwards the rest, and writes one audit record
//! per denial.
//!
//! # The layers
//!
//! A module names only modules on layers below its own, or to its left on its own layer.
//! `tests/architecture` checks the source.
//!
//! ```text
//! 4  program   config  admin  server  cli  main          builds the parts; reads files, environment, signals
//! 3  proxy     proxy                                     the life of a request
//! 2  edges     runtime  engine  clients  ca  audit  pace  egress  name_server  store  watch  one kind of I/O each
//! 1  policy    policy                                    what a robots.txt means at a time       pure
//! 0  types     types  robots                             names, times, the file itself           pure
//! ```
//!
//! | module | content |
//! | --- | --- |
//! | [`types`] | origin, agent token, timestamp, glob, the problem types with their texts, text made fit to show |
//! | [`robots`] | a crate of its own, `crates/robots`: a robots.txt, its groups and patterns, the most specific rule; profiles (dialects as one table of knobs), what a fetch without a file means |
//! | [`policy`] | the state machine of RFC 9309, decisions with their basis, exemptions, the table of reasons; the names of profiles and what records say of one |
//! | [`runtime`] | clock (the only reader of it), timers, locks, counters, histograms, files, secret files, TLS cryptography |
//! | [`engine`] | what several proxies share: an engine in memory, or a Redis or Valkey server |
//! | [`clients`] | admission of clients: addresses, users and passwords, limits per client, memory of bodies |
//! | [`ca`] | the local certificate authority: files, rotation, a leaf for each intercepted host |
//! | [`audit`] | the denial record, its chain, its files, its writer thread; evidence; readers: filter, verify, replay, report |
//! | [`pace`] | when a request may start: the delays, concurrency and holds of an origin, the limits of an address; its lanes are pure |
//! | [`egress`] | connections to origins: DNS, address policy, parent proxies, TLS, HTTP/1.1, HTTP/2, pool |
//! | [`name_server`] | the name server of a sealed run, and the virtual addresses of names there |
//! | [`store`] | what is known of each origin; robots.txt fetches, one at a time per origin and agent, and the common copy; memory and disk |
//! | [`watch`] | notices of robots.txt files that changed, of which the recently allowed requests that they would deny are counted: the gate samples allowed requests for it; and the counts of what is asked of each site |
//! | [`proxy`] | the path of a request: read, decide, respond or forward |
//! | [`config`] | the settings and their diagnostics |
//! | [`admin`] | health, readiness and metrics on their own listener, and who may see the console there (its pages: `cli/console/`); the control socket |
//! | [`server`] | listeners, workers, reload, drain |
//! | [`cli`] | one file or folder for each subcommand; a sealed run in `cli/run/sealed/` |
//!
//! A bound that is no setting stands beside its use, with its unit and its source.
//!
//! # The path of one request
//!
//! ```text
//! server              accept, admission, limits
//! proxy
//!   protocol          HTTP/1, HTTP/2, TLS or SOCKS5, by the first bytes
//!   connection        the client's connection: one request at a time, passed to a Service
//!     framing         a head, read strictly: none that could be read in two ways
//!   Proxy::handle     (proxy/handle.rs)
//!     destination     absolute-form, CONNECT, or a request inside one → Destination
//!     clients         407, or the client of the request and the memory it may take
//!     decision        User-Agent → agent, profile, mode (rules)
//!                     store.lookup(origin)  ── due? one fetch, the others wait ──▶ state.after(result)
//!                     policy::decide       ── disallow ─▶ Denial ─▶ audit.write ─▶ Recorded<Denial>
//!     pace            Permit → Turn, after a wait, or NoTurn → 429 or 503
//!     forward         Permit, Turn → egress (a parent proxy, if one is set) → response, streamed
//!     response        403 and the proxy's other responses
//! ```
//!
//! A CONNECT becomes a value first (`proxy/connect/`). What runs inside an intercepted one re-enters
//! the same `handle`, on a connection whose scope is that one origin. For a client of SOCKS5
//! (`proxy/socks.rs`) or of a transparent listener (`proxy/connect/transparent.rs`) the CONNECT is made
//! here (`proxy/connect/transparent.rs`).
//!
//! # Invariants
//!
//! 1. No request reaches an origin without a `Permit`, which only `proxy/decision/gate.rs` can make. It
//!    owns the target it was granted for; what was checked is what is sent. None is sent without a
//!    `Turn`, which only `pace` can make.
//! 2. No denial without its record: it is with the operating system before the 403 is sent. Only
//!    `proxy/decision/enforce.rs` turns a `Denial` into a `Recorded` one, which alone has a response.
//! 3. A decision is data, verdict and basis; the response, the record and the terminal print it.
//! 4. Parsing and matching never fail and take time in proportion to the file and the path.
//! 5. At most one fetch of a robots.txt per origin and agent is under way; it outlives the client that
//!    caused it, unless others wait for its place, and it never goes through the proxy itself. One agent's
//!    answers decide for no other; the common copy, fetched as this program alone, may.
//! 6. Every queue, body, redirect chain, cache and wait is bounded, by a constant or by a setting.
//! 7. Only `proxy/response/mod.rs` makes the proxy's responses, only [`config`] knows the file
//!    format, only [`runtime::clock`] reads the clock.
//! 8. Addresses are judged after resolution, and the connection goes to the address that was judged.
#![forbid(unsafe_code)]
pub mod admin;
pub mod audit;
pub mod ca;
pub mod cli;
pub mod clients;
pub mod config;
pub mod egress;
pub mod engine;
pub mod name_server;
pub mod pace;
pub mod policy;
pub mod proxy;
pub use courtesy_robots as robots;
pub mod runtime;
pub mod server;
pub mod store;
pub mod types;
pub mod watch;
