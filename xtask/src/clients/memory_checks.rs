//! Suites with checked memory: RocksDB's `c_test` and the round trip from Python (`valgrind`),
//! grocksdb (`grocksdb-asan`), and some tests of crate `rocksdb` (`rocksdb-0.25-valgrind`).
//!
//! In: the library, and clients compiled for it. Out: an error with valgrind's first report whose
//! stack leads through the library, or with the end of the output if AddressSanitizer has a report
//! or the program fails. grocksdb's suite also fails if Esker leaves more objects than RocksDB. The
//! tools report accesses outside of allocated memory, and leaks. Valgrind also reports uses of
//! uninitialized values. CI does not run these suites: each takes minutes.

use super::packages::{self, Package, ROCKSDB};
use super::{Behind, Clients, GROCKSDB_DIFFERS, c_test_binary, checked, fresh, grocksdb_test, said, tail};
use crate::commands::Outcome;
use std::collections::BTreeMap;
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

/// Runs `c_test` under AddressSanitizer and under valgrind, and the round trip from Python under
/// valgrind. Installs valgrind if it is missing.
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

/// Functions whose results grocksdb's tests never destroy. The run with RocksDB misses them, for
/// one of two reasons. RocksDB's threads refer to a backup engine, so the engine does not count as
/// a leak. The stacks of RocksDB's calls of `strdup` cannot be unwound.
const UNDESTROYED: [&str; 4] = [
    "rocksdb_backup_engine_open_opts",
    "rocksdb_column_family_metadata_get_name",
    "rocksdb_sst_file_metadata_get_directory",
    "rocksdb_sst_file_metadata_get_relative_filename",
];

/// Runs grocksdb's suite under Go's AddressSanitizer, with Esker's library and with RocksDB's. The
/// libraries have no checks of their own: the sanitizer checks the memory that they allocate, free,
/// and pass to libc.
///
/// grocksdb's tests never destroy some of their objects. Esker may leave no object that RocksDB
/// does not leave: the counts are compared for each function of the C API that made the objects.
/// # Errors
/// A report that is no leak · a failed test · a function, not in [`UNDESTROYED`], of which Esker
/// leaves more objects than RocksDB. Esker's objects that another object refers to do not count.
pub(super) fn grocksdb_asan(clients: &Clients, kept: &Path) -> Outcome {
    let ours = grocksdb_sanitized(clients, Behind::Esker, kept)?;
    let theirs = grocksdb_sanitized(clients, Behind::RocksDb, kept)?;
    let allowed = |name: &str| theirs.get(name).map_or(0, |left| left[0] + left[1]);
    let is_more = |(name, left): &(&String, &[u64; 2])| {
        left[0] > allowed(name) && !UNDESTROYED.contains(&name.as_str())
    };
    match ours.iter().find(is_more) {
        None => Ok(()),
        Some((name, [count, _])) => {
            Err(format!("grocksdb: {count} objects of {name} are left, {} with RocksDB", allowed(name)))
        }
    }
}

/// Runs grocksdb's suite with the library `behind`, and returns the objects that are left.
fn grocksdb_sanitized(clients: &Clients, behind: Behind, kept: &Path) -> Result<Leaks, String> {
    let (root, dir, esker) = (clients.root.clone(), clients.dir.clone(), clients.esker.clone());
    let clients = Clients { root, dir, behind, esker };
    // The caller lets the other library read the databases in `kept`. Only Esker's go there.
    let kept = match behind {
        Behind::Esker => kept.to_owned(),
        Behind::RocksDb => fresh(&clients.dir.join("grocksdb-asan-on-rocksdb"))?,
    };
    let mut test = grocksdb_test(&clients, &kept)?;
    // Skips the tests that fail on RocksDB without a report, because any failed test is an error.
    let skipped = format!("^({})$", GROCKSDB_DIFFERS.join("|"));
    // Frames without frame pointers need the slow unwinder.
    let options = "detect_leaks=1:fast_unwind_on_malloc=0:malloc_context_size=40";
    test.args(["-asan", "-ldflags=-w", "-skip", &skipped]).env("ASAN_OPTIONS", options);
    let output = test.output().map_err(|error| format!("go test: {error}"))?;
    let text = said(&output);
    let passed = text.lines().filter(|line| line.starts_with("--- PASS")).count();
    let (title, left) = (clients.title(), leaks(&text));
    let objects: u64 = left.values().map(|left| left[0]).sum();
    println!("grocksdb {title}: {passed} passed, {objects} objects of {} functions are left", left.len());
    if passed == 0 || text.contains("ERROR: AddressSanitizer") || text.contains("--- FAIL") {
        return Err(format!("grocksdb {title} under AddressSanitizer:\n{}", tail(&text, 60)));
    }
    Ok(left)
}

/// Numbers of objects that were left, by the function of the C API that made them: first objects
/// that no other object refers to, then all others.
type Leaks = BTreeMap<String, [u64; 2]>;

/// Reads the report of LeakSanitizer.
fn leaks(text: &str) -> Leaks {
    let mut left = Leaks::new();
    for (kind, mark) in ["Direct leak of ", "Indirect leak of "].into_iter().enumerate() {
        for block in text.split(mark).skip(1) {
            let block = block.split("\n\n").next().unwrap_or_default();
            let count = block.split(" in ").nth(1);
            let count = count.and_then(|rest| rest.split(' ').next()?.parse::<u64>().ok());
            let frames = block.lines().filter_map(|line| line.split(" in ").nth(1));
            let mut names = frames.filter_map(|frame| frame.split([' ', '(', '+']).next());
            // The client calls the outermost function of the C API.
            let entry = names.rfind(|name| name.starts_with("rocksdb_"));
            if let (Some(count), Some(entry)) = (count, entry) {
                left.entry(entry.to_owned()).or_default()[kind] += count;
            }
        }
    }
    left
}

/// Runs ten test binaries of crate `rocksdb` under valgrind. The others are left out: `test_db` and
/// the tests of options take the longest.
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
    packages::verdict(&package, clients.behind, &said(&output))
}

/// Runs `command` and looks for reports about the library.
/// # Errors
/// A report of valgrind leads through the library · the program fails. AddressSanitizer makes it
/// fail after a report.
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
    fn objects_that_are_left_count_for_the_function_that_the_client_called() {
        let text = "\
==7==ERROR: LeakSanitizer: detected memory leaks

Direct leak of 24 byte(s) in 3 object(s) allocated from:
    #0 0x1 in __interceptor_malloc (/t/grocksdb.test+0x1)
    #1 0x2 in rocksdb_options_create (/lib/librocksdb.so+0x2)
    #2 0x3 in _cgo_1_Cfunc_rocksdb_options_create /t/cgo.go:1

Indirect leak of 8 byte(s) in 1 object(s) allocated from:
    #0 0x1 in rocksdb_options_create

Direct leak of 24 byte(s) in 2 object(s) allocated from:
    #0 0x1 in operator new(unsigned long) (/t/grocksdb.test+0x1)
    #1 0x2 in rocksdb_options_create+0x4
";
        let left = super::leaks(text);
        assert_eq!(left.into_iter().collect::<Vec<_>>(), [("rocksdb_options_create".to_owned(), [5, 1])]);
    }

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
