//! A redirect that is followed leads to a plain web address: what is asked, of whom and with which
//! `Host` agree with one another and with the URL that is written down, which leads to itself again.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| courtesy_fuzz::properties::redirect::holds(bytes));
