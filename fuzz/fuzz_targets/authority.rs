//! The target of a CONNECT is host and port as a strict reader sees them, or refused; and so is the
//! authority of anything else. What is taken, written out, is the same again.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| courtesy_fuzz::properties::authority::holds(bytes));
