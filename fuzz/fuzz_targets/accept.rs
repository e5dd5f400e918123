//! The form of an answer is one that the client names with a weight above zero, and none that it names
//! has more; JSON where it names none.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| courtesy_fuzz::properties::accept::holds(bytes));
