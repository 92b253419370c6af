//! Counts of instructions from callgrind, read by the program that it runs.
//!
//! In: `GROWTH_CALLGRIND`, the name of callgrind's output files without their numbers. Out: the
//! instructions of the last measured call, of all threads; 0 outside of callgrind.
//!
//! callgrind writes a file, and counts from zero again, when [`mark_begin`] and [`mark_end`] are
//! entered. The file of [`mark_end`] has the count. Both are deleted.

use esker::internals::base::sync::process::atomic::{AtomicU64, Ordering};
use std::path::{Path, PathBuf};
use std::process::Command;

const VARIABLE: &str = "GROWTH_CALLGRIND";
/// The pattern by which callgrind finds the two functions. Of two patterns it would take the first
/// only.
const MARKS: &str = "*growth*callgrind*mark_*";

/// Number of files that were read.
static READ: AtomicU64 = AtomicU64::new(0);

/// Marks where counting begins.
#[inline(never)]
pub(super) fn mark_begin() {
    std::hint::black_box(VARIABLE);
}

/// Marks where counting ends.
#[inline(never)]
pub(super) fn mark_end() {
    std::hint::black_box(MARKS.len());
}

/// Instructions between the last [`mark_begin`] and [`mark_end`].
#[expect(clippy::disallowed_methods, reason = "callgrind's files are on the real disk")]
pub(super) fn last_count() -> u64 {
    let Some(prefix) = std::env::var_os(VARIABLE) else { return 0 };
    let mut count = 0;
    for _ in 0..2 {
        let mut name = prefix.clone();
        name.push(format!(".{}", READ.fetch_add(1, Ordering::Relaxed) + 1));
        let path = PathBuf::from(name);
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let totals = text.lines().rev().find_map(|line| line.strip_prefix("totals: "));
        count = totals.and_then(|total| total.trim().parse().ok()).unwrap_or(0);
        // A file that stays does no harm.
        std::fs::remove_file(&path).unwrap_or_default();
    }
    count
}

/// Runs this program again with `args` under callgrind; its files are in `directory`.
/// # Errors
/// valgrind is missing, or the program failed.
pub(super) fn run_again(directory: &Path, args: &[String]) -> Result<(), String> {
    let this = std::env::current_exe().map_err(|e| format!("this program's path: {e}"))?;
    let files = directory.join("callgrind");
    let status = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet", "--dump-line=no"])
        .arg(format!("--dump-before={MARKS}"))
        .arg(format!("--callgrind-out-file={}", files.display()))
        .arg(this)
        .args(args)
        .env(VARIABLE, &files)
        .status()
        .map_err(|e| format!("valgrind: {e}; .ci/fetch-valgrind installs it"))?;
    if status.success() { Ok(()) } else { Err(format!("under callgrind: {status}")) }
}
