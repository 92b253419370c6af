//! Three nodes of `examples/cluster-kv`, a key-value service over openraft and its store for
//! RocksDB, which the shim of crate `librocksdb-sys` puts on Esker. The stock crate puts it on
//! RocksDB's library.
//!
//! In: openraft and its store from the crate registry. Out: a line for each thing that was shown.
//! Clients run beside the faults; they check that their history is linearizable.

use super::http::field;
use super::process::ClusterProcess;
use super::{Choices, Deadline, WorkDir, compare};
use crate::clients::{self, Behind};
use crate::commands::{self, Outcome};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

const USAGE: &str = "\
cargo xtask cluster openraft [--rocksdb] [--short]    a killed leader, nodes cut off, a node that joins by a snapshot
cargo xtask cluster openraft --compare [PAIRS]        RocksDB and Esker in turn, without faults";

/// The version of `librocksdb-sys` under openraft's store.
const SYS: &str = "0.16.0";

/// Clients of a run that is measured, and its seconds.
const MEASURED: [&str; 2] = ["16", "20"];

/// The number of nodes at first. One more joins.
const NODES: usize = 3;

/// Runs the service through its faults.
pub(super) fn run(root: &Path, flags: &[&str]) -> Outcome {
    let (behind, flags) = match flags {
        ["--compare", pairs @ ..] => return compare(root, compare::pairs(pairs)?),
        ["--rocksdb", flags @ ..] => (Behind::RocksDb, flags),
        flags => (Behind::Esker, flags),
    };
    let is_short = match flags {
        [] => false,
        ["--short"] => true,
        _ => return Err(USAGE.to_owned()),
    };
    let build = build(root, behind, &[])?;
    let mut choices = Choices::from_seed()?;
    let mut service = Service::start_all(&build, Deadline::after(if is_short { 4 } else { 10 }))?;
    let seed = choices.below(u64::from(u32::MAX));
    // They operate until they are told to end, and then check their history.
    let mut clients = service.clients(&["load", "600", "6", &seed.to_string()])?;
    for _ in 0..if is_short { 1 } else { 4 } {
        service.kill_leader(&mut choices)?;
        service.cut_off_follower(&mut choices)?;
        service.cut_off_leader(&mut choices)?;
    }
    service.join_by_snapshot()?;
    clients.tell("end")?;
    let is_success = service.deadline.wait(&"the clients end", || clients.success())?;
    println!("{}", clients.end_of_log());
    if !is_success {
        return Err("the clients' history is wrong, or too short".to_owned());
    }
    let before = service.contents()?;
    for at in 0..=NODES {
        service.nodes[at].kill()?;
    }
    for at in 0..=NODES {
        service.start(at)?;
    }
    service.leader(None)?;
    if service.contents()? != before {
        return Err("the values have changed by a restart".to_owned());
    }
    println!("all four nodes were killed with -9 and have the same {} values", before.matches(':').count());
    Ok(())
}

/// Measures both libraries in turn, without faults.
fn compare(root: &Path, pairs: u64) -> Outcome {
    let builds = [Behind::RocksDb, Behind::Esker].map(|behind| build(root, behind, &["--release"]));
    let [rocksdb, esker] = builds;
    let (rocksdb, esker) = (rocksdb?, esker?);
    compare::in_turn(pairs, &compare::figures("operations/s"), |behind| {
        let build = if behind == Behind::Esker { &esker } else { &rocksdb };
        let mut service = Service::start_all(build, Deadline::after(5))?;
        let mut clients = service.clients(&[&["measure"][..], &MEASURED].concat())?;
        let is_success = service.deadline.wait(&"the clients end", || clients.success())?;
        if !is_success {
            return Err(clients.end_of_log());
        }
        let used = compare::used(service.nodes.iter().filter_map(|node| node.process.as_ref()))?;
        let rate = compare::number_before(&clients.log(), "operations a second")?;
        service.contents()?;
        Ok([rate, used[0], used[1], used[2]])
    })
}

/// The service's program, and the variables that it runs with.
struct ServiceBuild {
    program: PathBuf,
    env: Vec<(&'static str, PathBuf)>,
}

/// Builds the service, and runs the tests of its checker. The build shares Esker's crates with the
/// suites of `long clients`, so it has the versions of Esker's lock file.
fn build(root: &Path, behind: Behind, profile: &[&str]) -> Result<ServiceBuild, String> {
    let (example, clients) = (root.join("examples/cluster-kv"), root.join("target/clients"));
    let (dir, target, mut env) = match behind {
        Behind::Esker => (example, clients.join("target"), Vec::new()),
        Behind::RocksDb => {
            let copy = without_patch(&example, &clients.join("cluster-kv"))?;
            (copy, clients.join("target-stock"), clients::rocksdb_environment(root, SYS)?.to_vec())
        }
    };
    let lock = dir.join("Cargo.lock");
    std::fs::copy(root.join("Cargo.lock"), &lock).map_err(|error| format!("{}: {error}", lock.display()))?;
    env.push(("CARGO_TARGET_DIR", target.clone()));
    let values: Vec<_> = env.iter().map(|(name, value)| (*name, value.to_string_lossy())).collect();
    let values: Vec<(&str, &str)> = values.iter().map(|(name, value)| (*name, &**value)).collect();
    commands::run(&dir, &values, "cargo", &[&["test", "--quiet"], profile].concat())?;
    commands::run(&dir, &values, "cargo", &[&["build", "--quiet"], profile].concat())?;
    let profile = if profile.is_empty() { "debug" } else { "release" };
    Ok(ServiceBuild { program: target.join(profile).join("cluster-kv"), env })
}

/// Copies the service to `to`, without the patch of its manifest: it then has the stock
/// `librocksdb-sys`.
fn without_patch(example: &Path, to: &Path) -> Result<PathBuf, String> {
    std::fs::remove_dir_all(to).ok();
    clients::copy_dir(example, to)?;
    let path = to.join("Cargo.toml");
    let error = |error: std::io::Error| format!("{}: {error}", path.display());
    let manifest = std::fs::read_to_string(&path).map_err(error)?;
    let (head, patch) = manifest.split_once("[patch.crates-io]\n").ok_or("the manifest has no patch")?;
    let (_, rest) = patch.split_once("\n\n").ok_or("nothing is behind the patch")?;
    std::fs::write(&path, format!("{head}{rest}")).map_err(error)?;
    Ok(to.to_owned())
}

struct Service {
    program: PathBuf,
    env: Vec<(&'static str, PathBuf)>,
    nodes: Vec<ServiceNode>,
    deadline: Deadline,
    /// Removed last, when no node writes to it.
    dir: WorkDir,
}

struct ServiceNode {
    id: usize,
    address: String,
    process: Option<ClusterProcess>,
}

/// A node's answer to `State`. Numbers are indexes of the log.
struct ServiceState {
    leader: usize,
    term: u64,
    applied: u64,
    snapshot: u64,
    purged: u64,
}

impl Service {
    /// Starts three nodes, which have a leader then.
    fn start_all(build: &ServiceBuild, deadline: Deadline) -> Result<Service, String> {
        // Addresses of this process alone, so two services need no different ports.
        let number = std::process::id();
        let nodes = (1..=NODES + 1).map(|id| {
            let address = format!("127.{}.{}.{}:7000", 16 + number / 250 % 200, number % 250, 100 + id);
            ServiceNode { id, address, process: None }
        });
        let (nodes, dir) = (nodes.collect(), WorkDir::new("openraft")?);
        let (program, env) = (build.program.clone(), build.env.clone());
        let mut service = Service { program, env, nodes, deadline, dir };
        for at in 0..NODES {
            service.start(at)?;
        }
        service.begin()?;
        Ok(service)
    }

    /// Starts a node, and returns when it answers.
    fn start(&mut self, at: usize) -> Outcome {
        let node = &self.nodes[at];
        let name = format!("node{}", node.id);
        let store = self.dir.0.join(&name);
        let args = ["node", &node.id.to_string(), &node.address, &store.to_string_lossy()];
        self.nodes[at].process = Some(self.process(&name, &args)?);
        self.deadline.wait(&format!("{name} answers"), || {
            self.nodes[at].expect_running()?;
            Ok(self.nodes[at].state().map(drop))
        })
    }

    fn process(&self, name: &str, args: &[&str]) -> Result<ClusterProcess, String> {
        let env: Vec<(&str, &Path)> = self.env.iter().map(|(name, value)| (*name, &**value)).collect();
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        ClusterProcess::start(name, &self.program, &args, &env, &self.dir.0.join(format!("{name}.log")))
    }

    /// Begins the cluster, and returns when it has a leader.
    fn begin(&mut self) -> Outcome {
        let members: Vec<String> =
            self.nodes[..NODES].iter().map(|node| format!("\"{}\":\"{}\"", node.id, node.address)).collect();
        let answer = self.nodes[0].ask(&format!("{{\"Begin\":{{{}}}}}", members.join(",")))?;
        if answer.contains("Failed") {
            return Err(answer);
        }
        let leader = self.leader(None)?;
        println!("three nodes have a leader: node{}", self.nodes[leader].id);
        Ok(())
    }

    /// Starts clients with these arguments before the nodes.
    fn clients(&self, args: &[&str]) -> Result<ClusterProcess, String> {
        let nodes: Vec<String> =
            self.nodes.iter().map(|node| format!("{}={}", node.id, node.address)).collect();
        let args: Vec<&str> = args.iter().copied().chain(nodes.iter().map(String::as_str)).collect();
        self.process("clients", &args)
    }

    /// Waits until a node leads in the newest term, other than the node at `except`.
    fn leader(&mut self, except: Option<usize>) -> Result<usize, String> {
        self.deadline.wait(&"the nodes have a leader", || {
            let states = self.nodes.iter().enumerate().filter(|(at, _)| Some(*at) != except);
            let states = states.filter_map(|(at, node)| Some((node.state()?, at)));
            let newest = states.max_by_key(|(state, _)| state.term);
            Ok(newest.and_then(|(state, _)| {
                let leader = self.nodes.iter().position(|node| node.id == state.leader)?;
                (Some(leader) != except && self.nodes[leader].state().is_some()).then_some(leader)
            }))
        })
    }

    /// Waits until a node has applied `count` entries more than the leader has now.
    fn wait_for(&mut self, at: usize, leader: usize, count: u64) -> Result<u64, String> {
        let now = |service: &Service, at: usize| service.nodes[at].state().map_or(0, |state| state.applied);
        let wanted = now(self, leader) + count;
        self.deadline.wait(&format!("node{} has applied entry {wanted}", self.nodes[at].id), || {
            self.nodes[at].expect_running()?;
            Ok(Some(now(self, at)).filter(|applied| *applied >= wanted))
        })
    }

    fn kill_leader(&mut self, choices: &mut Choices) -> Outcome {
        let leader = self.leader(None)?;
        self.wait_for(leader, leader, 10 + choices.below(50))?;
        self.nodes[leader].kill()?;
        let new = self.leader(Some(leader))?;
        self.wait_for(new, new, 10)?;
        self.start(leader)?;
        let applied = self.wait_for(leader, new, 0)?;
        let [old, new] = [leader, new].map(|at| self.nodes[at].id);
        println!(
            "leader node{old} was killed with -9, node{new} follows it; node{old} is back at entry {applied}"
        );
        Ok(())
    }

    fn cut_off_follower(&mut self, choices: &mut Choices) -> Outcome {
        let leader = self.leader(None)?;
        let follower = (leader + 1 + usize::from(choices.below(2) == 0)) % NODES;
        self.cut(follower)?;
        self.wait_for(leader, leader, 30)?;
        let behind = self.rejoin(follower)?;
        let leader = self.leader(None)?;
        let applied = self.wait_for(follower, leader, 0)?;
        let id = self.nodes[follower].id;
        println!(
            "follower node{id} was cut off at entry {behind} at the latest, and is back at entry {applied}"
        );
        Ok(())
    }

    fn cut_off_leader(&mut self, choices: &mut Choices) -> Outcome {
        let leader = self.leader(None)?;
        self.wait_for(leader, leader, choices.below(30))?;
        self.cut(leader)?;
        let new = self.leader(Some(leader))?;
        self.wait_for(new, new, 10)?;
        self.rejoin(leader)?;
        let applied = self.wait_for(leader, new, 0)?;
        let [old, new] = [leader, new].map(|at| self.nodes[at].id);
        println!("leader node{old} was cut off, node{new} followed it; node{old} is back at entry {applied}");
        Ok(())
    }

    /// Takes a node off the network, and waits until its port is closed.
    fn cut(&mut self, at: usize) -> Outcome {
        self.nodes[at].tell("cut")?;
        let address = self.nodes[at].address.clone();
        self.deadline.wait(&"the port is closed", || Ok(TcpStream::connect(&address).is_err().then_some(())))
    }

    /// Brings a node back, and returns the last entry that it had applied then.
    fn rejoin(&mut self, at: usize) -> Result<u64, String> {
        self.nodes[at].tell("join")?;
        self.deadline.wait(&"the port is open", || {
            self.nodes[at].expect_running()?;
            Ok(self.nodes[at].state().map(|state| state.applied))
        })
    }

    /// Adds a node with an empty store. The leader's log no longer begins at its first entry, so
    /// the node needs a snapshot.
    fn join_by_snapshot(&mut self) -> Outcome {
        let mut leader = self.leader(None)?;
        let purged = self.deadline.wait(&"the leader has shortened its log", || {
            Ok(self.nodes[leader].state().map(|state| state.purged).filter(|purged| *purged > 0))
        })?;
        self.start(NODES)?;
        let (id, address) = (self.nodes[NODES].id, self.nodes[NODES].address.clone());
        let members: Vec<String> = self.nodes.iter().map(|node| node.id.to_string()).collect();
        let learn = format!("{{\"Learn\":{{\"node\":{id},\"address\":\"{address}\"}}}}");
        for request in [learn, format!("{{\"Members\":[{}]}}", members.join(","))] {
            loop {
                match self.nodes[leader].ask(&request) {
                    Ok(answer) if answer.contains("Done") => break,
                    Ok(answer) if answer.contains("Failed") => return Err(answer),
                    _ => leader = self.leader(None)?,
                }
            }
        }
        let applied = self.wait_for(NODES, leader, 0)?;
        let state = self.nodes[NODES].state().ok_or_else(|| format!("node{id} does not answer"))?;
        if state.snapshot < purged || state.purged == 0 {
            return Err(format!("node{id} has got no snapshot"));
        }
        let snapshot = state.snapshot;
        println!("node{id} joined: a snapshot up to entry {snapshot} or before, now at entry {applied}");
        Ok(())
    }

    /// Waits until all nodes that run have applied the same entries, and returns their values.
    /// # Errors
    /// The values of two nodes differ.
    fn contents(&mut self) -> Result<String, String> {
        let all = self.deadline.wait(&"all nodes have applied the same entries", || {
            let ask = |node: &ServiceNode| node.ask("\"Contents\"");
            let running = self.nodes.iter().filter(|node| node.process.is_some());
            let all = running.map(ask).collect::<Result<Vec<String>, String>>();
            let all = all.unwrap_or_default();
            let applied = |answer: &String| field(answer, "applied").map(str::to_owned);
            let is_same = all.iter().all(|answer| applied(answer) == applied(&all[0]));
            Ok(Some(all).filter(|all| !all.is_empty() && is_same))
        })?;
        let values = |answer: &String| answer.split("\"values\":").nth(1).unwrap_or_default().to_owned();
        match all.iter().find(|answer| values(answer) != values(&all[0])) {
            Some(other) => Err(format!("nodes have different values:\n{}\n{other}", all[0])),
            None => Ok(values(&all[0])),
        }
    }
}

impl ServiceNode {
    /// Sends one request and returns the answer, a line of JSON.
    fn ask(&self, request: &str) -> Result<String, String> {
        let error = |error: std::io::Error| format!("node{}: {error}", self.id);
        let address = self.address.parse().map_err(|e| format!("{}: {e}", self.address))?;
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1)).map_err(error)?;
        stream.set_read_timeout(Some(Duration::from_secs(30))).map_err(error)?;
        stream.write_all(format!("{request}\n").as_bytes()).map_err(error)?;
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).map_err(error)?;
        Ok(answer)
    }

    fn state(&self) -> Option<ServiceState> {
        let answer = self.ask("\"State\"").ok()?;
        let number = |name| field(&answer, name)?.parse::<u64>().ok();
        Some(ServiceState {
            leader: usize::try_from(number("leader")?).ok()?,
            term: number("term")?,
            applied: number("applied")?,
            snapshot: number("snapshot")?,
            purged: number("purged")?,
        })
    }

    fn tell(&mut self, word: &str) -> Outcome {
        let process = self.process.as_mut().ok_or_else(|| format!("node{} does not run", self.id))?;
        process.tell(word)
    }

    fn kill(&mut self) -> Outcome {
        self.process.take().map_or(Ok(()), |mut process| process.kill())
    }

    /// Checks that the process runs.
    /// # Errors
    /// It has ended: the error has the end of its log.
    fn expect_running(&mut self) -> Outcome {
        match &mut self.process {
            Some(process) => process.expect_running(),
            None => Err(format!("node{} does not run", self.id)),
        }
    }
}
