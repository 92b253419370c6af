//! Kills a process in the middle of its writes (`kill -9`). Every acknowledged write must survive.
//!
//! After each kill three facts are checked for each writer thread. Every reported write is there
//! with its value. Unreported writes may follow the reported ones, but without a gap. Both keys of
//! each batch are there, or neither key is.

use crate::failure::{DemoFailure, DemoOutcome};
use crate::victim::{VictimWrites, WRITERS};
use crate::{Stage, VICTIM, db_options};
use esker::{Db, ReadOptions};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Acknowledged writes per thread, as the victim reported them.
type Acknowledged = [u64; WRITERS as usize];

/// The shortest time for which a victim writes.
const LEAST_TIME: Duration = Duration::from_millis(400);
const LEAST_ACKNOWLEDGED: u64 = 2_000;

/// Kills `kills` victims one after the other. Returns the number of keys that they wrote.
pub(crate) fn run(stage: &mut Stage, path: &Path, kills: u32) -> DemoOutcome<u64> {
    let mut rng = fastrand::Rng::with_seed(stage.seed);
    let (mut reported, mut left) = (0, 0);
    let part = stage.progress.begin("Killing a writing process", u64::from(kills) * 2);
    let mut recovery = Duration::ZERO;
    for round in 0..kills {
        let extra = Duration::from_millis(rng.u64(..400));
        let acknowledged = kill_one(stage, path, round, LEAST_TIME + extra)?;
        reported += acknowledged.iter().sum::<u64>();
        part.advance(1);
        let opening = part.elapsed();
        let db = Db::open(&db_options()?, path)?;
        recovery += part.elapsed() - opening;
        for (thread, acknowledged) in (0..).zip(acknowledged) {
            left += 2 * check_thread(&db, round, thread, acknowledged)?;
        }
        db.close()?;
        part.advance(1);
    }
    if kills > 0 {
        let what = format!("writes by {WRITERS} threads of a process, killed {kills} times");
        stage.report.rate(what, reported, 0, part.end());
        stage.report.rate("recoveries from it (within the line above)", u64::from(kills), 0, recovery);
        stage.report.verified(format!("acknowledged writes there after {kills} kill -9"), reported);
        stage.report.verified("batches of killed processes that are whole", left / 2);
    }
    Ok(left)
}

/// Starts a victim, kills it as [`listen`] describes, and returns its acknowledged writes.
fn kill_one(stage: &Stage, path: &Path, round: u32, time: Duration) -> DemoOutcome<Acknowledged> {
    let program = std::env::current_exe().map_err(|e| DemoFailure::new(format_args!("own program: {e}")))?;
    let mut victim = Command::new(program)
        .arg(VICTIM)
        .arg("--dir")
        .arg(path)
        .args(["--round", &round.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| DemoFailure::new(format_args!("cannot start the process to be killed: {e}")))?;
    let reported = listen(stage, &mut victim, time);
    // If the victim ended by itself, `listen` has returned the error.
    victim.kill().ok();
    victim.wait().map_err(|e| DemoFailure::new(format_args!("waiting for the killed process: {e}")))?;
    reported
}

/// Reads acknowledgements. Kills the victim once it has written for `time` and has reported
/// [`LEAST_ACKNOWLEDGED`] writes. Then reads the rest of the pipe.
fn listen(stage: &Stage, victim: &mut Child, time: Duration) -> DemoOutcome<Acknowledged> {
    let mut reported: Acknowledged = [0; WRITERS as usize];
    let mut lines = BufReader::new(victim.stdout.take().expect("standard output is a pipe"));
    let mut line = String::new();
    let mut writing = None;
    let mut killed = false;
    loop {
        line.clear();
        lines
            .read_line(&mut line)
            .map_err(|e| DemoFailure::new(format_args!("reading acknowledgements: {e}")))?;
        // A last line without its end may be incomplete, so it does not count.
        let Some(whole) = line.strip_suffix('\n') else { break };
        take(&mut reported, whole)?;
        let part = writing.get_or_insert_with(|| stage.progress.begin("", 0));
        if !killed && part.elapsed() >= time && reported.iter().sum::<u64>() >= LEAST_ACKNOWLEDGED {
            victim.kill().map_err(|e| DemoFailure::new(format_args!("kill: {e}")))?;
            killed = true;
        }
    }
    if !killed {
        return Err(DemoFailure::new(
            "VERIFICATION FAILED: the process that should be killed ended by itself",
        ));
    }
    Ok(reported)
}

/// Counts the write that `line` reports; each thread reports its writes in order.
fn take(reported: &mut Acknowledged, line: &str) -> DemoOutcome {
    let parsed = line
        .split_once(' ')
        .and_then(|(thread, sequence)| Some((thread.parse::<usize>().ok()?, sequence.parse::<u64>().ok()?)));
    match parsed {
        Some((thread, sequence)) if reported.get(thread) == Some(&sequence) => {
            reported[thread] += 1;
            Ok(())
        }
        _ => Err(DemoFailure::new(format_args!("VERIFICATION FAILED: unexpected acknowledgement '{line}'"))),
    }
}

/// Checks the batches of a thread and returns their number, which is at least `acknowledged`.
fn check_thread(db: &Db, round: u32, thread: u32, acknowledged: u64) -> DemoOutcome<u64> {
    let first = count_half(db, round, thread, 0)?;
    let second = count_half(db, round, thread, 1)?;
    let what = format!("killed process {round}, thread {thread}");
    if first != second {
        return Err(DemoFailure::new(format_args!(
            "VERIFICATION FAILED: {what}: a batch is there in part ({first} first keys, {second} second keys)"
        )));
    }
    if first < acknowledged {
        return Err(DemoFailure::new(format_args!(
            "VERIFICATION FAILED: {what}: {acknowledged} writes were acknowledged, {first} are there"
        )));
    }
    Ok(first)
}

/// Counts the first (`half` 0) or second (`half` 1) keys of a thread's batches. Checks that the
/// batches in the database are numbered from 0 without a gap, and checks each value.
fn count_half(db: &Db, round: u32, thread: u32, half: u8) -> DemoOutcome<u64> {
    let prefix = VictimWrites::prefix(round, thread, half);
    let mut limit = prefix.clone();
    *limit.last_mut().expect("prefixes are not empty") += 1;
    let within = ReadOptions::new().lower_bound(prefix).upper_bound(limit);
    let mut iter = db.iter_opt(within, &db.default_column_family())?;
    let mut written = VictimWrites { round, thread, sequence: 0 };
    let mut value = Vec::new();
    iter.seek_to_first();
    while let Some((key, found)) = iter.item() {
        written.fill_value(&mut value);
        if key != written.key(half) || found != value {
            return Err(DemoFailure::new(format_args!(
                "VERIFICATION FAILED: killed process {round}, thread {thread}: write {} is missing or wrong",
                written.sequence
            )));
        }
        written.sequence += 1;
        iter.next();
    }
    iter.status()?;
    Ok(written.sequence)
}
