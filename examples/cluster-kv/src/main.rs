//! A key-value service on several nodes: openraft replicates it, Esker stores it.
//!
//! In: a role and its arguments. Out: a node that serves until its standard input ends, or clients
//! that check the answers of the nodes. `cargo xtask cluster openraft` runs both, with faults.

#![allow(clippy::disallowed_methods, reason = "a program that runs on the real clock only")]

mod linearizable;
mod load;
mod node;
mod peers;
mod protocol;

use protocol::NodeId;
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "\
cluster-kv node ID ADDRESS DIR                           a node of the service
cluster-kv load SECONDS CLIENTS SEED ID=ADDRESS…         clients, and a check of their history
cluster-kv measure CLIENTS SECONDS ID=ADDRESS…           clients without pauses, and their speed";

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match run(&args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &[&str]) -> Result<(), Box<dyn Error>> {
    match args {
        ["node", id, address, dir] => node::run(id.parse()?, address, Path::new(dir)).await,
        ["load", seconds, clients, seed, nodes @ ..] if !nodes.is_empty() => {
            let time = Duration::from_secs(seconds.parse()?);
            load::run(parsed(nodes)?, clients.parse()?, time, seed.parse()?).await
        }
        ["measure", clients, seconds, nodes @ ..] if !nodes.is_empty() => {
            let time = Duration::from_secs(seconds.parse()?);
            load::measure(parsed(nodes)?, clients.parse()?, time).await
        }
        _ => Err(USAGE.into()),
    }
}

/// The nodes of these arguments.
fn parsed(nodes: &[&str]) -> Result<BTreeMap<NodeId, String>, Box<dyn Error>> {
    let node = |node: &&str| {
        let (id, address) = node.split_once('=').ok_or(USAGE)?;
        Ok((id.parse()?, address.to_owned()))
    };
    nodes.iter().map(node).collect()
}
