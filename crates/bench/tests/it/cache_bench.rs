//! `cache_bench`, run in this process.

use esker_bench::{BenchOutput, BenchStop, cache_bench};
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

#[derive(Clone, Default)]
struct Text(Arc<Mutex<Vec<u8>>>);

impl Write for Text {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn run(line: &str) -> Result<String, String> {
    let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    let text = Text::default();
    match cache_bench(&arguments, &BenchOutput::new(text.clone(), io::sink())) {
        Ok(()) => Ok(String::from_utf8(text.0.lock().unwrap().clone()).unwrap()),
        Err(BenchStop::Failed(why)) => Err(why),
        Err(BenchStop::OutputClosed) => panic!("nobody closes the output"),
    }
}

#[test]
fn every_type_of_cache_does_its_operations() {
    for flags in [
        "-cache_type=lru_cache",
        "-cache_type=fixed_hyper_clock_cache -gather_stats -gather_stats_sleep_ms=1",
        "-cache_type=auto_hyper_clock_cache -lean -strict_capacity_limit",
        "-guarded -nohistograms -ops_per_guard=10",
    ] {
        let line = format!("-threads=3 -ops_per_thread=2000 -cache_size=1000000 -value_bytes=1000 {flags}");
        let text = run(&line).unwrap();
        for part in ["Population complete\n", "Number of threads   : 3\n", "Rough parallel ops/sec = "] {
            assert!(text.contains(part), "{line}: {text}");
        }
        assert!(text.contains("Max key             : 4000\n"), "{text}");
        assert_eq!(
            text.contains("Operation latency (ns):\nCount: 6000 "),
            !line.contains("nohist"),
            "{text}"
        );
    }
}

#[test]
fn unknown_types_are_refused() {
    assert!(run("-cache_type=tape").unwrap_err().contains("--cache_type: 'tape' is not supported"));
    assert!(run("-help").unwrap().contains("-resident_ratio"));
}
