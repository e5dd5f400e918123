//! Any text is a configuration or is refused with a place; the effective settings, printed, are a
//! configuration that comes to the same settings.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| courtesy_fuzz::properties::config::holds(bytes));
