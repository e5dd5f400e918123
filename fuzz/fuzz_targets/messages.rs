//! Where a request ends is the same however its bytes come in, and for the HTTP engine, too.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| courtesy_fuzz::properties::messages::holds(bytes));
