//! A body decodes to the same file in whatever pieces it comes, never to more than the limit, and to
//! what another reader of gzip makes of the whole of it.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| courtesy_fuzz::properties::decode::holds(bytes));
