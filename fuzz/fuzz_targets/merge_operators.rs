#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| esker_fuzz::merge_operators::run(data));
