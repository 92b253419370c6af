use super::*;
use crate::flags::Flags;
use crate::output::BenchOutput;
use esker::internals::env::{FileSystem, MemFs, MockClock};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

/// Runs `work` under a clock that only it moves.
fn measured(flags: &Flags, work: impl FnOnce(&mut Stats<'_>, &MockClock)) -> FinishedOperations {
    let (clock, output) = (MockClock::new(0), BenchOutput::new(std::io::sink(), std::io::sink()));
    clock.advance(Duration::from_secs(5));
    let sink = StatsSink {
        flags,
        clock: &clock,
        output: &output,
        interval: None,
        stats_interval: 0,
        property: &|_| None,
    };
    let mut stats = Stats::start(&sink, 0);
    work(&mut stats, &clock);
    stats.stop()
}

#[test]
fn the_result_line_is_rocksdbs() {
    let done = measured(&Flags::default(), |stats, clock| {
        clock.advance(Duration::from_micros(190_000));
        stats.finished(40_000, BenchOpKind::Write);
        stats.add_bytes(4_640_000);
    });
    assert_eq!(
        done.text("fillseq"),
        "fillseq      :       4.750 micros/op 210526 ops/sec 0.190 seconds 40000 operations;   23.3 MB/s\n"
    );
}

#[test]
fn messages_follow_the_rate() {
    let done = measured(&Flags::default(), |stats, clock| {
        clock.advance(Duration::from_micros(26_000));
        stats.finished(40_000, BenchOpKind::Read);
        stats.add_bytes(4_640_000);
        stats.add_message("(20000 of 20000 found)\n");
    });
    assert_eq!(
        done.text("readrandom"),
        "readrandom   :       0.650 micros/op 1538461 ops/sec 0.026 seconds 40000 operations;  170.2 MB/s (20000 of 20000 found)\n\n"
    );
    let done = measured(&Flags::default(), |stats, clock| {
        clock.advance(Duration::from_micros(2_500));
        stats.finished(10, BenchOpKind::Other);
    });
    assert_eq!(
        done.text("newiterator"),
        "newiterator  :     250.000 micros/op 4000 ops/sec 0.003 seconds 10 operations;\n"
    );
}

#[test]
fn a_benchmark_that_counts_nothing_is_one_operation() {
    let done = measured(&Flags::default(), |_, clock| clock.advance(Duration::from_millis(1250)));
    assert_eq!(
        done.text("compact"),
        "compact      : 1250000.000 micros/op 0 ops/sec 1.250 seconds 1 operations;\n"
    );
}

#[test]
fn threads_add_up_and_time_is_wall_time() {
    let one = |start: u64, finish: u64| FinishedOperations {
        start,
        finish,
        micros: finish - start,
        operations: 10,
        bytes: 5,
        ..FinishedOperations::default()
    };
    let mut all = FinishedOperations::default();
    all.merge(&one(100, 1_000_100));
    all.merge(&one(50, 2_000_050));
    assert_eq!((all.operations, all.bytes, all.micros), (20, 10, 3_000_000));
    assert_eq!(all.elapsed(), 2.0);
}

#[test]
fn histograms_follow_the_line() {
    let flags = Flags { histogram: true, ..Flags::default() };
    let done = measured(&flags, |stats, clock| {
        for _ in 0..3 {
            clock.advance(Duration::from_micros(2));
            stats.finished(1, BenchOpKind::Seek);
        }
    });
    let text = done.text("seekrandom");
    assert!(text.contains("\nMicroseconds per seek:\nCount: 3 Average: 2.0000  StdDev: 0.00\n"), "{text}");
    assert!(
        text.ends_with("(       1,       2 ]        3 100.000% 100.000% ####################\n\n"),
        "{text}"
    );
}

#[test]
fn repeats_are_combined_as_rocksdb_does() {
    let run = |micros: u64, bytes: u64| FinishedOperations {
        finish: micros,
        micros,
        operations: 1000,
        bytes,
        ..FinishedOperations::default()
    };
    let mut combined = Combined::default();
    combined.add(&run(1_000_000, 0));
    assert_eq!(combined.text("x") + &combined.final_text("x"), "");
    combined.add(&run(500_000, 0));
    assert_eq!(combined.text("x"), "x [AVG 2 runs] : 1500 (\u{b1} 979) ops/sec\n");
    assert_eq!(combined.interval_text("x"), "x [CI95 2 runs] : (521, 2479) ops/sec\n");
    assert_eq!(
        combined.final_text("x"),
        "\nx [AVG    2 runs] : 1500 (\u{b1} 979) ops/sec; 0.667 ms/op\nx [MEDIAN 2 runs] : 1500 ops/sec\n"
    );
    let mut combined = Combined::default();
    for micros in [1_000_000, 500_000, 250_000] {
        combined.add(&run(micros, 1 << 20));
    }
    assert_eq!(
        combined.final_text("x"),
        "\nx [AVG    3 runs] : 2333 (\u{b1} 1728) ops/sec; 0.429 ms/op;    2.3 (\u{b1} 1.7) MB/sec\n\
         x [MEDIAN 3 runs] : 2000 ops/sec;    2.0 MB/sec\n"
    );
}

#[test]
fn dates_are_civil() {
    assert_eq!(ctime(0), "Thu Jan  1 00:00:00 1970");
    assert_eq!(ctime(951_782_400), "Tue Feb 29 00:00:00 2000");
    assert_eq!(log_time(1_795_294_589), "2026/11/21-20:56:29 ");
}

#[test]
fn each_interval_is_a_line_of_its_own_operations() {
    let (fs, clock, output) =
        (MemFs::new(), MockClock::new(0), BenchOutput::new(std::io::sink(), std::io::sink()));
    let path = Path::new("/report.csv");
    fs.create_dir_if_missing(Path::new("/")).unwrap();
    let report = IntervalReport::default();
    report.add(10);
    let file = IntervalReport::create(&fs, path).unwrap();
    let header = fs.file_size(path).unwrap();
    let (stop, stopped) = mpsc::channel();
    std::thread::scope(|scope| {
        // An interval of no time: it writes line after line.
        let (report, clock, output) = (&report, &clock, &output);
        scope.spawn(move || report.run(file, Duration::ZERO, clock, &stopped, output));
        while fs.file_size(path).unwrap() < header + 12 {
            std::thread::yield_now();
        }
        drop(stop);
    });
    let text = String::from_utf8(read_all(&fs, path)).unwrap();
    assert!(text.starts_with("secs_elapsed,interval_qps\n0,10\n0,0\n0,0\n"), "{text}");
}

fn read_all(fs: &MemFs, path: &Path) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(fs.file_size(path).unwrap()).unwrap()];
    let read = fs.new_sequential_file(path).unwrap().read(&mut bytes).unwrap();
    bytes.truncate(read);
    bytes
}
