//! A glob matches as the definition says, every choice of a star tried; a host pattern matches one host
//! or whole labels below one.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| courtesy_fuzz::properties::glob::holds(bytes));
