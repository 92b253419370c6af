//! The network on RocksDB and on Esker in turn: throughput, block time, processor time, memory,
//! bytes written, speed of catching up.
//!
//! In: the libraries, the number of pairs, and the seconds of a run. Out: a line for each run, then
//! the medians of both libraries, and the median ratio of the pairs. A run on `memdb`, CometBFT's
//! map in memory, shows the share of the store: no store can make the network faster than that.

use super::super::Deadline;
use super::super::http::post;
use super::network::{Library, NODES, Network, base64, numbers};
use crate::cluster::http::get;
use crate::commands::Outcome;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The approximate size of a transaction, in bytes.
const TRANSACTION: usize = 3000;
/// Transactions in one request.
const BATCH: usize = 50;

/// Names and units of the figures, and whether more is better.
const FIGURES: [(&str, bool); 6] = [
    ("transactions/s", true),
    ("block time, ms", false),
    ("processor ms/transaction", false),
    ("peak memory of a node, MB", false),
    ("MB written", false),
    ("catch-up, blocks/s", true),
];

type Figures = [f64; FIGURES.len()];

/// Runs `pairs` pairs, and one network on `memdb`.
pub(super) fn run(program: &Path, libraries: &[Library; 2], pairs: u64, seconds: u64) -> Outcome {
    let deadline = Deadline::after((2 * pairs + 1) * (seconds / 60 + 3));
    let mut figures: [Vec<Figures>; 2] = [Vec::new(), Vec::new()];
    for pair in 0..pairs {
        // The order changes from pair to pair.
        for at in if pair % 2 == 0 { [0, 1] } else { [1, 0] } {
            let measured = measure(program, &libraries[at], "rocksdb", seconds, deadline)?;
            println!("{:8} {}", libraries[at].name, line(&measured));
            figures[at].push(measured);
        }
    }
    let memory = measure(program, &libraries[1], "memdb", seconds, deadline)?;
    println!("{:8} {}", "memdb", line(&memory));
    for (at, (name, _)) in FIGURES.iter().enumerate() {
        let [theirs, ours] = [0, 1].map(|library| median(figures[library].iter().map(|f| f[at]).collect()));
        println!("{name}: {} {theirs:.2}, {} {ours:.2}", libraries[0].name, libraries[1].name);
    }
    for (at, (name, is_better)) in FIGURES.iter().enumerate() {
        let pairs = figures[0].iter().zip(&figures[1]);
        let ratios = pairs.map(
            |(rocksdb, esker)| {
                if *is_better { esker[at] / rocksdb[at] } else { rocksdb[at] / esker[at] }
            },
        );
        println!("{name}: Esker is better by {:.2} (median of the pairs)", median(ratios.collect()));
    }
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn line(figures: &Figures) -> String {
    let mut line = String::new();
    for ((name, _), figure) in FIGURES.iter().zip(figures) {
        write!(line, "{figure:.2} {name} · ").expect("a String takes all text");
    }
    line.trim_end_matches(" · ").to_owned()
}

/// One run: a load of `seconds`, then a wiped node that catches up (not on `memdb`).
fn measure(
    program: &Path,
    library: &Library,
    backend: &str,
    seconds: u64,
    deadline: Deadline,
) -> Result<Figures, String> {
    let mut network = Network::new(program, library, backend, deadline)?;
    network.start_all(library)?;
    let (first, begin) = (network.wait_for(0, 3)?.height, Instant::now());
    let processor = processor_time(&network)?;
    load(&network, Duration::from_secs(seconds))?;
    let (last, elapsed) = (network.height()?, begin.elapsed().as_secs_f64());
    let processor = processor_time(&network)? - processor;
    let (mut memory, mut written) = (0, 0);
    for process in network.nodes.iter().filter_map(|node| node.process.as_ref()) {
        memory = memory.max(process.peak_memory()?);
        written += process.written()?;
    }
    let transactions = transactions(&network.nodes[0].rpc, first + 1, last)?;
    let catch_up = if backend == "memdb" { f64::NAN } else { catch_up(&mut network, library)? };
    #[allow(clippy::cast_precision_loss, reason = "figures for people")]
    let [blocks, transactions, memory, written, processor] =
        [last - first, transactions, memory, written, processor].map(|number| number as f64);
    Ok([
        transactions / elapsed,
        1000.0 * elapsed / blocks,
        10.0 * processor / transactions,
        memory / 1e6,
        written / 1e6,
        catch_up,
    ])
}

fn processor_time(network: &Network) -> Result<u64, String> {
    network.nodes.iter().filter_map(|node| node.process.as_ref()).map(|p| p.processor_time()).sum()
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
