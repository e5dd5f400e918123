//! What the proxy takes for the target of a request is what a strict reader sees in the same bytes:
//! never another scheme, host, port or path. And a target, written out, is the same target again.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| courtesy_fuzz::properties::target::holds(bytes));
