//! The service's protocol: each request and each answer is one line of JSON over TCP.

use openraft::error::{InstallSnapshotError, RaftError};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use openraft_rocksstore::TypeConfig;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufStream};
use tokio::net::TcpStream;

pub type NodeId = openraft_rocksstore::RocksNodeId;

#[derive(Serialize, Deserialize, Debug)]
pub enum Request {
    /// From one node to another: Raft's messages.
    Append(AppendEntriesRequest<TypeConfig>),
    Vote(VoteRequest<NodeId>),
    Snapshot(InstallSnapshotRequest<TypeConfig>),
    /// Writes a value. The leader answers when a majority has stored it.
    Put {
        key: String,
        value: String,
    },
    /// Reads a value. The leader answers after a majority has confirmed it as the leader.
    Get {
        key: String,
    },
    /// Begins a cluster of these nodes and addresses. Only one node gets this request.
    Begin(BTreeMap<NodeId, String>),
    /// Adds a node without a vote. The leader answers when that node lacks at most 5000 entries,
    /// openraft's default for `replication_lag_threshold`.
    Learn {
        node: NodeId,
        address: String,
    },
    /// Makes these nodes the ones that vote.
    Members(BTreeSet<NodeId>),
    State,
    /// All keys and values, as this node has applied them.
    Contents,
}

#[derive(Serialize, Deserialize, Debug)]
pub enum Answer {
    Append(Result<AppendEntriesResponse<NodeId>, RaftError<NodeId>>),
    Vote(Result<VoteResponse<NodeId>, RaftError<NodeId>>),
    Snapshot(Result<InstallSnapshotResponse<NodeId>, RaftError<NodeId, InstallSnapshotError>>),
    Done,
    Value(Option<String>),
    State(State),
    Contents {
        applied: u64,
        values: BTreeMap<String, String>,
    },
    /// Another node leads, if one does.
    NotLeader(Option<NodeId>),
    Failed(String),
}

/// A node's state for people and tests. `applied`, `snapshot` and `purged` are indexes of the log,
/// 0 if there is none.
#[derive(Serialize, Deserialize, Debug)]
pub struct State {
    pub node: NodeId,
    /// 0 if the node knows no leader.
    pub leader: NodeId,
    pub term: u64,
    pub applied: u64,
    /// The last entry in the newest snapshot, own or received.
    pub snapshot: u64,
    /// The last entry that the log no longer has.
    pub purged: u64,
}

/// A connection, from either side.
pub struct Connection(BufStream<TcpStream>);

impl Connection {
    pub fn new(stream: TcpStream) -> io::Result<Connection> {
        stream.set_nodelay(true)?;
        Ok(Connection(BufStream::new(stream)))
    }

    pub async fn connect(address: &str) -> io::Result<Connection> {
        Connection::new(TcpStream::connect(address).await?)
    }

    pub async fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.0.write_all(&line).await?;
        self.0.flush().await
    }

    /// The next message; `None` if the other side has closed the connection.
    pub async fn receive<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let mut line = String::new();
        match self.0.read_line(&mut line).await? {
            0 => Ok(None),
            _ => Ok(Some(serde_json::from_str(&line)?)),
        }
    }

    /// Sends a request and waits for its answer.
    pub async fn ask(&mut self, request: &Request) -> io::Result<Answer> {
        self.send(request).await?;
        self.receive().await?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}
