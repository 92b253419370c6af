//! Four validators on loopback.
//!
//! In: the node's program, and a library for each start. Out: heights, hashes and answers of the
//! nodes' RPC servers. Invariant: a running node has mapped the library that it was started with.

use super::super::http::{field, fields, get};
use super::super::process::ClusterProcess;
use super::super::{Deadline, WorkDir};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The number of validators. Three of them can commit blocks.
pub(super) const NODES: usize = 4;

/// The lines that `configure` writes into `config.toml`. The default timeouts are made for networks
/// across the world.
const CONFIG: [(&str, &str); 10] = [
    ("timeout_propose", "\"500ms\""),
    ("timeout_propose_delta", "\"200ms\""),
    ("timeout_prevote", "\"200ms\""),
    ("timeout_precommit", "\"200ms\""),
    ("timeout_commit", "\"100ms\""),
    ("persistent_peers_max_dial_period", "\"1s\""),
    ("create_empty_blocks", "true"),
    ("max_request_batch_size", "0"),
    ("size", "500"),
    ("cache_size", "10000"),
];

/// A library that a node can load.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Library {
    pub(super) name: &'static str,
    /// The directory that has `librocksdb.so.11`.
    pub(super) dir: PathBuf,
}

pub(super) struct Network {
    program: PathBuf,
    pub(super) nodes: Vec<Validator>,
    pub(super) deadline: Deadline,
    /// Removed last, when no node writes to it.
    dir: WorkDir,
}

pub(super) struct Validator {
    name: String,
    home: PathBuf,
    ip: String,
    /// The RPC server's address.
    pub(super) rpc: String,
    pub(super) process: Option<ClusterProcess>,
    /// The heights at which the node was killed or stopped.
    interruptions: Vec<u64>,
}

/// The state that a node reports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ValidatorStatus {
    pub(super) height: u64,
    pub(super) app_hash: String,
    pub(super) is_catching_up: bool,
}

impl Network {
    /// Makes keys, genesis and configurations of four validators whose store is `backend`. The
    /// program needs a library for this, too.
    pub(super) fn new(
        program: &Path,
        library: &Library,
        backend: &str,
        deadline: Deadline,
    ) -> Result<Network, String> {
        let dir = WorkDir::new("cometbft")?;
        // Addresses of this process alone, so two networks need no different ports.
        let id = std::process::id();
        let prefix = format!("127.{}.{}", 16 + id / 250 % 200, id % 250);
        let output = Command::new(program)
            .args(["testnet", "--v", "4", "--starting-ip-address", &format!("{prefix}.1"), "--o"])
            .arg(&dir.0)
            .env("LD_LIBRARY_PATH", &library.dir)
            .output();
        let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
        if !output.status.success() {
            return Err(format!("cometbft testnet: {}", String::from_utf8_lossy(&output.stderr)));
        }
        let nodes = (0..NODES).map(|at| {
            let ip = format!("{prefix}.{}", at + 1);
            let (home, rpc) = (dir.0.join(format!("node{at}")), format!("{ip}:26657"));
            configure(&home.join("config/config.toml"), backend)?;
            Ok(Validator {
                name: format!("node{at}"),
                home,
                ip,
                rpc,
                process: None,
                interruptions: Vec::new(),
            })
        });
        let nodes = nodes.collect::<Result<Vec<Validator>, String>>()?;
        Ok(Network { program: program.to_owned(), nodes, deadline, dir })
    }

    /// Starts a node on `library`, and returns when its RPC server answers.
    pub(super) fn start(&mut self, at: usize, library: &Library) -> Result<ValidatorStatus, String> {
        let node = &mut self.nodes[at];
        let args = [
            "start".to_owned(),
            format!("--home={}", node.home.display()),
            format!("--p2p.laddr=tcp://{}:26656", node.ip),
            format!("--rpc.laddr=tcp://{}", node.rpc),
            "--proxy_app=kvstore".to_owned(),
            "--log_level=error".to_owned(),
        ];
        let env = [("LD_LIBRARY_PATH", library.dir.as_path())];
        let log = self.dir.0.join(format!("{}.log", node.name));
        node.process = Some(ClusterProcess::start(&node.name, &self.program, &args, &env, &log)?);
        let what = format!("{} answers", node.name);
        let status = self.deadline.wait(&what, || {
            self.nodes[at].expect_running()?;
            Ok(self.nodes[at].status())
        })?;
        let process = self.nodes[at].process.as_ref().expect("it was started above");
        if !process.has_mapped(&library.dir.join("librocksdb.so.11"))? {
            return Err(format!("{} does not use the library of {}", self.nodes[at].name, library.name));
        }
        Ok(status)
    }

    /// Starts all nodes on `library`.
    pub(super) fn start_all(&mut self, library: &Library) -> Result<(), String> {
        (0..NODES).try_for_each(|at| self.start(at, library).map(drop))
    }

    /// Kills a node with signal 9.
    pub(super) fn kill(&mut self, at: usize) -> Result<(), String> {
        self.nodes[at].take_process().map_or(Ok(()), |mut process| process.kill())
    }

    /// Ends a node by SIGTERM.
    pub(super) fn stop(&mut self, at: usize) -> Result<(), String> {
        self.nodes[at].take_process().map_or(Ok(()), |mut process| process.stop())
    }

    /// Deletes everything that a node has stored. Its keys stay, and the height up to which it has
    /// signed, so that it signs no block twice.
    pub(super) fn wipe(&self, at: usize) -> Result<(), String> {
        let data = self.data(at);
        let error = |error: std::io::Error| format!("{}: {error}", data.display());
        for entry in fs::read_dir(&data).map_err(error)? {
            let path = entry.map_err(error)?.path();
            if path.is_dir() {
                fs::remove_dir_all(&path).map_err(error)?;
            }
        }
        Ok(())
    }

    /// The directory of a node's stores.
    pub(super) fn data(&self, at: usize) -> PathBuf {
        self.nodes[at].home.join("data")
    }

    /// Waits until a node has stored `height` and takes part again.
    pub(super) fn wait_for(&mut self, at: usize, height: u64) -> Result<ValidatorStatus, String> {
        let what = format!("node{at} has height {height}");
        self.deadline.wait(&what, || {
            self.nodes[at].expect_running()?;
            let status = self.nodes[at].status();
            Ok(status.filter(|status| status.height >= height && !status.is_catching_up))
        })
    }

    /// Waits until the node's height is `blocks` above the present height of the network.
    pub(super) fn wait_for_blocks(&mut self, at: usize, blocks: u64) -> Result<ValidatorStatus, String> {
        let height = self.height()?;
        self.wait_for(at, height + blocks)
    }

    /// The largest height of a running node.
    pub(super) fn height(&mut self) -> Result<u64, String> {
        let heights = self.nodes.iter().filter_map(|node| Some(node.status()?.height));
        heights.max().ok_or_else(|| "no node answers".to_owned())
    }

    /// Compares blocks and their results at all heights up to the smallest height of the nodes.
    /// # Errors
    /// A node does not answer · an answer has no result · two answers differ.
    pub(super) fn compare(&mut self) -> Result<Compared, String> {
        let mut compared = Compared::default();
        let height = |node: &Validator| node.status().map(|status| status.height);
        let heights: Option<Vec<u64>> = self.nodes.iter().map(height).collect();
        compared.height = heights.and_then(|all| all.into_iter().min()).ok_or("a node does not answer")?;
        for height in 1..=compared.height {
            let block = self.same(&format!("/block?height={height}"))?;
            self.same(&format!("/block_results?height={height}"))?;
            compared.transactions += transactions_of(&block);
            if height == compared.height {
                compared.block_hash = field(&block, "hash").unwrap_or_default().to_owned();
                compared.app_hash = field(&block, "app_hash").unwrap_or_default().to_owned();
            }
        }
        Ok(compared)
    }

    /// The answer of all nodes to a query.
    /// # Errors
    /// A node does not answer · an answer has no result · two answers differ.
    pub(super) fn same(&self, query: &str) -> Result<String, String> {
        let mut first: Option<String> = None;
        for node in &self.nodes {
            let answer = get(&node.rpc, query).map_err(|e| format!("{}: {query}: {e}", node.name))?;
            match &first {
                _ if !answer.contains("\"result\":") => {
                    return Err(format!("{}: {query}: {answer}", node.name));
                }
                Some(first) if *first != answer => {
                    return Err(format!("{query}:\n  node0: {first}\n  {}: {answer}", node.name));
                }
                Some(_) => {}
                None => first = Some(answer),
            }
        }
        first.ok_or_else(|| "the network has no nodes".to_owned())
    }
}

/// The part of the history that all nodes have stored alike.
#[derive(Clone, Default, Debug)]
pub(super) struct Compared {
    pub(super) height: u64,
    pub(super) transactions: usize,
    pub(super) block_hash: String,
    pub(super) app_hash: String,
}

impl std::fmt::Display for Compared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Compared { height, transactions, block_hash, app_hash } = self;
        write!(f, "{height} blocks with {transactions} transactions are the same on all four; ")?;
        write!(f, "block {height}: hash {block_hash}, application hash {app_hash}")
    }
}

impl Validator {
    /// The state that the node reports, if its RPC server answers.
    pub(super) fn status(&self) -> Option<ValidatorStatus> {
        let answer = get(&self.rpc, "/status").ok()?;
        Some(ValidatorStatus {
            height: field(&answer, "latest_block_height")?.parse().ok()?,
            app_hash: field(&answer, "latest_app_hash")?.to_owned(),
            is_catching_up: field(&answer, "catching_up")? == "true",
        })
    }

    /// Whether the index of transactions may lack the block at `height`. CometBFT writes the index
    /// later than the blocks. After an interruption it writes no index for blocks that it has
    /// stored already. It goes on if a write to the index fails.
    pub(super) fn may_lack_index_of(&self, height: u64) -> bool {
        const DELAY: u64 = 5;
        let log = self.process.as_ref().map(ClusterProcess::log).unwrap_or_default();
        self.interruptions.iter().any(|&at| at <= height + DELAY && height <= at + 1)
            || log.lines().any(|line| has_failed_to_index(line, height))
    }

    /// Takes the process, which the caller will end. Records the node's height as that of an
    /// interruption.
    fn take_process(&mut self) -> Option<ClusterProcess> {
        self.interruptions.extend(self.status().map(|status| status.height));
        self.process.take()
    }

    /// Checks that the process runs.
    /// # Errors
    /// It has ended: the error has the end of its log.
    fn expect_running(&mut self) -> Result<(), String> {
        match &mut self.process {
            Some(process) => process.expect_running(),
            None => Err(format!("{} does not run", self.name)),
        }
    }
}

/// The number of transactions in the answer to `/block`.
fn transactions_of(block: &str) -> usize {
    let list = block.split("\"txs\":[").nth(1).and_then(|rest| rest.split(']').next());
    list.map_or(0, |list| list.split(',').filter(|tx| !tx.is_empty()).count())
}

/// Writes the lines of [`CONFIG`] and the backend into a configuration.
fn configure(path: &Path, backend: &str) -> Result<(), String> {
    let error = |error: std::io::Error| format!("{}: {error}", path.display());
    let text = fs::read_to_string(path).map_err(error)?;
    let backend = format!("\"{backend}\"");
    let mut settings: Vec<(&str, &str)> = CONFIG.to_vec();
    settings.push(("db_backend", &backend));
    let mut configured = String::new();
    for line in text.lines() {
        let name = line.split(" = ").next().unwrap_or_default();
        match settings.iter().position(|setting| setting.0 == name) {
            Some(at) => {
                let (name, value) = settings.swap_remove(at);
                writeln!(configured, "{name} = {value}").expect("a String takes all text");
            }
            None => configured += &format!("{line}\n"),
        }
    }
    match settings.first() {
        Some((name, _)) => Err(format!("{} has no '{name}'", path.display())),
        None => fs::write(path, configured).map_err(error),
    }
}

/// Whether a line of a log says that the block at `height` is not in the index.
fn has_failed_to_index(line: &str, height: u64) -> bool {
    line.contains("failed to index block") && line.contains(&format!(" height={height} "))
}

/// The Base64 text of `bytes`: the form of a transaction in requests and answers.
pub(super) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let at = |index: usize| u32::from(three.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for digit in 0..4 {
            let value = bits >> (18 - 6 * digit) & 63;
            text.push(if digit > three.len() { '=' } else { char::from(DIGITS[value as usize]) });
        }
    }
    text
}

/// The numbers in the fields called `name`.
pub(super) fn numbers(answer: &str, name: &str) -> Vec<u64> {
    fields(answer, name).filter_map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_pads_the_last_three_bytes() {
        let texts = ["", "f", "fo", "foo", "foob"].map(|text| base64(text.as_bytes()));
        assert_eq!(texts, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]);
    }

    #[test]
    fn transactions_of_a_block_are_counted() {
        assert_eq!(transactions_of(r#"{"data":{"txs":[]},"evidence":[1]}"#), 0);
        assert_eq!(transactions_of(r#"{"data":{"txs":["YQ==","Yg=="]}}"#), 2);
    }

    #[test]
    fn the_index_may_lack_blocks_just_before_an_interruption() {
        let (name, ip, rpc) = (String::new(), String::new(), String::new());
        let (home, interruptions) = (PathBuf::new(), vec![20]);
        let node = Validator { name, home, ip, rpc, process: None, interruptions };
        let lacking: Vec<u64> = (0..40).filter(|&height| node.may_lack_index_of(height)).collect();
        assert_eq!(lacking, [15, 16, 17, 18, 19, 20, 21]);
    }
}
