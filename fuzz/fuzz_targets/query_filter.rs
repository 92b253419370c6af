#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| esker_fuzz::query_filter::run(data));
