//! Any bytes in the place of lines of a log are read or refused, never a panic; and of a line that was
//! written, no byte can be changed, taken away or added without its hash telling.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| courtesy_fuzz::properties::line::holds(bytes));
