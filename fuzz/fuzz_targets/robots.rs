//! Any bytes are a robots.txt: reading them never panics in any dialect, every line number is one of
//! the file's, and RFC 9309 decides as the naive reader does.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| courtesy_fuzz::properties::robots::holds(bytes));
