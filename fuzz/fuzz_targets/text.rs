//! What strangers wrote is shown in one bounded line without anything that moves a cursor or turns the
//! writing, and the bytes can be told from it again.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| courtesy_fuzz::properties::text::holds(bytes));
