//! The compiled pattern decides as the naive matcher does, in RFC 9309's reading and in Google's; a URL
//! spelt in another way is decided alike; what decides about a beginning decides whatever follows.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| courtesy_fuzz::properties::pattern::holds(bytes));
