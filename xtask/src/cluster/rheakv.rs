//! RheaKV on RocksJava: three stores, each a process, replicate three regions by JRaft, which keeps
//! its logs in RocksDB, too.
//!
//! In: the jars of the Maven registry, `RheaStores.java`, and `librocksdbjni.so`, which is built
//! here. Out: a line for each thing that was shown. A client records what was acknowledged, while a
//! store is killed with signal 9, a store loses its directory, and all stores are killed at once.

use super::java::{Jar, JavaBuild, free_port};
use super::process::ClusterProcess;
use super::{Deadline, WorkDir, compare};
use crate::commands::Outcome;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const JARS: [Jar; 2] =
    [("com.alipay.sofa", "jraft-rheakv-core", "1.3.15"), ("org.slf4j", "slf4j-simple", "1.7.21")];

/// Rounds of each writer in one load.
const ROUNDS: usize = 120;

/// Regions of each store.
const REGIONS: usize = 3;

/// Minutes for the whole command.
const MINUTES: u64 = 12;

/// Words in the log of a store that found its storage wrong.
const WRONG: [&str; 3] = ["RocksDBException", "StorageException", "Not implemented"];

/// The stores and the client. Each has a log in the work directory.
struct RheaCluster<'b> {
    build: &'b JavaBuild,
    work: PathBuf,
    ports: [u16; 3],
    stores: Vec<ClusterProcess>,
    client: ClusterProcess,
    deadline: Deadline,
}

/// Runs the stores on Esker, or on RocksDB.
pub(super) fn run(root: &Path, flags: &[&str]) -> Outcome {
    if let ["--compare", pairs @ ..] = flags {
        return compare(root, compare::pairs(pairs)?);
    }
    let build = JavaBuild::new(root, "rheakv", "RheaStores", &JARS, flags)?;
    let work = WorkDir::new("rheakv")?;
    let begin = Instant::now();
    let mut cluster = RheaCluster::start(&build, &work.0)?;
    println!("three stores of RheaKV 1.3.15 run, with three regions each");
    build.check_loaded(&cluster.stores)?;
    println!("{}", cluster.load()?);
    cluster.write_snapshots()?;
    cluster.kill_a_leader()?;
    cluster.write_snapshots()?;
    cluster.load()?;
    // The second snapshot after an entry lets the log go.
    cluster.write_snapshots()?;
    cluster.wipe_a_store()?;
    cluster.kill_all()?;
    cluster.end()?;
    println!("{} seconds in all", begin.elapsed().as_secs());
    Ok(())
}

/// Loads both libraries in turn, without faults.
fn compare(root: &Path, pairs: u64) -> Outcome {
    let build = JavaBuild::new(root, "rheakv", "RheaStores", &JARS, &["--release"])?;
    compare::in_turn(pairs, &compare::figures("calls/s"), |behind| {
        let (build, work) = (build.on(behind), WorkDir::new("rheakv")?);
        let mut cluster = RheaCluster::start(&build, &work.0)?;
        // The first load warms the JVMs up.
        cluster.load()?;
        let rate = compare::number_before(&cluster.load()?, "a second")?;
        let used = compare::used(&cluster.stores)?;
        cluster.checked()?;
        cluster.end()?;
        Ok([rate, used[0], used[1], used[2]])
    })
}

impl<'b> RheaCluster<'b> {
    fn start(build: &'b JavaBuild, work: &Path) -> Result<RheaCluster<'b>, String> {
        let (ports, deadline) = ([free_port()?, free_port()?, free_port()?], Deadline::after(MINUTES));
        let stores = (0..3).map(|number| start_store(build, work, ports, number));
        let mut stores = stores.collect::<Result<Vec<_>, _>>()?;
        for store in &mut stores {
            line_of(deadline, store, 0, "ready")?;
        }
        let mut client =
            build.start("the client", &["-Xmx192m"], &["client", &list(ports)], &work.join("client.log"))?;
        line_of(deadline, &mut client, 0, "ready")?;
        Ok(RheaCluster { build, work: work.to_owned(), ports, stores, client, deadline })
    }

    /// Kills the store that leads all regions during a load. It comes back with its directory.
    fn kill_a_leader(&mut self) -> Outcome {
        self.lead(0)?;
        let seen = self.begin_load()?;
        self.stores[0].kill()?;
        self.end_load(seen)?;
        println!("the leader of all regions was killed with signal 9; the others went on");
        self.restart(0)?;
        self.settle()?;
        self.lead(0)?;
        self.check("it has come back, and leads")
    }

    /// Kills a store during a load, and deletes its directory.
    fn wipe_a_store(&mut self) -> Outcome {
        self.lead(1)?;
        let seen = self.begin_load()?;
        self.stores[1].kill()?;
        let dir = store_dir(&self.work, 1);
        fs::remove_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        self.end_load(seen)?;
        println!("the leader of all regions was killed and has lost its directory; the others went on");
        self.restart(1)?;
        self.settle()?;
        let snapshots = snapshots_in(&dir.join("raft"))?;
        if snapshots != REGIONS {
            let log = self.stores[1].end_of_log();
            return Err(format!("the empty store has {snapshots} snapshots, not {REGIONS}:\n{log}"));
        }
        self.lead(1)?;
        self.check("it was rebuilt by snapshots of the others, and leads")
    }

    /// Kills all stores during a load. All come back with their directories.
    fn kill_all(&mut self) -> Outcome {
        let seen = self.begin_load()?;
        for store in &mut self.stores {
            store.kill()?;
        }
        for number in 0..3 {
            self.restart(number)?;
        }
        self.end_load(seen)?;
        self.settle()?;
        self.check("all stores were killed with signal 9 and have come back")
    }

    /// Ends all processes.
    /// # Errors
    /// A store's log says that its storage was wrong.
    fn end(mut self) -> Outcome {
        self.client.stop()?;
        for store in &mut self.stores {
            store.stop()?;
            let log = store.log();
            let wrong = log.lines().find(|line| WRONG.iter().any(|word| line.contains(word)));
            if let Some(line) = wrong {
                return Err(format!("a store says: {line}\n{}", store.end_of_log()));
            }
        }
        Ok(())
    }

    fn restart(&mut self, number: usize) -> Outcome {
        let seen = self.stores[number].log().len();
        self.stores[number] = start_store(self.build, &self.work, self.ports, number)?;
        line_of(self.deadline, &mut self.stores[number], seen, "ready").map(drop)
    }

    /// Lets the client write. The load goes on; the place in its log is where the load began.
    fn begin_load(&mut self) -> Result<usize, String> {
        let seen = self.client.log().len();
        self.client.tell(&format!("load {ROUNDS}"))?;
        line_of(self.deadline, &mut self.client, seen, "a third is written")?;
        Ok(seen)
    }

    fn end_load(&mut self, seen: usize) -> Result<String, String> {
        line_of(self.deadline, &mut self.client, seen, "loaded: ")
    }

    fn load(&mut self) -> Result<String, String> {
        let seen = self.begin_load()?;
        self.end_load(seen)
    }

    /// Lets the client compare what the stores answer with what they acknowledged.
    fn checked(&mut self) -> Result<String, String> {
        answer(self.deadline, &mut self.client, "check", "checked: ")
    }

    fn check(&mut self, step: &str) -> Outcome {
        println!("{step}; {}", self.checked()?);
        Ok(())
    }

    fn write_snapshots(&mut self) -> Outcome {
        for store in &mut self.stores {
            answer(self.deadline, store, "snapshot", "snapshots written")?;
        }
        Ok(())
    }

    /// Waits until all stores have the same entries.
    fn settle(&mut self) -> Outcome {
        let (deadline, stores) = (self.deadline, &mut self.stores);
        deadline.wait(&"all stores have the same entries", || {
            let mut states = Vec::new();
            for store in stores.iter_mut() {
                let state = answer(deadline, store, "state", "entries ")?;
                states.push(state.split(" leads ").next().map(str::to_owned));
            }
            Ok(states.iter().all(|state| *state == states[0]).then_some(()))
        })
    }

    /// Waits until the store leads all regions; asks the other leaders for that.
    fn lead(&mut self, number: usize) -> Outcome {
        let (deadline, stores, port) = (self.deadline, &mut self.stores, self.ports[number]);
        deadline.wait(&"a store leads all regions", || {
            let state = answer(deadline, &mut stores[number], "state", "entries ")?;
            if state.ends_with(&format!(" leads {REGIONS}")) {
                return Ok(Some(()));
            }
            for (other, store) in stores.iter_mut().enumerate() {
                if other != number {
                    store.tell(&format!("lead {port}"))?;
                }
            }
            std::thread::sleep(Duration::from_secs(1));
            Ok(None)
        })
    }
}

fn list(ports: [u16; 3]) -> String {
    ports.map(|port| port.to_string()).join(",")
}

fn store_dir(work: &Path, number: usize) -> PathBuf {
    work.join(format!("store{number}"))
}

fn start_store(
    build: &JavaBuild,
    work: &Path,
    ports: [u16; 3],
    number: usize,
) -> Result<ClusterProcess, String> {
    let (dir, log) = (store_dir(work, number), work.join(format!("store{number}.log")));
    let args = ["store", &list(ports), &number.to_string(), &dir.to_string_lossy()];
    build.start(&format!("store {number}"), &["-Xmx192m"], &args, &log)
}

/// Counts the regions of which the directory has a snapshot.
fn snapshots_in(raft: &Path) -> Result<usize, String> {
    let names = |dir: &Path| -> Result<Vec<PathBuf>, String> {
        let entries = fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        entries.map(|entry| entry.map(|entry| entry.path()).map_err(|e| e.to_string())).collect()
    };
    let mut count = 0;
    for region in names(raft)? {
        let snapshots = names(&region.join("snapshot"))?;
        count += usize::from(snapshots.iter().any(|path| path.to_string_lossy().contains("/snapshot_")));
    }
    Ok(count)
}

/// Tells a process a command, and waits for the line that answers.
fn answer(
    deadline: Deadline,
    process: &mut ClusterProcess,
    command: &str,
    head: &str,
) -> Result<String, String> {
    let seen = process.log().len();
    process.tell(command)?;
    line_of(deadline, process, seen, head)
}

/// Waits for a whole line that begins with `head`, behind the first `seen` bytes of the log.
/// # Errors
/// The process has ended · a command of it has failed.
fn line_of(
    deadline: Deadline,
    process: &mut ClusterProcess,
    seen: usize,
    head: &str,
) -> Result<String, String> {
    deadline
        .wait(&format!("a process says '{head}'"), || {
            let log = process.log();
            let new = log.get(seen..).unwrap_or_default();
            let mut whole = new.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            if let Some(line) = whole.find(|line| line.starts_with(head) || line.starts_with("failed: ")) {
                let line = line.trim_end();
                let failed = line.starts_with("failed: ");
                return if failed {
                    Err(format!("{line}\n{}", process.end_of_log()))
                } else {
                    Ok(Some(line.to_owned()))
                };
            }
            process.expect_running().map(|()| None)
        })
        .map_err(|error| format!("{error}\n{}", process.end_of_log()))
}
