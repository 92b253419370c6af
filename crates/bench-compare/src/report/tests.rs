use super::*;

fn cell(kind: Kind, digest: u64, cut: bool) -> Cell {
    let sample = Sample { operations: 10, seconds: 1.0, digest, cut, ..Sample::default() };
    Cell { kind, samples: vec![sample], missing: None }
}

fn suite(cells: Vec<Cell>) -> SuiteReport {
    let info = StepInfo::new("core/readrandom".to_owned(), "readrandom", "get", "");
    SuiteReport { id: SuiteId::Core, title: String::new(), rows: vec![Row { info, cells }] }
}

#[test]
fn an_engine_that_reads_something_else_is_found_out() {
    let (esker, rocksdb) = (Kind::Esker, Kind::Rocksdb);
    assert_eq!(
        suite(vec![cell(esker, 7, false), cell(rocksdb, 8, false)]).disagreements(),
        ["core/readrandom: Esker and RocksDB have read different values"]
    );
    assert!(suite(vec![cell(esker, 7, false), cell(rocksdb, 7, false)]).disagreements().is_empty());
    // One that was cut has read less; one that reads nothing that could be compared says 0.
    assert!(suite(vec![cell(esker, 7, false), cell(rocksdb, 8, true)]).disagreements().is_empty());
    assert!(suite(vec![cell(esker, 7, false), cell(rocksdb, 0, false)]).disagreements().is_empty());
}
