//! Header fields about limits. The property is beside the code that it is about.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ratekeeper_headers::fuzz_one(data));
