//! A record, whatever strangers' texts are in it, is one line of JSON in canonical form (RFC 8785), says
//! the same when it is read, and its hash is that of its text; the chain holds from line to line.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| courtesy_fuzz::properties::record::holds(bytes));
