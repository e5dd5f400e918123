//! Origins over TLS, good and hostile, on real sockets: who is believed, which version of HTTP is
//! spoken, and what becomes of a request when an origin gives up on it.

mod authority;
mod by_parent;
mod certificates;
mod fetching;
mod handshakes;
mod http2;
mod refusals;
mod streaming;
mod support;
mod terms;
