#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| esker_fuzz::cache_dump::run(data));
