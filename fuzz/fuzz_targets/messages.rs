//! Where a request ends is the same however its octets come in, and for the HTTP engine, too.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| courtesy_fuzz::properties::messages::holds(octets));
