//! Flink on RocksJava: a job with state of each kind in the RocksDB state backend, and incremental
//! checkpoints.
//!
//! In: the jars of the Maven registry, `FlinkTotals.java`, and `librocksdbjni.so`, which is built
//! here. Out: a line for each thing that was shown. Each JVM is a small cluster with two task
//! managers. It loses one of them, and goes on from its newest checkpoint; then the JVM is killed
//! with signal 9, and the next one goes on from the newest checkpoint that is left. The last one
//! has three task managers. The sums of each key must be those of a plain loop.

use super::java::{Jar, JavaBuild};
use super::process::ClusterProcess;
use super::{Choices, Deadline, WorkDir, compare};
use crate::commands::Outcome;
use std::fs;
use std::path::Path;

const JARS: [Jar; 3] = [
    ("org.apache.flink", "flink-clients", "2.3.0"),
    ("org.apache.flink", "flink-statebackend-rocksdb", "2.3.0"),
    ("org.slf4j", "slf4j-simple", "1.7.36"),
];

/// Records of the job, a multiple of 40: on a debug build, and on a library that is measured.
const RECORDS: [u64; 2] = [100_000, 400_000];

/// Percents of the records after which a JVM is killed.
const KILLS: [&str; 2] = ["30", "60"];

/// Minutes for the whole command.
const MINUTES: u64 = 10;

/// Runs the job on Esker, or on RocksDB.
pub(super) fn run(root: &Path, flags: &[&str]) -> Outcome {
    if let ["--compare", pairs @ ..] = flags {
        return compare(root, compare::pairs(pairs)?);
    }
    let build = JavaBuild::new(root, "flink", "FlinkTotals", &JARS, flags)?;
    let records = RECORDS[usize::from(!flags.is_empty())].to_string();
    let work = WorkDir::new("flink")?;
    let mut choices = Choices::from_seed()?;
    let deadline = Deadline::after(MINUTES);
    for (number, percent) in (1..).zip(KILLS) {
        let mut job = start(&build, &work.0, number, &[&records, percent, "2"])?;
        deadline.wait(&"the job is ready to be killed", || {
            job.expect_running()?;
            Ok(job.log().contains("ready after").then_some(()))
        })?;
        println!("JVM {number}:");
        build.check_loaded(std::slice::from_ref(&job))?;
        choices.pause(1000);
        job.expect_running()?;
        job.kill()?;
        report(&job, number)?;
        println!("  killed with signal 9");
    }
    let last = KILLS.len() + 1;
    let mut job = start(&build, &work.0, last, &[&records, "100", "3"])?;
    let success = deadline.wait(&"the job ends", || job.success())?;
    println!("JVM {last}, with three task managers, to the end:");
    report(&job, last)?;
    expect_equal(&job, success)
}

/// Runs the job without faults on both libraries in turn.
fn compare(root: &Path, pairs: u64) -> Outcome {
    let build = JavaBuild::new(root, "flink", "FlinkTotals", &JARS, &["--release"])?;
    let records = RECORDS[1].to_string();
    compare::in_turn(pairs, &compare::figures("records/s"), |behind| {
        let (work, mut used) = (WorkDir::new("flink")?, [0.0; 3]);
        let mut job = start(&build.on(behind), &work.0, 1, &[&records, "100", "2"])?;
        let success = Deadline::after(MINUTES).wait(&"the job ends", || {
            // A process that ends no longer has figures: the last ones count.
            used = compare::used([&job]).unwrap_or(used);
            job.success()
        })?;
        expect_equal(&job, success)?;
        let rate = compare::number_before(&job.log(), "records a second")?;
        Ok([rate, used[0], used[1], used[2]])
    })
}

/// Checks that the job has ended well, with the sums of a plain loop.
fn expect_equal(job: &ClusterProcess, success: bool) -> Outcome {
    if !success || !job.log().contains("equal true") {
        return Err(format!("the job's sums are wrong, or it has failed:\n{}", job.end_of_log()));
    }
    Ok(())
}

/// Starts a JVM, which continues the job.
fn start(build: &JavaBuild, work: &Path, number: usize, args: &[&str]) -> Result<ClusterProcess, String> {
    let tmp = work.join("tmp");
    fs::create_dir_all(&tmp).map_err(|e| format!("{}: {e}", tmp.display()))?;
    let tmp = format!("-Djava.io.tmpdir={}", tmp.display());
    let options = ["-Xmx384m", &tmp, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"];
    let directory = work.to_string_lossy();
    let args = [&[&*directory], args].concat();
    build.start(&format!("JVM {number}"), &options, &args, &work.join(format!("jvm{number}.log")))
}

/// Prints the program's own lines.
/// # Errors
/// A JVM after the first did not begin at a checkpoint · the library has failed.
fn report(job: &ClusterProcess, number: usize) -> Outcome {
    let log = job.log();
    let said = ["task ", "a task manager", "ready", "filters ", "keys "];
    let is_own =
        |line: &&str| said.iter().any(|begin| line.starts_with(begin)) || line.ends_with(" a second");
    let lines: Vec<&str> = log.lines().filter(is_own).collect();
    lines.iter().for_each(|line| println!("  {line}"));
    if number > 1 && !lines.first().is_some_and(|line| line.contains("begins at checkpoint")) {
        return Err(format!("JVM {number} does not begin at a checkpoint:\n{}", job.end_of_log()));
    }
    if log.contains("RocksDBException") {
        return Err(format!("the library has failed:\n{}", job.end_of_log()));
    }
    Ok(())
}
