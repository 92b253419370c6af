//! Kafka Streams on RocksJava: a broker in KRaft mode, and two instances of a job that counts
//! records by key in a store, exactly once, with a standby replica.
//!
//! In: the jars of the Maven registry, `KafkaTotals.java`, and `librocksdbjni.so`, which is built
//! here. Out: a line for each thing that was shown. One instance is killed with signal 9 between
//! two loads, and comes back with its directory; the totals must equal the records.

use super::java::{Jar, JavaBuild, free_port};
use super::process::ClusterProcess;
use super::{Deadline, WorkDir};
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

/// Runs the job on Esker, or on RocksDB.
pub(super) fn run(root: &Path, flags: &[&str]) -> Outcome {
    let build = JavaBuild::new(root, "kafka-streams", "KafkaTotals", &JARS, flags)?;
    let work = WorkDir::new("kafka-streams")?;
    let deadline = Deadline::after(MINUTES);
    let ports = [free_port()?, free_port()?];
    let address = format!("127.0.0.1:{}", ports[0]);
    let mut broker = broker(&build, &work.0, &ports)?;
    deadline.wait(&"the broker listens", || {
        if !broker.is_running()? {
            return Err(format!("the broker has ended:\n{}", broker.end_of_log()));
        }
        Ok(std::net::TcpStream::connect(&address).ok().map(drop))
    })?;
    println!("a broker of Kafka 4.4.0 in KRaft mode listens");
    build.said("KafkaTotals", &["topics", &address])?;
    let mut apps = [app(&build, &work.0, &address, 1)?, app(&build, &work.0, &address, 2)?];
    for app in &mut apps {
        wait_until_running(deadline, app, 1)?;
    }
    build.check_loaded(&apps)?;
    build.said("KafkaTotals", &["produce", &address, &ROUNDS.to_string()])?;
    apps[0].kill()?;
    build.said("KafkaTotals", &["produce", &address, &ROUNDS.to_string()])?;
    println!("an instance was killed with signal 9 between two loads");
    apps[0] = app(&build, &work.0, &address, 1)?;
    build.said("KafkaTotals", &["produce", &address, &ROUNDS.to_string()])?;
    let totals = build.said("KafkaTotals", &["totals", &address, &(3 * ROUNDS).to_string(), "180"])?;
    let wanted = format!("keys {KEYS} sum {} equal true", 3 * ROUNDS * KEYS);
    if !totals.contains(&wanted) {
        let logs = [apps[0].end_of_log(), apps[1].end_of_log()].join("\n");
        return Err(format!("the totals are '{}', not '{wanted}':\n{logs}", totals.trim()));
    }
    println!("each of {KEYS} keys has the total {}: {} records, exactly once", 3 * ROUNDS, 3 * ROUNDS * KEYS);
    for app in &mut apps {
        if app.log().contains("Exception") {
            return Err(format!("an instance has met an exception:\n{}", app.end_of_log()));
        }
        app.stop()?;
    }
    broker.stop()
}

/// Formats the broker's directory and starts the broker.
fn broker(build: &JavaBuild, work: &Path, ports: &[u16; 2]) -> Result<ClusterProcess, String> {
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
    build.start_class("the broker", "kafka.Kafka", &["-Xmx384m"], &[&settings], &work.join("broker.log"))
}

/// Starts an instance of the job, with its own directory.
fn app(build: &JavaBuild, work: &Path, address: &str, number: u32) -> Result<ClusterProcess, String> {
    let state = work.join(format!("state{number}"));
    let (name, log) = (format!("instance {number}"), work.join(format!("instance{number}.log")));
    build.start(&name, &["-Xmx192m"], &["app", address, &state.to_string_lossy()], &log)
}

/// Waits until the instance has said `times` times that it runs.
fn wait_until_running(deadline: Deadline, app: &mut ClusterProcess, times: usize) -> Outcome {
    deadline.wait(&"an instance runs", || {
        if !app.is_running()? || app.log().contains("state ERROR") {
            return Err(format!("an instance has ended:\n{}", app.end_of_log()));
        }
        Ok((app.log().matches("state RUNNING").count() >= times).then_some(()))
    })
}
