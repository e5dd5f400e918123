//! The address policy refuses just what the registries say, by a table of its own that is numbers and
//! not blocks; and an IPv4 address inside an IPv6 one is never permitted where it is refused by itself.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| courtesy_fuzz::properties::address::holds(bytes));
