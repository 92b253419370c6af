//! A machine without RocksDB: the tests of this program skip what they cannot compare, and pass.

use esker_testkit::TempDir;
use std::process::{Command, Stdio};

#[test]
fn every_test_here_passes_on_a_machine_without_rocksdb() {
    let empty = TempDir::new("without-rocksdb");
    let tests = std::env::current_exe().unwrap();
    let output = Command::new(tests)
        .args(["--nocapture", "--skip", "every_test_here_passes_on_a_machine_without_rocksdb"])
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
