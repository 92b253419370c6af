//! The change stream under crashes: a follower beside a leader, and a model of the stream.
//!
//! In: a seed and a number of batches. Out: a [`FollowingReport`], or the first batch that was
//! missing, came twice or differed, with the seed of its round.
//!
//! In a round a leader with random options runs random writes on a simulated disk: batches of all
//! kinds of operations, transactions, two-phase transactions, writes without a WAL, bursts of
//! several threads; families are created and dropped; WALs rotate. The follower applies the stream
//! to a database on a disk of its own, and stores the position with each batch. Both crash at
//! random: the process or the machine. After a crash of the leader the stream from the stored
//! position on must be the model's, up to the newest recovered number. The follower must hold the
//! leader's contents. A gap must be one that the model knows; then the follower begins again with a
//! checkpoint.
//!
//! The machine of the leader crashes only in rounds with `synced_only`: without it a follower may
//! have batches that a power loss takes.

mod follower;
mod leader;

use esker::internals::base::sync::atomic::{AtomicUsize, Ordering};
use esker::internals::base::sync::thread;
use esker::internals::env::spawn_scoped;
use esker::{ChangeStream, ChangesEnd, ChangesOptions, ErrorKind};
use follower::StreamFollower;
use leader::{StreamLeader, UnitContent};
use std::fmt;

/// Steps of a round.
const STEPS: u32 = 1500;

/// Parameters of a campaign.
#[derive(Clone, Debug)]
pub struct FollowingParameters {
    /// Seed of the first round; each further round has the next number.
    pub seed: u64,
    /// Least number of batches that followers apply.
    pub batches: u64,
    /// Print lines of progress.
    pub verbose: bool,
}

/// Counts of a campaign.
#[derive(Clone, Debug, Default)]
pub struct FollowingReport {
    /// Pairs of a leader and a follower.
    pub rounds: u64,
    /// Batches that followers applied, each compared with the model.
    pub batches: u64,
    /// Batches of bursts, compared by the counters in them.
    pub concurrent: u64,
    /// Commits of prepared transactions.
    pub two_phase: u64,
    /// Processes of leaders killed.
    pub kills: u64,
    /// Power losses of leaders.
    pub power_losses: u64,
    /// Crashes of followers.
    pub follower_crashes: u64,
    /// Streams begun again at a stored position.
    pub resumed: u64,
    /// Gaps, each with the numbers that the model expects.
    pub gaps: u64,
    /// Comparisons of all contents.
    pub compared: u64,
    /// Crashed disks that rightly did not open, because of a garbled MANIFEST.
    pub refused: u64,
}

impl fmt::Display for FollowingReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "changes: {} batches in {} rounds, each once and in order ({} of bursts, {} commits of prepared \
             transactions); leaders: {} kills, {} power losses, {} garbled MANIFESTs refused; followers: {} \
             crashes, {} streams resumed, {} copies after gaps; contents compared {} times",
            self.batches,
            self.rounds,
            self.concurrent,
            self.two_phase,
            self.kills,
            self.power_losses,
            self.refused,
            self.follower_crashes,
            self.resumed,
            self.gaps,
            self.compared
        )
    }
}

/// Runs rounds until followers have applied the batches.
/// # Errors
/// The first mistake, and the seed of its round.
pub fn run(parameters: &FollowingParameters) -> Result<FollowingReport, String> {
    let mut report = FollowingReport::default();
    while report.batches < parameters.batches {
        let seed = parameters.seed + report.rounds;
        round(seed, &mut report).map_err(|why| format!("changes: --seed {seed} --batches 1: {why}"))?;
        report.rounds += 1;
        if parameters.verbose && report.rounds.is_multiple_of(50) {
            eprintln_progress(&report);
        }
    }
    Ok(report)
}

#[expect(clippy::print_stderr, reason = "progress of a long campaign")]
fn eprintln_progress(report: &FollowingReport) {
    eprintln!("{report}");
}

/// A writer that runs.
struct Running<'a>(&'a AtomicUsize);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// A leader, its follower, and the stream between them.
struct Pair<'a> {
    rng: fastrand::Rng,
    leader: StreamLeader,
    follower: StreamFollower,
    /// `None` until the next read, which begins at the stored position.
    changes: Option<ChangeStream>,
    synced_only: bool,
    report: &'a mut FollowingReport,
}

fn round(seed: u64, report: &mut FollowingReport) -> Result<(), String> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let (leader, synced_only) = (StreamLeader::new(&mut rng)?, rng.bool());
    let follower = StreamFollower::new(&mut rng)?;
    let mut pair = Pair { rng, leader, follower, changes: None, synced_only, report };
    for step in 0..STEPS {
        pair.step().map_err(|why| format!("step {step}: {why}"))?;
    }
    pair.read(u32::MAX)?;
    pair.compare()
}

impl Pair<'_> {
    fn step(&mut self) -> Result<(), String> {
        match self.rng.u16(..1000) {
            0..300 => {
                let most = self.rng.u32(1..12);
                self.read(most)
            }
            300..302 => self.crash_leader(None),
            302..305 => self.crash_follower(),
            305..311 => {
                self.changes = None;
                Ok(())
            }
            311..320 => self.burst(),
            320..323 => {
                self.read(u32::MAX)?;
                self.compare()
            }
            _ => {
                let committed = self.leader.step(&mut self.rng)?;
                self.report.two_phase += u64::from(committed);
                Ok(())
            }
        }
    }

    /// Applies up to `most` batches.
    fn read(&mut self, most: u32) -> Result<(), String> {
        for _ in 0..most {
            if self.changes.is_none() {
                let options = ChangesOptions::new().synced_only(self.synced_only);
                let position = self.follower.position();
                let changes = self.leader.db().changes(position, &options);
                self.changes = Some(changes.map_err(|e| format!("changes from {position}: {e}"))?);
                self.report.resumed += 1;
            }
            let Some(changes) = &mut self.changes else { return Ok(()) };
            match changes.next() {
                Some(Ok(batch)) => {
                    if self.synced_only {
                        self.leader.synced =
                            self.leader.synced.max(batch.next_position().next_sequence().0 - 1);
                    }
                    let is_of_burst = self.leader.check(&batch, self.follower.position())?;
                    self.report.concurrent += u64::from(is_of_burst);
                    self.report.batches += 1;
                    self.follower.apply(&batch)?;
                }
                Some(Err(error)) => return self.begin_again(&error),
                None => return self.leader.check_end(self.follower.position()),
            }
        }
        Ok(())
    }

    /// The stream has ended: a copy continues it, if the model knows the gap.
    fn begin_again(&mut self, error: &esker::Error) -> Result<(), String> {
        let end = self.changes.take().and_then(|changes| changes.end());
        let next = self.follower.position().next_sequence().0;
        let is_known = match end {
            Some(ChangesEnd::Gap { from, to }) => from.0 == next && self.leader.lacks(next, to.0),
            // A power loss tore the end of a WAL, and no WAL has the number that is due.
            None => error.kind() == ErrorKind::Corruption && self.leader.may_lack(next),
            _ => false,
        };
        if !is_known {
            return Err(format!("at {next}: {error} ({end:?})"));
        }
        self.report.gaps += 1;
        self.follower = self.leader.copy(&mut self.rng)?;
        if self.leader.is_in_burst() { Ok(()) } else { self.compare() }
    }

    /// Lets threads write while the follower reads. One burst in four ends in a crash.
    fn burst(&mut self) -> Result<(), String> {
        let crashes = self.rng.u8(..4) == 0;
        let (work, writers) = self.leader.begin_burst(&mut self.rng);
        let (mut crashed, count) = (None, AtomicUsize::new(writers));
        thread::scope(|scope| {
            let (mut threads, work, running) = (Vec::new(), &work, &count);
            for writer in 0..writers {
                let write = move || {
                    let _running = Running(running);
                    work.run(writer)
                };
                threads.push(spawn_scoped(scope, "writer", write).map_err(|e| e.to_string())?);
            }
            let mut outcome = Ok(());
            while outcome.is_ok() && running.load(Ordering::Acquire) > 0 {
                let most = self.rng.u32(1..4);
                outcome = self.read(most);
                if crashes && self.rng.u8(..10) == 0 {
                    crashed = Some(self.leader.crash(self.synced_only, &mut self.rng));
                    break;
                }
            }
            for thread in threads {
                thread.join().map_err(|_| "a writer has panicked")??;
            }
            outcome
        })?;
        self.leader.end_burst();
        match crashed {
            Some(disk) => self.crash_leader(Some(disk)),
            None => Ok(()),
        }
    }

    /// Opens the disk that a crash leaves. `disk`: one that was taken during a burst.
    fn crash_leader(&mut self, disk: Option<leader::CrashedLeader>) -> Result<(), String> {
        self.changes = None;
        let is_during_burst = disk.is_some();
        let crashed = disk.unwrap_or_else(|| self.leader.crash(self.synced_only, &mut self.rng));
        if crashed.is_power_loss() {
            self.report.power_losses += 1;
        } else {
            self.report.kills += 1;
        }
        self.report.refused += u64::from(self.leader.open_crashed(crashed, is_during_burst)?);
        self.leader.check_newest(self.follower.position())
    }

    fn crash_follower(&mut self) -> Result<(), String> {
        self.changes = None;
        self.report.follower_crashes += 1;
        self.report.refused += u64::from(self.follower.crash(&mut self.rng)?);
        Ok(())
    }

    /// Compares all contents, if the follower has caught up.
    fn compare(&mut self) -> Result<(), String> {
        if self.leader.units().last().is_some_and(|unit| matches!(unit.content, UnitContent::Unlogged)) {
            return Ok(());
        }
        self.report.compared += 1;
        self.follower.compare(&self.leader)
    }
}
