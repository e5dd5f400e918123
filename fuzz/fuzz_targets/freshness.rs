//! Any fields say how long an answer may be kept, or do not: `max-age=0` and `no-store` beside them
//! always count, an `Age` never lengthens anything, and a number of seconds is that number.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| courtesy_fuzz::properties::freshness::holds(bytes));
