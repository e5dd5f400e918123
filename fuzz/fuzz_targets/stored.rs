//! A row of the store and a capture, whatever is in their place, are read or refused, never a panic;
//! what is read is written again as it was meant, and names only digests that are digests.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| courtesy_fuzz::properties::stored::holds(bytes));
