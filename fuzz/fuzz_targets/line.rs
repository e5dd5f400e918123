//! Any octets in the place of lines of a log are read or refused, never a panic; and of a line that was
//! written, no octet can be changed, taken away or added without its hash telling.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| courtesy_fuzz::properties::line::holds(octets));
