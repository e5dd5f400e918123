//! The differential suite. A payload is raw bytes: of a client, or of an origin. What left the
//! proxy is read again by a strict parser of the suite's own, and what that reader sees must be
//! what the proxy decided. One module for each theme, one table in each; `{o}` stands for the origin.

mod case;
mod chunks;
mod codings;
mod connect;
mod fields;
mod hops;
mod hosts;
mod lengths;
mod line_ends;
mod pipelines;
mod recorder;
mod replies;
mod strict;
mod targets;
mod versions;
