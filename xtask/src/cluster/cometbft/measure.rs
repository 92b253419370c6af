//! One run of the network under a load: throughput, block time, processor time, memory, bytes
//! written, speed of catching up.
//!
//! In: the libraries, the number of pairs, and the seconds of a run. Out: the figures of both in
//! turn. A run on `memdb`, CometBFT's map in memory, shows the share of the store: no store can
//! make the network faster than that.

use super::super::Deadline;
use super::super::compare::{self, Figure};
use super::super::http::{get, post};
use super::network::{Library, NODES, Network, base64, numbers};
use crate::clients::Behind;
use crate::commands::Outcome;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The approximate size of a transaction, in bytes.
const TRANSACTION: usize = 3000;
/// Transactions in one request.
const BATCH: usize = 50;

const FIGURES: [Figure; 6] = [
    ("transactions/s", true),
    ("block time, ms", false),
    ("processor ms/transaction", false),
    ("peak memory of a node, MB", false),
    ("MB written", false),
    ("catch-up, blocks/s", true),
];

/// Compares RocksDB with Esker in `pairs` pairs, and runs one network on `memdb`.
pub(super) fn run(program: &Path, rocksdb: &Library, esker: &Library, pairs: u64, seconds: u64) -> Outcome {
    let deadline = Deadline::after((2 * pairs + 1) * (seconds / 60 + 3));
    let memory = measure(program, esker, "memdb", seconds, deadline)?;
    println!("{:8} {}", "memdb", compare::line(&FIGURES, &memory));
    compare::in_turn(pairs, &FIGURES, |behind| {
        let library = if behind == Behind::Esker { esker } else { rocksdb };
        measure(program, library, "rocksdb", seconds, deadline)
    })
}

/// One run: a load of `seconds`, then a wiped node that catches up (not on `memdb`).
fn measure(
    program: &Path,
    library: &Library,
    backend: &str,
    seconds: u64,
    deadline: Deadline,
) -> Result<[f64; FIGURES.len()], String> {
    let mut network = Network::new(program, library, backend, deadline)?;
    network.start_all(library)?;
    let (first, begin) = (network.wait_for(0, 3)?.height, Instant::now());
    let [processor, ..] = used(&network)?;
    load(&network, Duration::from_secs(seconds))?;
    let (last, elapsed) = (network.height()?, begin.elapsed().as_secs_f64());
    let [since, memory, written] = used(&network)?;
    let transactions = transactions(&network.nodes[0].rpc, first + 1, last)?;
    let catch_up = if backend == "memdb" { f64::NAN } else { catch_up(&mut network, library)? };
    #[allow(clippy::cast_precision_loss, reason = "figures for people")]
    let [blocks, transactions] = [last - first, transactions].map(|number| number as f64);
    Ok([
        transactions / elapsed,
        1000.0 * elapsed / blocks,
        1000.0 * (since - processor) / transactions,
        memory,
        written,
        catch_up,
    ])
}

fn used(network: &Network) -> Result<[f64; 3], String> {
    compare::used(network.nodes.iter().filter_map(|node| node.process.as_ref()))
}

/// Sends batches of transactions to all nodes until `time` is over.
fn load(network: &Network, time: Duration) -> Outcome {
    let (begin, has_failed) = (Instant::now(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for (client, node) in network.nodes.iter().enumerate() {
            let has_failed = &has_failed;
            scope.spawn(move || {
                let mut number = 0;
                while begin.elapsed() < time {
                    let mut batch = Vec::new();
                    for _ in 0..BATCH {
                        number += 1;
                        let transaction = format!("c{client}n{number:08}={}", filler(number));
                        batch.push(format!(
                            "{{\"jsonrpc\":\"2.0\",\"id\":{number},\"method\":\"broadcast_tx_sync\",\
                             \"params\":{{\"tx\":\"{}\"}}}}",
                            base64(transaction.as_bytes())
                        ));
                    }
                    match post(&node.rpc, &format!("[{}]", batch.join(","))) {
                        Ok(answer) if answer.contains("mempool is full") => {
                            std::thread::sleep(Duration::from_millis(200));
                        }
                        Ok(answer) if answer.contains("\"code\":0") => {}
                        other => {
                            eprintln!("{}: {other:.300?}", node.rpc);
                            has_failed.store(true, Ordering::Relaxed);
                            return;
                        }
                    }
                }
            });
        }
    });
    if has_failed.into_inner() { Err("the load failed".to_owned()) } else { Ok(()) }
}

/// Text of a transaction that compresses to about a half.
fn filler(seed: usize) -> String {
    let mut state = (seed as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let digits = (0..TRANSACTION / 16).map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        format!("{state:016x}")
    });
    digits.collect()
}

/// The number of transactions in the blocks from `first` to `last`.
fn transactions(rpc: &str, first: u64, last: u64) -> Result<u64, String> {
    let mut sum = 0;
    for from in (first..=last).step_by(20) {
        let query = format!("/blockchain?minHeight={from}&maxHeight={}", last.min(from + 19));
        let answer = get(rpc, &query).map_err(|error| format!("{rpc}: {error}"))?;
        sum += numbers(&answer, "num_txs").iter().sum::<u64>();
    }
    Ok(sum)
}

/// The blocks a second that a wiped node takes over from the others.
fn catch_up(network: &mut Network, library: &Library) -> Result<f64, String> {
    const NODE: usize = NODES - 1;
    network.kill(NODE)?;
    network.wipe(NODE)?;
    let height = network.height()?;
    let begin = Instant::now();
    network.start(NODE, library)?;
    network.wait_for(NODE, height)?;
    #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
    let height = height as f64;
    Ok(height / begin.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_its_own_filler() {
        let fillers = [0, 1, 7, usize::MAX].map(filler);
        assert!(fillers.iter().all(|text| text.len() == TRANSACTION / 16 * 16));
        assert!(fillers.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
