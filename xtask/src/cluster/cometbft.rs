//! Four validators of CometBFT, the consensus engine of the Cosmos chains: a node in Go that keeps
//! blocks, state and its index of transactions in RocksDB.
//!
//! In: the node of the Go module proxy, built without changes, and the libraries. Out: a line for
//! each thing that was shown. The blocks of the nodes, their results and the index's answers are
//! compared as texts.

mod measure;
mod network;

use self::network::{Library, NODES, Network, base64};
use super::http::{field, get};
use super::{Choices, Deadline, build_dir};
use crate::capi::install_built;
use crate::commands::{self, Outcome};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

const USAGE: &str = "\
cargo xtask cluster cometbft [--rocksdb DIR] [--short]    kills, a wiped node, a full disk
cargo xtask cluster cometbft [--rocksdb DIR] --handover   node by node from RocksDB to Esker and back
cargo xtask cluster cometbft [--rocksdb DIR] --compare [PAIRS] [SECONDS]
DIR has librocksdbjni-linux64.so, as .ci/fetch-peers leaves it; it is $ESKER_PEERS_DIR or target/peers
for --handover and --compare. Otherwise the network runs on RocksDB only with --rocksdb";

/// A program that has CometBFT's node. Its checksums come from Go's database of checksums.
const GO_MOD: &str = "module esker.example/cometbft\n\ngo 1.25.0\n\nrequire (\n\
    \tgithub.com/cometbft/cometbft v0.40.0\n\tgithub.com/linxGnu/grocksdb v1.11.1\n)\n";
const PACKAGE: &str = "github.com/cometbft/cometbft/cmd/cometbft";

/// The node's program, and the library that it was linked with.
struct Build {
    program: PathBuf,
    esker: Library,
    _lock: std::fs::File,
}

/// Runs the network that the flags describe.
pub(super) fn run(root: &Path, flags: &[&str]) -> Outcome {
    let (given, flags) = match flags {
        ["--rocksdb", dir, flags @ ..] => (Some(PathBuf::from(dir)), flags),
        flags => (None, flags),
    };
    match flags {
        [] | ["--short"] => {
            let build = build(root, "debug")?;
            let library = match given {
                Some(dir) => rocksdb(&build, &dir)?,
                None => build.esker.clone(),
            };
            faults(&build, &library, !flags.is_empty())
        }
        ["--handover"] => {
            let build = build(root, "debug")?;
            let rocksdb = rocksdb(&build, &peers(root, given))?;
            hand_over(&build, &rocksdb)
        }
        ["--compare", numbers @ ..] if numbers.len() <= 2 => {
            let number = |at: usize, default: u64| match numbers.get(at) {
                Some(text) => text.parse().map_err(|_| format!("'{text}' is no number\n{USAGE}")),
                None => Ok(default),
            };
            let (pairs, seconds) = (number(0, 5)?, number(1, 30)?);
            let build = build(root, "release")?;
            let rocksdb = rocksdb(&build, &peers(root, given))?;
            measure::run(&build.program, &rocksdb, &build.esker, pairs, seconds)
        }
        _ => Err(USAGE.to_owned()),
    }
}

/// The directory of the real library.
fn peers(root: &Path, given: Option<PathBuf>) -> PathBuf {
    let default = || std::env::var_os("ESKER_PEERS_DIR").map_or(root.join("target/peers"), PathBuf::from);
    given.unwrap_or_else(default)
}

/// Builds the library in `profile`, and the node. The debug library has assertions and checks of
/// overflow.
fn build(root: &Path, profile: &str) -> Result<Build, String> {
    let (dir, lock) = build_dir(root)?;
    let mut cargo = vec!["build", "--quiet", "-p", "esker-capi"];
    cargo.extend(if profile == "release" { &["--release"][..] } else { &[] });
    commands::run(root, &[], "cargo", &cargo)?;
    let prefix = dir.join(format!("esker-{profile}"));
    install_built(root, &commands::target_dir(root).join(profile), &prefix)?;
    let (module, program) = (dir.join("cometbft"), dir.join("cometbft/node"));
    std::fs::create_dir_all(&module).map_err(|error| format!("{}: {error}", module.display()))?;
    let go_mod = module.join("go.mod");
    std::fs::write(&go_mod, GO_MOD).map_err(|error| format!("{}: {error}", go_mod.display()))?;
    let include = format!("-I{}", prefix.join("include").display());
    let link = format!("-L{} -lrocksdb", prefix.join("lib").display());
    let env = [("CGO_CFLAGS", include.as_str()), ("CGO_LDFLAGS", &link), ("GOFLAGS", "-mod=mod")];
    let tags = ["-tags", "rocksdb grocksdb_no_link", "-buildvcs=false"];
    commands::run(&module, &env, "go", &[&["build"][..], &tags, &["-o", "node", PACKAGE]].concat())?;
    let esker = Library { name: "Esker", dir: prefix.join("lib") };
    Ok(Build { program, esker, _lock: lock })
}

/// The library of RocksDB 11.8.1 in `peers`, under the name that the node looks for.
fn rocksdb(build: &Build, peers: &Path) -> Result<Library, String> {
    let file = peers.join("librocksdbjni-linux64.so");
    let file = std::fs::canonicalize(&file)
        .map_err(|error| format!("{}: {error}; run .ci/fetch-peers", file.display()))?;
    let dir = build.program.with_file_name("rocksdb-lib");
    let link = dir.join("librocksdb.so.11");
    let error = |error: std::io::Error| format!("{}: {error}", link.display());
    std::fs::create_dir_all(&dir).map_err(error)?;
    if link.symlink_metadata().is_ok() {
        std::fs::remove_file(&link).map_err(error)?;
    }
    std::os::unix::fs::symlink(file, &link).map_err(error)?;
    Ok(Library { name: "RocksDB", dir })
}

/// Runs a network through faults: a killed node, a wiped one, kills at random times, a full disk, a
/// restart of all.
fn faults(build: &Build, library: &Library, is_short: bool) -> Outcome {
    let mut choices = Choices::from_seed()?;
    let deadline = Deadline::after(if is_short { 6 } else { 15 });
    let mut network = Network::new(&build.program, library, "rocksdb", deadline)?;
    network.start_all(library)?;
    network.wait_for(0, 2)?;
    let clients = Clients::start(&network);

    network.kill(3)?;
    let without = network.wait_for_blocks(0, 5)?;
    network.start(3, library)?;
    let back = network.wait_for(3, without.height)?;
    println!("node3 was killed with -9 and came back: height {}", back.height);

    network.kill(2)?;
    network.wipe(2)?;
    network.start(2, library)?;
    let height = network.height()?;
    let back = network.wait_for(2, height)?;
    println!("node2 lost its stores and took over all blocks: height {}", back.height);

    let kills = if is_short { 3 } else { 20 };
    for _ in 0..kills {
        let victim = usize::try_from(choices.below(NODES as u64)).expect("there are four");
        choices.pause(1500);
        network.kill(victim)?;
        choices.pause(1000);
        network.start(victim, library)?;
        let height = network.height()?;
        network.wait_for(victim, height)?;
    }
    println!("{kills} kills with -9 at random times: each node came back");
    full_disk(&mut network, library)?;
    let committed = clients.stop()?;
    restart_all(&mut network, library)?;
    check(&mut network, library, &committed)
}

/// Ends all nodes, two of them with signal 9, and starts them again.
fn restart_all(network: &mut Network, library: &Library) -> Outcome {
    let height = network.height()?;
    network.kill(0)?;
    network.kill(1)?;
    network.stop(2)?;
    network.stop(3)?;
    network.start_all(library)?;
    for at in 0..NODES {
        network.wait_for(at, height + 2)?;
    }
    println!("all nodes were stopped at height {height}, two with -9, and continued");
    Ok(())
}

/// Compares the histories of all nodes, which must have the transactions `committed`: in the block
/// that the client was told, and in the index.
fn check(network: &mut Network, library: &Library, committed: &[Committed]) -> Outcome {
    println!("{}: {}", library.name, network.compare()?);
    let mut absent = 0;
    for Committed { text, hash, height } in committed {
        let has = |height: u64| {
            let block = network.same(&format!("/block?height={height}"))?;
            Ok::<_, String>(block.contains(&base64(text.as_bytes())))
        };
        if !has(*height)? {
            return Err(format!("'{text}' was acknowledged in block {height}, which does not have it"));
        }
        for node in &network.nodes {
            let answer =
                get(&node.rpc, &format!("/tx?hash=0x{hash}")).map_err(|e| format!("{}: {e}", node.rpc))?;
            let found = field(&answer, "height").and_then(|height| height.parse().ok());
            match found {
                None if node.may_lack_index_of(*height) => absent += 1,
                Some(found) if found == *height => {}
                // A node that came back passed it on again: the index has the last of its blocks.
                Some(later) if later > *height && has(later)? => {}
                _ => {
                    return Err(format!(
                        "{}: '{text}' of block {height} is not in the index: {answer}",
                        node.rpc
                    ));
                }
            }
        }
    }
    let all = committed.len();
    println!("{all} acknowledged transactions are in their blocks, and in the indexes of all four");
    if absent > 0 {
        println!("but {absent} index entries, of blocks that a node had stored just before it ended");
    }
    if committed.is_empty() { Err("no transaction was committed".to_owned()) } else { Ok(()) }
}

/// Moves the stores of one node to a small file system, which fills up. The node must stop with an
/// error that names the cause; the others go on. With more space the node comes back.
fn full_disk(network: &mut Network, library: &Library) -> Outcome {
    const NODE: usize = 3;
    network.kill(NODE)?;
    let Some(disk) = SmallDisk::around(&network.data(NODE))? else {
        return network.start(NODE, library).map(drop);
    };
    network.start(NODE, library)?;
    let error = fill_disk(network, NODE)?;
    println!("node3 stopped on its full disk: {}", error.chars().take(300).collect::<String>());
    network.wait_for_blocks(0, 5)?;
    network.kill(NODE)?;
    disk.enlarge()?;
    network.start(NODE, library)?;
    let height = network.height()?;
    let back = network.wait_for(NODE, height)?;
    println!("the network went on without it; with more space it came back: height {}", back.height);
    // The stores return to the large disk, so that the small one can be removed.
    network.kill(NODE)?;
    disk.remove()?;
    network.start(NODE, library)?;
    network.wait_for(NODE, back.height).map(drop)
}

/// Sends large transactions until `node` has stopped on its full disk. Returns the line of its log
/// that says so.
/// # Errors
/// The node has stopped for another cause, or without naming one.
fn fill_disk(network: &mut Network, node: usize) -> Result<String, String> {
    let (rpc, deadline) = (network.nodes[0].rpc.clone(), network.deadline);
    let process = network.nodes[node].process.as_mut().ok_or("the node does not run")?;
    let what = format!("the disk of node{node} is full");
    let (mut sent, mut since_end) = (0_u64, 0);
    deadline.wait(&what, || {
        sent += 1;
        // One at a time in the index, each three times in the stores.
        let transaction = format!("/broadcast_tx_commit?tx=\"full{sent}={}\"", "x".repeat(200_000));
        get(&rpc, &transaction).map_err(|error| format!("node0: {error}"))?;
        let log = process.log();
        if let Some(line) = log.lines().find(|line| is_end(line) && names_full_disk(line)) {
            return Ok(Some(line.to_owned()));
        }
        // The line may not be whole yet.
        since_end += u32::from(log.lines().any(is_end) || !process.is_running()?);
        match since_end {
            0..20 => Ok(None),
            _ => Err(format!("node{node} stopped for another cause:\n{}", process.end_of_log())),
        }
    })
}

/// Whether a line of a node's log says that the node takes no further part. A node whose index has
/// failed goes on without it.
fn is_end(line: &str) -> bool {
    line.contains("CONSENSUS FAILURE") || line.starts_with("panic")
}

/// Whether a line names the full disk, in the words of the C library or of Go: CometBFT also writes
/// files of its own.
fn names_full_disk(line: &str) -> bool {
    line.to_lowercase().contains("no space left on device")
}

/// A small file system in the place of a directory, whose content it has.
struct SmallDisk {
    dir: PathBuf,
    saved: PathBuf,
}

impl SmallDisk {
    /// The size at first, in megabytes.
    const SIZE: &str = "48m";

    /// Mounts it. `None`: this process may not mount; says so.
    fn around(dir: &Path) -> Result<Option<SmallDisk>, String> {
        let disk = SmallDisk { dir: dir.to_owned(), saved: dir.with_extension("saved") };
        let error = |error: std::io::Error| format!("{}: {error}", dir.display());
        std::fs::rename(dir, &disk.saved).map_err(error)?;
        std::fs::create_dir(dir).map_err(error)?;
        let options = format!("size={}", SmallDisk::SIZE);
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(dir).output();
        let refused = match mount {
            Ok(output) if output.status.success() => None,
            Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(error) => Some(format!("mount: {error}")),
        };
        if let Some(why) = refused {
            println!("skipped: the full disk of node3: {why}");
            std::fs::remove_dir(dir).map_err(error)?;
            std::fs::rename(&disk.saved, dir).map_err(error)?;
            std::mem::forget(disk);
            return Ok(None);
        }
        copy(&disk.saved, dir)?;
        Ok(Some(disk))
    }

    fn enlarge(&self) -> Outcome {
        let mut mount = Command::new("mount");
        checked(mount.args(["-o", "remount,size=2g"]).arg(&self.dir))
    }

    /// Puts the content back into the directory, and ends the file system.
    fn remove(self) -> Outcome {
        let error = |error: std::io::Error| format!("{}: {error}", self.saved.display());
        std::fs::remove_dir_all(&self.saved).map_err(error)?;
        copy(&self.dir, &self.saved)?;
        self.unmount()?;
        std::fs::remove_dir(&self.dir).map_err(error)?;
        std::fs::rename(&self.saved, &self.dir).map_err(error)?;
        std::mem::forget(self);
        Ok(())
    }

    /// Ends the file system, also below processes that still run.
    fn unmount(&self) -> Outcome {
        checked(Command::new("umount").arg("--lazy").arg(&self.dir))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        if let Err(error) = self.unmount() {
            eprintln!("{error}");
        }
    }
}

fn copy(from: &Path, to: &Path) -> Outcome {
    checked(Command::new("cp").args(["-a", "--no-target-directory"]).args([from, to]))
}

fn checked(command: &mut Command) -> Outcome {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

/// Takes a running network from RocksDB to Esker and back, one node after the other. The way to
/// Esker ends nodes by SIGTERM, the way back kills them.
fn hand_over(build: &Build, rocksdb: &Library) -> Outcome {
    let mut network = Network::new(&build.program, rocksdb, "rocksdb", Deadline::after(15))?;
    network.start_all(rocksdb)?;
    let begin = network.wait_for(0, 10)?;
    println!("RocksDB on all four: height {}, application hash {}", begin.height, begin.app_hash);
    let clients = Clients::start(&network);
    for (library, is_killed) in [(&build.esker, false), (rocksdb, true)] {
        for at in 0..NODES {
            let before = network.wait_for_blocks(at, 3)?;
            if is_killed {
                network.kill(at)?
            } else {
                network.stop(at)?
            }
            network.start(at, library)?;
            let height = network.height()?;
            let after = network.wait_for(at, height + 1)?;
            let how = if is_killed { "killed" } else { "stopped" };
            println!(
                "node{at}: {how} at height {} ({}), now on {}: height {} ({})",
                before.height, before.app_hash, library.name, after.height, after.app_hash
            );
        }
        println!("all four on {}: {}", library.name, network.compare()?);
    }
    let committed = clients.stop()?;
    let height = network.height()?;
    for at in 0..NODES {
        network.wait_for(at, height)?;
    }
    check(&mut network, rocksdb, &committed)
}

/// A transaction that a node has reported as committed.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Committed {
    text: String,
    hash: String,
    height: u64,
}

/// Clients that send one transaction after the other to all nodes.
struct Clients {
    is_over: Arc<AtomicBool>,
    committed: Arc<Mutex<Vec<Committed>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Clients {
    fn start(network: &Network) -> Clients {
        let is_over = Arc::new(AtomicBool::new(false));
        let committed = Arc::new(Mutex::new(Vec::new()));
        let addresses: Vec<String> = network.nodes.iter().map(|node| node.rpc.clone()).collect();
        let threads = (0..3_usize).map(|client| {
            let (is_over, committed) = (Arc::clone(&is_over), Arc::clone(&committed));
            let addresses = addresses.clone();
            std::thread::spawn(move || {
                let mut number = 0_usize;
                while !is_over.load(Ordering::Relaxed) {
                    number += 1;
                    let rpc = &addresses[(client + number) % addresses.len()];
                    match commit(rpc, &format!("c{client}n{number}=v{number}")) {
                        Some(done) => committed.lock().expect("no client panics").push(done),
                        // The node is down, or has not seen the transaction in a block.
                        None => std::thread::sleep(Duration::from_millis(100)),
                    }
                }
            })
        });
        let threads = threads.collect();
        Clients { is_over, committed, threads }
    }

    /// Ends the clients, and returns the transactions that nodes reported as committed.
    fn stop(mut self) -> Result<Vec<Committed>, String> {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().map_err(|_| "a client panicked".to_owned())?;
        }
        Ok(self.committed.lock().expect("no client panics").clone())
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Sends a transaction, and waits until it is in a block.
fn commit(rpc: &str, text: &str) -> Option<Committed> {
    let answer = get(rpc, &format!("/broadcast_tx_commit?tx=\"{text}\"")).ok()?;
    let (hash, height) = (field(&answer, "hash")?, field(&answer, "height")?.parse().ok()?);
    (height > 0).then(|| Committed { text: text.to_owned(), hash: hash.to_owned(), height })
}

#[cfg(test)]
mod tests {
    use super::{is_end, names_full_disk};

    #[test]
    fn a_full_disk_is_named_by_the_library_or_by_go() {
        let by_library = "E[..] CONSENSUS FAILURE!!! err=\"IO error: No space left on device: While pwrite\"";
        let by_go = "E[..] CONSENSUS FAILURE!!! err=\"write write-file-atomic-63: no space left on device\"";
        assert!([by_library, by_go].iter().all(|line| is_end(line) && names_full_disk(line)));
        let of_index = "E[..] failed to index block err=\"IO error: No space left on device\"";
        assert!(!is_end(of_index));
    }
}
