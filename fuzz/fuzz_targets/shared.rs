//! A value of the shared engine, whatever is in its place, is read within its bound or refused, never
//! a panic; what is read is written again as it was meant.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| courtesy_fuzz::properties::shared::holds(bytes));
