//! Long histories with a second reader: RocksDB, too, reads the files that crashes leave of Esker's
//! databases.

use esker_peer::{RocksDb, require};
use esker_stress::histories::{HistoryParameters, run};
use esker_testkit::seed::for_each_seed;

#[test]
fn rocksdb_reads_what_a_crash_leaves_as_esker_does() {
    let Some(()) = require("the library of RocksDB 11.8.1", RocksDb::available()) else { return };
    let program = env!("CARGO_BIN_EXE_esker-reader").into();
    let parameters = HistoryParameters {
        operations: 300,
        crashes: 6,
        second_reader: Some((program, 1)),
        ..HistoryParameters::default()
    };
    for_each_seed("rocksdb_reads_what_a_crash_leaves", 4, |seed, _| {
        let report =
            run(&HistoryParameters { seed, ..parameters.clone() }).unwrap_or_else(|why| panic!("{why}"));
        assert!(report.second_readings > 0, "{report}");
    });
}
