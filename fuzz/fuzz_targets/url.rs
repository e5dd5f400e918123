//! An absolute URL has one origin: written out it is the same again, its host is made of what host
//! names are made of, and a browser's parser, where it takes the URL too, sees the same host and port.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| courtesy_fuzz::properties::url::holds(bytes));
