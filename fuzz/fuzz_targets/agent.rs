//! The product token is a word that a robots.txt can name, it stands in the User-Agent as it is, it
//! names itself, and a plain product at the beginning is always it.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| courtesy_fuzz::properties::agent::holds(bytes));
