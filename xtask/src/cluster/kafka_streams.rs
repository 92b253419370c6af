//! Kafka Streams on RocksJava: a broker in KRaft mode, and two instances of a job that counts
//! records by key in a store, exactly once, with a standby replica.
//!
//! In: the jars of the Maven registry, `KafkaTotals.java`, and `librocksdbjni.so`, which is built
//! here. Out: a line for each thing that was shown. One instance is killed with signal 9 between
//! two loads, and comes back with its directory; the totals must equal the records.

use super::java::{Jar, JavaBuild, free_port};
use super::process::ClusterProcess;
use super::{Deadline, WorkDir, compare};
use crate::commands::Outcome;
use std::fs;
use std::path::Path;

const JARS: [Jar; 2] =
    [("org.apache.kafka", "kafka_2.13", "4.4.0"), ("org.apache.kafka", "kafka-streams", "4.4.0")];

/// Records of each key in one load, and the number of keys.
const ROUNDS: u64 = 300;
const KEYS: u64 = 100;

/// Minutes for the whole command.
const MINUTES: u64 = 8;

/// Rounds of a load on a library that is measured.
const MEASURED_ROUNDS: u64 = 6000;

/// Runs the job on Esker, or on RocksDB.
pub(super) fn run(root: &Path, flags: &[&str]) -> Outcome {
    if let ["--compare", pairs @ ..] = flags {
        return compare(root, compare::pairs(pairs)?);
    }
    let build = JavaBuild::new(root, "kafka-streams", "KafkaTotals", &JARS, flags)?;
    let work = WorkDir::new("kafka-streams")?;
    let deadline = Deadline::after(MINUTES);
    let (mut broker, address) = broker(&build, &work.0, deadline)?;
    println!("a broker of Kafka 4.4.0 in KRaft mode listens");
    let mut apps = [app(&build, &work.0, &address, 1)?, app(&build, &work.0, &address, 2)?];
    for app in &mut apps {
        wait_until_running(deadline, app)?;
    }
    build.check_loaded(&apps)?;
    produce(&build, &address, ROUNDS)?;
    apps[0].kill()?;
    produce(&build, &address, ROUNDS)?;
    println!("an instance was killed with signal 9 between two loads");
    apps[0] = app(&build, &work.0, &address, 1)?;
    produce(&build, &address, ROUNDS)?;
    totals(&build, &address, 3 * ROUNDS, &apps)?;
    println!("each of {KEYS} keys has the total {}: {} records, exactly once", 3 * ROUNDS, 3 * ROUNDS * KEYS);
    end(&mut apps, &mut broker)
}

/// Lets both libraries in turn take in records that are there when the instances start.
fn compare(root: &Path, pairs: u64) -> Outcome {
    let build = JavaBuild::new(root, "kafka-streams", "KafkaTotals", &JARS, &["--release"])?;
    compare::in_turn(pairs, &compare::figures("records/s"), |behind| {
        let (build, work) = (build.on(behind), WorkDir::new("kafka-streams")?);
        let (mut broker, address) = broker(&build, &work.0, Deadline::after(MINUTES))?;
        produce(&build, &address, MEASURED_ROUNDS)?;
        let mut apps = [app(&build, &work.0, &address, 1)?, app(&build, &work.0, &address, 2)?];
        let said = totals(&build, &address, MEASURED_ROUNDS, &apps)?;
        let used = compare::used(&apps)?;
        let seconds = compare::number_before(&said, "seconds")?;
        end(&mut apps, &mut broker)?;
        #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
        let records = (MEASURED_ROUNDS * KEYS) as f64;
        Ok([records / seconds, used[0], used[1], used[2]])
    })
}

/// Writes `rounds` records of each key.
fn produce(build: &JavaBuild, address: &str, rounds: u64) -> Outcome {
    build.said("KafkaTotals", &["produce", address, &rounds.to_string()]).map(drop)
}

/// Waits until each key has the total `rounds`. Returns what the program says.
fn totals(
    build: &JavaBuild,
    address: &str,
    rounds: u64,
    apps: &[ClusterProcess; 2],
) -> Result<String, String> {
    let totals = build.said("KafkaTotals", &["totals", address, &rounds.to_string(), "180"])?;
    let wanted = format!("keys {KEYS} sum {} equal true", rounds * KEYS);
    if !totals.contains(&wanted) {
        let logs = [apps[0].end_of_log(), apps[1].end_of_log()].join("\n");
        return Err(format!("the totals are '{}', not '{wanted}':\n{logs}", totals.trim()));
    }
    Ok(totals)
}

/// Ends the processes.
/// # Errors
/// An instance has met an exception.
fn end(apps: &mut [ClusterProcess; 2], broker: &mut ClusterProcess) -> Outcome {
    for app in apps {
        if app.log().contains("Exception") {
            return Err(format!("an instance has met an exception:\n{}", app.end_of_log()));
        }
        app.stop()?;
    }
    broker.stop()
}

/// Starts a broker, makes the topics, and returns the broker's address, too.
fn broker(build: &JavaBuild, work: &Path, deadline: Deadline) -> Result<(ClusterProcess, String), String> {
    let ports = [free_port()?, free_port()?];
    let address = format!("127.0.0.1:{}", ports[0]);
    let settings = work.join("server.properties");
    let text = format!(
        "process.roles=broker,controller\nnode.id=1\n\
         listeners=PLAINTEXT://127.0.0.1:{0},CONTROLLER://127.0.0.1:{1}\n\
         advertised.listeners=PLAINTEXT://127.0.0.1:{0}\ncontroller.listener.names=CONTROLLER\n\
         controller.quorum.voters=1@127.0.0.1:{1}\n\
         listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
         log.dirs={2}\noffsets.topic.replication.factor=1\noffsets.topic.num.partitions=4\n\
         transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n\
         transaction.state.log.num.partitions=4\ngroup.initial.rebalance.delay.ms=0\n",
        ports[0],
        ports[1],
        work.join("broker").display()
    );
    fs::write(&settings, text).map_err(|e| format!("{}: {e}", settings.display()))?;
    let cluster = "AAAAAAAAAAAAAAAAAAAAAQ";
    let settings = settings.to_string_lossy();
    build.said("kafka.tools.StorageTool", &["format", "-t", cluster, "-c", &settings])?;
    let log = work.join("broker.log");
    let mut broker = build.start_class("the broker", "kafka.Kafka", &["-Xmx384m"], &[&settings], &log)?;
    deadline.wait(&"the broker listens", || {
        broker.expect_running()?;
        Ok(std::net::TcpStream::connect(&address).ok().map(drop))
    })?;
    build.said("KafkaTotals", &["topics", &address])?;
    Ok((broker, address))
}

/// Starts an instance of the job, with its own directory.
fn app(build: &JavaBuild, work: &Path, address: &str, number: u32) -> Result<ClusterProcess, String> {
    let state = work.join(format!("state{number}"));
    let (name, log) = (format!("instance {number}"), work.join(format!("instance{number}.log")));
    build.start(&name, &["-Xmx192m"], &["app", address, &state.to_string_lossy()], &log)
}

/// Waits until the instance has said that it runs.
fn wait_until_running(deadline: Deadline, app: &mut ClusterProcess) -> Outcome {
    deadline.wait(&"an instance runs", || {
        if !app.is_running()? || app.log().contains("state ERROR") {
            return Err(format!("an instance has ended:\n{}", app.end_of_log()));
        }
        Ok(app.log().contains("state RUNNING").then_some(()))
    })
}
