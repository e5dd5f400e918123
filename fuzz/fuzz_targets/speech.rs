//! What the HTTP engine can read as a request is taken for HTTP from its first bytes on; what begins
//! as a TLS handshake is TLS; one is never taken for the other.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| courtesy_fuzz::properties::speech::holds(bytes));
