//! Kafka Streams on RocksJava: a broker in KRaft mode, and two instances of a job that counts
//! records by key in a store, exactly once, with a standby replica.
//!
//! In: the jars of the Maven registry, `KafkaTotals.java`, and `librocksdbjni.so`, which is built
//! here. Out: a line for each thing that was shown. One instance is killed with signal 9 between
//! two loads, and comes back with its directory; the totals must equal the records.

use super::process::ClusterProcess;
use super::{Deadline, WorkDir, build_dir};
use crate::commands::{Outcome, target_dir};
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

const USAGE: &str = "cargo xtask cluster kafka-streams [--rocksdb]   (--rocksdb: on RocksDB's own library)";

/// The jars' names, for Maven.
const POM: &str = "\
<project xmlns=\"http://maven.apache.org/POM/4.0.0\">
<modelVersion>4.0.0</modelVersion>
<groupId>esker</groupId><artifactId>kafka-totals</artifactId><version>1</version>
<dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>4.4.0</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-streams</artifactId><version>4.4.0</version></dependency>
</dependencies>
</project>
";

/// Records of each key in one load, and the number of keys.
const ROUNDS: u64 = 300;
const KEYS: u64 = 100;

/// Minutes for the whole command.
const MINUTES: u64 = 8;

/// The programs' class path, and the directory of the library.
struct KafkaBuild {
    class_path: String,
    library: Option<PathBuf>,
    _lock: fs::File,
}

/// Runs the job on Esker, or on RocksDB.
pub(super) fn run(root: &Path, flags: &[&str]) -> Outcome {
    let on_rocksdb = match flags {
        [] => false,
        ["--rocksdb"] => true,
        _ => return Err(USAGE.to_owned()),
    };
    let build = build(root, on_rocksdb)?;
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
    said(&build, &["topics", &address])?;
    let mut apps = [app(&build, &work.0, &address, 1)?, app(&build, &work.0, &address, 2)?];
    for app in &mut apps {
        wait_until_running(deadline, app, 1)?;
    }
    if let Some(library) = &build.library {
        for app in &apps {
            if !app.has_mapped(&library.join("librocksdbjni.so"))? {
                return Err("an instance has not loaded Esker's library".to_owned());
            }
        }
        println!("both instances have loaded Esker's library");
    }
    said(&build, &["produce", &address, &ROUNDS.to_string()])?;
    apps[0].kill()?;
    said(&build, &["produce", &address, &ROUNDS.to_string()])?;
    println!("an instance was killed with signal 9 between two loads");
    apps[0] = app(&build, &work.0, &address, 1)?;
    said(&build, &["produce", &address, &ROUNDS.to_string()])?;
    let totals = said(&build, &["totals", &address, &(3 * ROUNDS).to_string(), "180"])?;
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

/// Fetches the jars, and builds the program and the library.
fn build(root: &Path, on_rocksdb: bool) -> Result<KafkaBuild, String> {
    let (dir, lock) = build_dir(root)?;
    let dir = dir.join("kafka-streams");
    let (jars, classes, library) = (dir.join("jars"), dir.join("classes"), dir.join("lib"));
    for made in [&dir, &classes, &library] {
        fs::create_dir_all(made).map_err(|e| format!("{}: {e}", made.display()))?;
    }
    let pom = dir.join("pom.xml");
    fs::write(&pom, POM).map_err(|e| format!("{}: {e}", pom.display()))?;
    if !jars.join("kafka-streams-4.4.0.jar").is_file() {
        let goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies";
        let output = format!("-DoutputDirectory={}", jars.display());
        checked(Command::new("mvn").args(["-q", "-f"]).arg(&pom).args([goal, &output]))?;
    }
    let all_jars = format!("{}/*", jars.display());
    let source = root.join("crates/rocksdbjni/java/KafkaTotals.java");
    checked(Command::new("javac").arg("-d").arg(&classes).arg("-cp").arg(&all_jars).arg(&source))?;
    if !on_rocksdb {
        checked(
            Command::new("cargo").args(["build", "--quiet", "-p", "esker-rocksdbjni"]).current_dir(root),
        )?;
        let built = target_dir(root).join("debug/librocksdbjni.so");
        fs::copy(&built, library.join("librocksdbjni.so"))
            .map_err(|e| format!("{}: {e}", built.display()))?;
    }
    let class_path = format!("{all_jars}:{}", classes.display());
    Ok(KafkaBuild { class_path, library: (!on_rocksdb).then_some(library), _lock: lock })
}

/// Formats the broker's directory and starts the broker.
fn broker(build: &KafkaBuild, work: &Path, ports: &[u16; 2]) -> Result<ClusterProcess, String> {
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
    let mut format = Command::new("java");
    format.args(["-cp", &build.class_path, "kafka.tools.StorageTool", "format", "-t", cluster, "-c"]);
    checked(format.arg(&settings))?;
    let settings = settings.to_string_lossy().into_owned();
    let args = ["-Xmx384m", "-cp", &build.class_path, "kafka.Kafka", &settings].map(str::to_owned);
    ClusterProcess::start("the broker", Path::new("java"), &args, &[], &work.join("broker.log"))
}

/// Starts an instance of the job, with its own directory.
fn app(build: &KafkaBuild, work: &Path, address: &str, number: u32) -> Result<ClusterProcess, String> {
    let state = work.join(format!("state{number}"));
    let mut args = vec!["-Xmx192m".to_owned()];
    if let Some(library) = &build.library {
        args.push(format!("-Djava.library.path={}", library.display()));
    }
    let state = state.to_string_lossy().into_owned();
    args.extend(["-cp", &build.class_path, "KafkaTotals", "app", address, &state].map(str::to_owned));
    let (name, log) = (format!("instance {number}"), work.join(format!("instance{number}.log")));
    ClusterProcess::start(&name, Path::new("java"), &args, &[], &log)
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

/// Runs a command of the program, and returns what it prints.
fn said(build: &KafkaBuild, args: &[&str]) -> Result<String, String> {
    let mut java = Command::new("timeout");
    checked(java.args(["240", "java", "-Xmx192m", "-cp", &build.class_path, "KafkaTotals"]).args(args))
}

fn checked(command: &mut Command) -> Result<String, String> {
    let line = format!("{command:?}");
    let output = command.output().map_err(|e| format!("{line}: {e}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    Err(format!("failed: {line}\n{out}\n{err}"))
}

/// A port of loopback that is free now.
fn free_port() -> Result<u16, String> {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    Ok(port.map_err(|error| format!("no port of loopback is free: {error}"))?.port())
}
