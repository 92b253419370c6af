use super::*;

fn cell(kind: EngineKind, digest: u64, cut: bool) -> TableCell {
    let sample = Sample { operations: 10, seconds: 1.0, digest, cut, ..Sample::default() };
    TableCell { kind, samples: vec![sample], missing: None }
}

fn suite(cells: Vec<TableCell>) -> SuiteReport {
    let info = StepInfo::new("core/readrandom".to_owned(), "readrandom", "get", "");
    SuiteReport { id: SuiteId::Core, title: String::new(), rows: vec![TableRow { info, cells }] }
}

#[test]
fn an_engine_that_reads_something_else_is_found_out() {
    let (esker, rocksdb) = (EngineKind::Esker, EngineKind::Rocksdb);
    assert_eq!(
        suite(vec![cell(esker, 7, false), cell(rocksdb, 8, false)]).disagreements(),
        ["core/readrandom: Esker and RocksDB have read different values"]
    );
    assert!(suite(vec![cell(esker, 7, false), cell(rocksdb, 7, false)]).disagreements().is_empty());
    // A step that was cut has read less; a step without comparable reads has digest 0.
    assert!(suite(vec![cell(esker, 7, false), cell(rocksdb, 8, true)]).disagreements().is_empty());
    assert!(suite(vec![cell(esker, 7, false), cell(rocksdb, 0, false)]).disagreements().is_empty());
}

#[test]
fn on_a_busy_machine_cpu_time_is_compared() {
    let sample = |seconds, cpu_seconds| Sample { operations: 10, seconds, cpu_seconds, ..Sample::default() };
    let cell = |kind, sample| TableCell { kind, samples: vec![sample], missing: None };
    let cells = vec![cell(EngineKind::Esker, sample(9.0, 1.0)), cell(EngineKind::Rocksdb, sample(3.0, 2.0))];
    let mut report = Report {
        date: String::new(),
        command: String::new(),
        machine: Machine { cpus: 2, load_before: "1.90 9 9".to_owned(), ..Machine::default() },
        plan: BenchPlan {
            num: 1,
            full: false,
            step_seconds: 1.0,
            settings: crate::engine::RivalSettings {
                write_buffer_bytes: 1,
                cache_bytes: 1,
                bloom_bits: 10.0,
                map_bytes: 1,
                synced: false,
            },
            in_memory: false,
        },
        pairs: 1,
        partial: false,
        problems: Vec::new(),
        engines: Vec::new(),
        suites: vec![suite(cells)],
        seconds: 0.0,
    };
    let row = report.suites[0].rows[0].clone();
    assert!((report.ratio(&row, EngineKind::Rocksdb).unwrap().median - 1.0 / 3.0).abs() < 1e-9);
    report.machine.load_before = "2.10 0 0".to_owned();
    assert!((report.ratio(&row, EngineKind::Rocksdb).unwrap().median - 2.0).abs() < 1e-9);
}
