//! The token-bucket server's lines. The property is beside the code that it is about.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ratekeeper_protocol::bucket::fuzz_one(data));
