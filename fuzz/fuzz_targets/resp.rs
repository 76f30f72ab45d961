//! The requests of Redis clients. The property is beside the code that it is about.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ratekeeper_protocol::resp::fuzz_one(data));
