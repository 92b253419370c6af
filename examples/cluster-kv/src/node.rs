//! A node: Raft over the store in its directory, and a server for clients and other nodes.
//!
//! In: requests; the words `cut` and `join` on standard input, which take the node off the network
//! and back. Out: answers. The node ends with its standard input.

use crate::peers::Peers;
use crate::protocol::{Answer, Connection, NodeId, Request, State};
use openraft::error::{ClientWriteError, ForwardToLeader, RaftError};
use openraft::storage::Adaptor;
use openraft::{BasicNode, Config, RaftLogReader as _, RaftStorage as _, SnapshotPolicy};
use openraft_rocksstore::{RocksRequest, RocksStore, SerializableRocksStateMachine, TypeConfig};
use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::sync::watch;

type Raft = openraft::Raft<TypeConfig>;

struct Node {
    id: NodeId,
    raft: Raft,
    store: Arc<RocksStore>,
}

/// Runs a node until standard input ends. If the address cannot be bound, the process ends.
/// # Errors
/// The store cannot be read · Raft does not start · a line of standard input has another word.
/// # Panics
/// The store cannot be opened.
pub async fn run(id: NodeId, address: &str, dir: &Path) -> Result<(), Box<dyn Error>> {
    let store = RocksStore::new(dir).await;
    complete_last_entry(&store).await?;
    let (cut, is_cut_off) = watch::channel(false);
    let (log, machine) = Adaptor::new(Arc::clone(&store));
    let config = Arc::new(config().validate()?);
    let raft = Raft::new(id, config, Peers(is_cut_off.clone()), log, machine).await?;
    let node = Arc::new(Node { id, raft, store });
    tokio::spawn(serve(node, address.to_owned(), is_cut_off));
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        match line.as_str() {
            "cut" => cut.send_replace(true),
            "join" => cut.send_replace(false),
            other => return Err(format!("'{other}' is neither cut nor join").into()),
        };
    }
    Ok(())
}

/// Timeouts that suit a busy machine with one disk. Snapshots come often, so a short run has some.
fn config() -> Config {
    Config {
        cluster_name: "cluster-kv".to_owned(),
        heartbeat_interval: 200,
        election_timeout_min: 1000,
        election_timeout_max: 2000,
        install_snapshot_timeout: 5000,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(100),
        max_in_snapshot_log_to_keep: 10,
        snapshot_max_chunk_size: 16 * 1024,
        ..Config::default()
    }
}

/// Applies the last applied entry again. The store records that it has applied an entry before it
/// writes the entry's value, and a kill may come between the two.
async fn complete_last_entry(store: &Arc<RocksStore>) -> Result<(), Box<dyn Error>> {
    let mut store = Arc::clone(store);
    let (applied, _) = store.last_applied_state().await?;
    if let Some(applied) = applied {
        // If the log no longer has the entry, a snapshot has it. The snapshot was made after the
        // entry had been applied.
        let entries = store.try_get_log_entries(applied.index..=applied.index).await?;
        store.apply_to_state_machine(&entries).await?;
    }
    Ok(())
}

/// Accepts connections, except while the node is cut off: then the port is closed.
async fn serve(node: Arc<Node>, address: String, mut is_cut_off: watch::Receiver<bool>) {
    loop {
        if is_cut_off.wait_for(|is_cut_off| !is_cut_off).await.is_err() {
            return;
        }
        let listener = match TcpListener::bind(&address).await {
            Ok(listener) => listener,
            Err(error) => {
                eprintln!("{address}: {error}");
                std::process::exit(1);
            }
        };
        let mut cut = is_cut_off.clone();
        tokio::select! {
            _ = cut.wait_for(|is_cut_off| *is_cut_off) => {}
            error = accept(&node, &listener, &is_cut_off) => {
                eprintln!("{address}: {error}");
                std::process::exit(1);
            }
        }
    }
}

/// Starts a task for each connection. The task ends when the node is cut off.
async fn accept(node: &Arc<Node>, listener: &TcpListener, is_cut_off: &watch::Receiver<bool>) -> io::Error {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => return error,
        };
        let (node, mut cut) = (Arc::clone(node), is_cut_off.clone());
        tokio::spawn(async move {
            tokio::select! {
                _ = cut.wait_for(|is_cut_off| *is_cut_off) => {}
                result = converse(&node, stream) => {
                    if let Err(error) = result {
                        eprintln!("node {}: {error}", node.id);
                    }
                }
            }
        });
    }
}

async fn converse(node: &Node, stream: tokio::net::TcpStream) -> io::Result<()> {
    let mut connection = Connection::new(stream)?;
    while let Some(request) = connection.receive().await? {
        let answer = node.answer(request).await;
        connection.send(&answer).await?;
    }
    Ok(())
}

impl Node {
    async fn answer(&self, request: Request) -> Answer {
        match request {
            Request::Append(entries) => Answer::Append(self.raft.append_entries(entries).await),
            Request::Vote(vote) => Answer::Vote(self.raft.vote(vote).await),
            Request::Snapshot(part) => Answer::Snapshot(self.raft.install_snapshot(part).await),
            Request::Put { key, value } => {
                done(self.raft.client_write(RocksRequest::Set { key, value }).await)
            }
            Request::Get { key } => match self.raft.ensure_linearizable().await {
                Ok(_) => match self.store.state_machine.read().await.get(&key) {
                    Ok(value) => Answer::Value(value),
                    Err(error) => Answer::Failed(error.to_string()),
                },
                Err(error) => refused(error.forward_to_leader(), &error),
            },
            Request::Begin(nodes) => {
                let nodes: BTreeMap<NodeId, BasicNode> =
                    nodes.into_iter().map(|(id, address)| (id, BasicNode::new(address))).collect();
                match self.raft.initialize(nodes).await {
                    Ok(()) => Answer::Done,
                    Err(error) => Answer::Failed(error.to_string()),
                }
            }
            Request::Learn { node, address } => {
                done(self.raft.add_learner(node, BasicNode::new(address), true).await)
            }
            Request::Members(members) => done(self.raft.change_membership(members, false).await),
            Request::State => Answer::State(self.state()),
            Request::Contents => {
                let machine = self.store.state_machine.read().await;
                let SerializableRocksStateMachine { last_applied_log, data, .. } = (&*machine).into();
                Answer::Contents { applied: last_applied_log.map_or(0, |id| id.index), values: data }
            }
        }
    }

    fn state(&self) -> State {
        let metrics = self.raft.metrics().borrow().clone();
        State {
            node: self.id,
            leader: metrics.current_leader.unwrap_or(0),
            term: metrics.current_term,
            applied: metrics.last_applied.map_or(0, |id| id.index),
            snapshot: metrics.snapshot.map_or(0, |id| id.index),
            purged: metrics.purged.map_or(0, |id| id.index),
        }
    }
}

fn done<T>(result: Result<T, RaftError<NodeId, ClientWriteError<NodeId, BasicNode>>>) -> Answer {
    match result {
        Ok(_) => Answer::Done,
        Err(error) => refused(error.forward_to_leader(), &error),
    }
}

fn refused(leader: Option<&ForwardToLeader<NodeId, BasicNode>>, error: &dyn Error) -> Answer {
    match leader {
        Some(leader) => Answer::NotLeader(leader.leader_id),
        None => Answer::Failed(error.to_string()),
    }
}
