//! Suites with checked memory: RocksDB's `c_test` and the round trip from Python (`valgrind`),
//! grocksdb (`grocksdb-asan`), and a part of crate `rocksdb`'s (`rocksdb-0.25-valgrind`).
//!
//! In: the library, and clients compiled for it. Out: an error that holds the first reports of
//! AddressSanitizer or valgrind whose stacks lead through the library: accesses outside of what was
//! allocated, and memory that is lost. CI does not run them: each takes minutes.

use super::packages::{self, Package, ROCKSDB};
use super::{Clients, GROCKSDB_DIFFERS, c_test_binary, checked, fresh, grocksdb_test, said, tail};
use crate::commands::Outcome;
use std::path::Path;
use std::process::Command;

/// Options of valgrind. Memory that is still reachable at the end is no leak.
const VALGRIND: [&str; 5] = [
    "--leak-check=full",
    "--show-leak-kinds=definite,indirect",
    "--errors-for-leak-kinds=definite",
    "--num-callers=40",
    "--error-exitcode=99",
];

/// Runs both programs. Installs valgrind if it is missing.
pub(super) fn valgrind(clients: &Clients, kept: &Path) -> Outcome {
    checked(Command::new("bash").arg(clients.root.join(".ci/fetch-valgrind")))?;
    let work = |name: &str| fresh(&kept.join(name));

    let (sanitized, _) = c_test_binary(clients, "c_test-asan", &["-fsanitize=address"])?;
    let mut c_test = Command::new(sanitized);
    c_test.env("TEST_TMPDIR", work("asan")?).env("ASAN_OPTIONS", "detect_leaks=1");
    expect_clean("c_test under AddressSanitizer", &mut c_test)?;

    let (plain, _) = c_test_binary(clients, "c_test", &[])?;
    let mut c_test = Command::new("valgrind");
    c_test.args(VALGRIND).arg(plain).env("TEST_TMPDIR", work("c_test")?);
    expect_clean("c_test under valgrind", &mut c_test)?;

    // A `python3` on the PATH may be a script, whose interpreter valgrind would not follow.
    let found = checked(Command::new("python3").args(["-c", "import sys; print(sys.executable)"]))?;
    let interpreter = String::from_utf8_lossy(&found.stdout).trim().to_string();
    let mut python = Command::new("valgrind");
    python.args(VALGRIND).arg(interpreter).arg(clients.root.join("crates/capi/tests/smoke.py"));
    python
        .arg(clients.prefix()?.join("lib/librocksdb.so.11"))
        .arg(kept.join("python"))
        .env("PYTHONMALLOC", "malloc");
    expect_clean("the round trip from Python under valgrind", &mut python)
}

/// Runs grocksdb's suite under Go's AddressSanitizer, without its search for leaks. The library has
/// no checks of its own: the sanitizer checks what it allocates, frees, and passes to libc.
pub(super) fn grocksdb_asan(clients: &Clients, kept: &Path) -> Outcome {
    let mut test = grocksdb_test(clients, kept)?;
    // A test that fails without reports would hide one that fails because of them.
    let skipped = format!("^({})$", GROCKSDB_DIFFERS.join("|"));
    test.args(["-asan", "-skip", &skipped]).env("ASAN_OPTIONS", "detect_leaks=0");
    expect_clean("grocksdb under AddressSanitizer", &mut test)
}

/// Runs ten test binaries of crate `rocksdb` under valgrind. `test_db` and the tests of options,
/// which take the longest, are left out.
pub(super) fn rocksdb_valgrind(clients: &Clients, kept: &Path) -> Outcome {
    const BINARIES: &[&str] = &[
        "--test=test_column_family",
        "--test=test_compactionfilter",
        "--test=test_comparator",
        "--test=test_iterator",
        "--test=test_merge_operator",
        "--test=test_pinnable_slice",
        "--test=test_raw_iterator",
        "--test=test_sst_file_writer",
        "--test=test_transaction_db",
        "--test=test_write_batch",
    ];
    checked(Command::new("bash").arg(clients.root.join(".ci/fetch-valgrind")))?;
    let package = Package { name: "rocksdb-0.25-valgrind", arguments: BINARIES, ..ROCKSDB };
    let mut test = packages::command(clients, &package, kept)?;
    let runner = format!("valgrind {}", VALGRIND.join(" "));
    test.env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", runner);
    let output = test.output().map_err(|error| format!("cargo test: {error}"))?;
    judge("rocksdb 0.25 under valgrind", &said(&output))?;
    packages::verdict(&package, &said(&output))
}

/// Runs `command` and looks for reports about the library.
/// # Errors
/// A report leads through the library · the program was killed by a signal, or aborted, as it does
/// after a report of AddressSanitizer.
fn expect_clean(what: &str, command: &mut Command) -> Outcome {
    let output = command.output().map_err(|error| format!("{what}: {error}"))?;
    let text = said(&output);
    judge(what, &text)?;
    // Valgrind exits with 99 if it has any reports; only those about the library count.
    let is_ended = matches!(output.status.code(), Some(0 | 99));
    if is_ended { Ok(()) } else { Err(format!("{what}:\n{}", tail(&text, 60))) }
}

/// Prints the number of reports in `text`.
/// # Errors
/// The first report.
fn judge(what: &str, text: &str) -> Outcome {
    let reports = reports(text);
    println!("{what}: {} reports", reports.len());
    reports
        .first()
        .map_or(Ok(()), |first| Err(format!("{what}: {} reports, the first:\n{first}", reports.len())))
}

/// Valgrind's reports whose stacks lead through the library.
fn reports(text: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("==")?.split_once("== "));
    let lines: Vec<&str> = lines.map(|(_, line)| line.trim_end()).collect();
    let blocks = lines.split(|line| line.is_empty()).map(|block| block.join("\n"));
    let is_ours = |block: &String| {
        block.contains("at 0x") && ["esker", "rocksdb_"].iter().any(|name| block.contains(name))
    };
    blocks.filter(is_ours).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn reports_are_those_that_lead_through_the_library() {
        let text = "\
=== Test open
==7== Invalid read of size 4
==7==    at 0x1: esker::db::open (open.rs:1)
==7== 
==7== 8 bytes in 1 blocks are definitely lost in loss record 1 of 2
==7==    at 0x2: malloc
==7==    by 0x3: PyObject_New
==7== 
==7== ERROR SUMMARY: 2 errors from 2 contexts
";
        let reports = super::reports(text);
        assert_eq!(reports, ["Invalid read of size 4\n   at 0x1: esker::db::open (open.rs:1)"]);
    }
}
