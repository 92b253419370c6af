//! The long campaigns of `esker-stress`, and its campaign `threads` under sanitizers.
//!
//! The sanitizers need unstable flags. `RUSTC_BOOTSTRAP` lets a stable compiler accept these. With
//! `--target`, build scripts and procedural macros are built without sanitizers.

use crate::commands::{self, Outcome, run};
use crate::mutants;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Compares ten million random operations with the model.
pub(crate) fn model(root: &Path) -> Outcome {
    stress(root, &["model", "--rounds", "40", "--operations", "250000"])
}

/// Checks for `minutes` that options do not change answers.
pub(crate) fn metamorphic(root: &Path, minutes: u32) -> Outcome {
    stress(root, &["metamorphic", "--lists", "1000000", "--seconds", &seconds(minutes)])
}

/// Crashes a simulated machine for `minutes`. Its threads, clock and disk all follow one seed. Half
/// of the time goes to short runs, half to long histories.
pub(crate) fn sim(root: &Path, minutes: u32) -> Outcome {
    let half = (minutes * 30).to_string();
    simulated(root, &["sim", "--cycles", "100000000", "--seconds", &half])?;
    simulated(root, &["histories", "--histories", "100000000", "--seconds", &half])
}

/// Runs the integration tests of `package` whose names contain `name`, with `rounds` rounds each.
fn named_tests(root: &Path, package: &str, name: &str, rounds: &str) -> Outcome {
    let cargo = ["test", "--profile", "stress", "-p", package, "--test", "it", "--", "--nocapture", name];
    run(root, &[("ROUNDS", rounds)], "cargo", &cargo)
}

/// Runs a campaign in the simulated machine.
fn simulated(root: &Path, campaign: &[&str]) -> Outcome {
    let env = [("RUSTFLAGS", "--cfg shuttle"), ("CARGO_TARGET_DIR", "target/shuttle")];
    let cargo = ["run", "--profile", "stress", "-p", "esker-stress", "--"];
    run(root, &env, "cargo", &[&cargo, campaign].concat())
}

/// Runs the threads campaign without a sanitizer: for half of the time with plain batches, for the
/// rest with transactions that are in memtables before their commit.
pub(crate) fn threads(root: &Path, minutes: u32) -> Outcome {
    let (half, quarter) = ((minutes * 30).to_string(), (minutes * 15).to_string());
    stress(root, &["threads", "--seconds", &half])?;
    for policy in ["prepared", "unprepared"] {
        stress(root, &["threads", "--seconds", &quarter, "--policy", policy])?;
    }
    Ok(())
}

/// Runs three campaigns of scans. The first compares scans beside writers with a model that knows
/// sequence numbers. The second runs random histories in one thread. The third compares Esker with
/// RocksDB. Then runs the first campaign in the simulated machine.
pub(crate) fn scans(root: &Path, minutes: u32) -> Outcome {
    stress(root, &["scan-threads", "--seconds", &seconds(minutes)])?;
    named_tests(root, "esker", "scan_histories", "2000")?;
    named_tests(root, "esker-peer", "scans_find", "500")?;
    simulated(root, &["sim-scans", "--seconds", &seconds(minutes)])
}

/// Compares the answers to twenty million lock requests with those of a reference lock manager,
/// three times: in one thread, in real threads, and in threads that a scheduler orders. Then runs a
/// test of all operations at once for `minutes`.
pub(crate) fn locks(root: &Path, minutes: u32) -> Outcome {
    let cargo = ["test", "--profile", "stress", "-p", "esker-lock"];
    let agrees = |filter| [&cargo[..], &["--lib", "--", "--nocapture", filter]].concat();
    run(root, &[("ROUNDS", "40000")], "cargo", &agrees("random_requests"))?;
    run(root, &[("ROUNDS", "10000")], "cargo", &agrees("threads_get_the_decisions"))?;
    let shuttle =
        [("ROUNDS", "117000"), ("RUSTFLAGS", "--cfg shuttle"), ("CARGO_TARGET_DIR", "target/shuttle")];
    run(root, &shuttle, "cargo", &agrees("shuttle_threads_get_the_decisions"))?;
    let soak = [&cargo[..], &["--test", "it", "--", "--nocapture", "soak"]].concat();
    run(root, &[("SECONDS", &seconds(minutes)), ("THREADS", "100")], "cargo", &soak)
}

/// Runs the campaigns of crashes on a simulated disk, of the change stream under crashes, of
/// failing file operations, and of killed processes on the real disk.
pub(crate) fn durability(root: &Path) -> Outcome {
    stress(root, &["crash", "--points", "10000"])?;
    stress(root, &["changes", "--batches", "1000000"])?;
    stress(root, &["faults"])?;
    let directory = std::env::temp_dir().join(format!("esker-kill9-{}", std::process::id()));
    let path = directory.to_string_lossy();
    stress(root, &["kill9", &path, "--rounds", "200"])?;
    // Only a success removes the directory: after a failure the directory shows the cause.
    std::fs::remove_dir_all(&directory).map_err(|e| format!("{path}: {e}"))?;
    named_tests(root, "esker-peer", "prepared_transactions_survive", "600")?;
    ignored_tests(root, "esker", "the_longest_entry")
}

/// Runs real processes under limits, on full disks, in directories that are moved and replaced, and
/// beside other openers. Each of the 18 circumstances occurs twenty times if root runs the campaign
/// and can mount file systems. Otherwise some circumstances are left out.
pub(crate) fn hostile(root: &Path) -> Outcome {
    stress(root, &["hostile", "--trials", "360"])
}

/// Runs ignored integration tests, which are too large for every test run.
fn ignored_tests(root: &Path, package: &str, filter: &str) -> Outcome {
    let test = ["test", "--profile", "stress", "-p", package, "--test", "it", "--", "--ignored", filter];
    run(root, &[], "cargo", &test)
}

/// Measures how work grows with the size of a database. The first run begins at twice the usual
/// size; the second counts instructions, under callgrind.
pub(crate) fn growth(root: &Path) -> Outcome {
    run(root, &[], "bash", &[".ci/fetch-valgrind"])?;
    let cargo = ["run", "--profile", "stress", "-p", "esker-stress", "--features", "callgrind"];
    let growth = [&cargo[..], &["--bin", "esker-growth", "--"]].concat();
    run(root, &[], "cargo", &[&growth[..], &["--scale", "2"]].concat())?;
    run(root, &[], "cargo", &[&growth[..], &["--instructions"]].concat())
}

/// Lets Esker and RocksDB take turns on the same databases, with mixed options and in long chains.
/// Then damages every database in `fixtures`: each byte flipped, blocks zeroed, files cut off,
/// missing and exchanged. One case in ten is repaired. `.ci/fetch-peers` fetches RocksDB.
pub(crate) fn compat(root: &Path) -> Outcome {
    let build = ["build", "--profile", "stress", "-p", "esker-peer", "--bins"];
    run(root, &[], "cargo", &build)?;
    let programs = commands::target_dir(root).join("stress");
    let program = |name: &str| programs.join(name).to_string_lossy().into_owned();
    run(root, &[], &program("esker-matrix"), &["mixtures", "1", "500"])?;
    run(root, &[], &program("esker-matrix"), &["chains", "1", "50"])?;
    run(root, &[], &program("esker-damage"), &["1", "10"])?;
    ignored_tests(root, "esker-peer", "records_of_all_types")
}

/// Runs `db_stress` for `minutes` in processes that are killed, on the disk of the temporary
/// directory.
pub(crate) fn crash_test(root: &Path, minutes: u32) -> Outcome {
    let directory = std::env::temp_dir().join(format!("esker-crashtest-{}", std::process::id()));
    let path = directory.to_string_lossy();
    stress(root, &["db_crashtest", "both", "--dir", &path, "--duration", &seconds(minutes)])?;
    // Only a success removes the directory: after a failure the directory shows the cause.
    std::fs::remove_dir_all(&directory).map_err(|e| format!("{path}: {e}"))
}

/// Runs short forms of nine campaigns, as debug builds, two at a time: most of them have one
/// thread. The campaigns `model`, `crash` and `faults` must reach their probes. A campaign of a
/// fixed time does as much as the machine allows. Mutants, models of loom and shuttle, and the
/// simulated machine must compile.
pub(crate) fn slice(root: &Path) -> Outcome {
    let directory = std::env::temp_dir().join(format!("esker-slice-{}", std::process::id()));
    let place = |name: &str| directory.join(name).to_string_lossy().into_owned();
    let (db, expected, crashed) = (place("db"), place("expected"), place("crashed"));
    let db_stress = ["db_stress", "--db", &db, "--expected_values_dir", &expected, "--options_seed=1"];
    let load = ["--threads=8", "--ops_per_thread=4000", "--value_size_mult=256", "--batch_one_in=2"];
    let campaigns: [&[&str]; 9] = [
        &["--probes", "model", "--rounds", "3", "--operations", "20000"],
        &["--probes", "crash", "--points", "1000"],
        &["--probes", "faults", "--step", "97"],
        &["metamorphic", "--lists", "1000000", "--seconds", "45"],
        &["threads", "--seconds", "45"],
        &["scan-threads", "--seconds", "45"],
        &["histories", "--histories", "1000000", "--seconds", "45"],
        &[&db_stress[..], &load].concat(),
        &["db_crashtest", "both", "--dir", &crashed, "--duration=45", "--interval=4"],
    ];
    // `--workspace`: the tests have built Esker already with the features of the whole workspace.
    run(root, &[], "cargo", &["build", "--workspace", "--bin", "esker-stress"])?;
    let program = commands::target_dir(root).join("debug/esker-stress");
    run_two_at_a_time(root, &program, &campaigns)?;
    std::fs::remove_dir_all(&directory).map_err(|e| format!("{}: {e}", directory.display()))?;
    mutants::check_compiles(root)?;
    commands::check_models(root)
}

/// Runs a program with each list of arguments, two at a time. Prints the output of a run as a
/// whole, behind its command. After a failure no further run begins.
fn run_two_at_a_time(root: &Path, program: &Path, runs: &[&[&str]]) -> Outcome {
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let has_failed = || !failures.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
    let work = || {
        while !has_failed()
            && let Some(args) = runs.get(next.fetch_add(1, Ordering::Relaxed))
        {
            if let Err(failure) = run_quietly(root, program, args) {
                failures.lock().unwrap_or_else(PoisonError::into_inner).push(failure);
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
    let failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}

/// Runs a program, and prints its output when it has ended.
fn run_quietly(root: &Path, program: &Path, args: &[&str]) -> Outcome {
    let line = format!("{} {}", program.display(), args.join(" "));
    let done = Command::new(program).args(args).current_dir(root).output();
    let done = done.map_err(|e| format!("{line}: {e}"))?;
    let printed = [done.stdout, done.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    println!("$ {line}\n{}", printed.concat());
    if done.status.success() { Ok(()) } else { Err(format!("failed: {line}")) }
}

/// Runs the campaign `threads` under AddressSanitizer (with LeakSanitizer) and under
/// ThreadSanitizer.
pub(crate) fn sanitizers(root: &Path, minutes: u32) -> Outcome {
    address(root, minutes)?;
    thread(root, minutes)
}

/// Runs the campaign and the tests of the block cache under AddressSanitizer. These tests use small
/// caches, which soon free a released value, so the sanitizer sees a later use of the value.
fn address(root: &Path, minutes: u32) -> Outcome {
    let flags = "-Zsanitizer=address --cfg esker_asan";
    let build =
        [("RUSTC_BOOTSTRAP", "1"), ("RUSTFLAGS", flags), ("CARGO_TARGET_DIR", "target/address-sanitizer")];
    run(root, &build, "cargo", &["test", "--profile", "stress", "--target", TARGET, "-p", "esker-cache"])?;
    sanitized(root, "address", flags, &[], minutes)
}

/// Runs the campaign under ThreadSanitizer. ThreadSanitizer does not know fences, so `--cfg
/// esker_tsan` replaces them. The ABI flag is needed because the standard library is not
/// instrumented.
fn thread(root: &Path, minutes: u32) -> Outcome {
    let flags = "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer --cfg esker_tsan";
    let suppressions = root.join("crates/stress/tsan-suppressions.txt");
    let options = format!("suppressions={} halt_on_error=0 exitcode=66", suppressions.display());
    sanitized(root, "thread", flags, &[("TSAN_OPTIONS", &options)], minutes)
}

fn sanitized(root: &Path, name: &str, flags: &str, options: &[(&str, &str)], minutes: u32) -> Outcome {
    let directory = format!("target/{name}-sanitizer");
    let build = [("RUSTC_BOOTSTRAP", "1"), ("RUSTFLAGS", flags), ("CARGO_TARGET_DIR", &directory)];
    let args = ["build", "--profile", "stress", "--target", TARGET, "-p", "esker-stress"];
    run(root, &build, "cargo", &args)?;
    let program = format!("{directory}/{TARGET}/stress/esker-stress");
    run(root, options, &program, &["threads", "--seconds", &seconds(minutes)])
}

fn stress(root: &Path, args: &[&str]) -> Outcome {
    let cargo = ["run", "--profile", "stress", "-p", "esker-stress", "--", "--probes"];
    run(root, &[], "cargo", &[&cargo, args].concat())
}

fn seconds(minutes: u32) -> String {
    (u64::from(minutes) * 60).to_string()
}
