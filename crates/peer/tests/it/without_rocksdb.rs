//! A machine without RocksDB: the tests of this program skip what they cannot compare, and pass.

use esker_testkit::TempDir;
use std::process::{Command, Stdio};

/// This test, and long ones that need no RocksDB.
const SKIPPED: [&str; 4] = [
    "every_test_here_passes_on_a_machine_without_rocksdb",
    "damaged_databases_are_read_rightly_or_refused_with_the_files_name",
    "golden_databases_open_and_go_back",
    "every_golden_database_is_downgraded_for_rocksdb_7_or_refused_by_name",
];

#[test]
fn every_test_here_passes_on_a_machine_without_rocksdb() {
    let empty = TempDir::new("without-rocksdb");
    let tests = std::env::current_exe().unwrap();
    let output = Command::new(tests)
        .arg("--nocapture")
        .args(SKIPPED.iter().flat_map(|name| ["--skip", name]))
        // `ldb` and `sst_dump` are found by PATH, the libraries in the directory of peers.
        .env("PATH", empty.path())
        .env("ESKER_PEERS_DIR", empty.path())
        .env_remove("ESKER_REQUIRE_PEERS")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let skipped = String::from_utf8_lossy(&output.stderr).matches("SKIPPED").count();
    assert!(output.status.success() && skipped > 0, "{skipped} tests were skipped:\n{text}");
}
