//! A node's connections to the others: openraft's `RaftNetwork` over the service's protocol.

use crate::protocol::{Answer, Connection, NodeId, Request};
use openraft::error::{InstallSnapshotError, NetworkError, RPCError, RaftError, RemoteError, Unreachable};
use openraft::network::{RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use openraft::{BasicNode, RaftTypeConfig};
use openraft_rocksstore::TypeConfig;
use std::io;
use tokio::sync::watch;

/// Makes the connections to the other nodes. They carry nothing while the node is cut off.
pub struct Peers(pub watch::Receiver<bool>);

/// The connection to one node.
pub struct Peer {
    node: NodeId,
    address: String,
    is_cut_off: watch::Receiver<bool>,
    /// `None` also while a request waits for its answer: a request that is given up closes its
    /// connection, so no later request gets the answer.
    connection: Option<Connection>,
}

impl RaftNetworkFactory<TypeConfig> for Peers {
    type Network = Peer;

    async fn new_client(&mut self, node: NodeId, to: &BasicNode) -> Peer {
        Peer { node, address: to.addr.clone(), is_cut_off: self.0.clone(), connection: None }
    }
}

type Error<E> = RPCError<NodeId, <TypeConfig as RaftTypeConfig>::Node, RaftError<NodeId, E>>;

/// Takes the result of a call out of an answer; `None` if the answer is another call's.
type Part<T, E> = fn(Answer) -> Option<Result<T, RaftError<NodeId, E>>>;

impl Peer {
    async fn ask(&mut self, request: &Request) -> io::Result<Answer> {
        if *self.is_cut_off.borrow() {
            return Err(io::ErrorKind::NetworkUnreachable.into());
        }
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Connection::connect(&self.address).await?,
        };
        let answer = connection.ask(request).await?;
        if *self.is_cut_off.borrow() {
            return Err(io::ErrorKind::NetworkUnreachable.into());
        }
        self.connection = Some(connection);
        Ok(answer)
    }

    /// Asks, and takes the answer apart by `result`.
    async fn call<T, E: std::error::Error>(
        &mut self,
        request: Request,
        result: Part<T, E>,
    ) -> Result<T, Error<E>> {
        let answer = self.ask(&request).await.map_err(|error| match error.kind() {
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NetworkUnreachable => {
                RPCError::Unreachable(Unreachable::new(&error))
            }
            _ => RPCError::Network(NetworkError::new(&error)),
        })?;
        match result(answer) {
            Some(result) => result.map_err(|error| RPCError::RemoteError(RemoteError::new(self.node, error))),
            None => {
                let error = io::Error::other("the answer belongs to another request");
                Err(RPCError::Network(NetworkError::new(&error)))
            }
        }
    }
}

impl RaftNetwork<TypeConfig> for Peer {
    async fn append_entries(
        &mut self,
        entries: AppendEntriesRequest<TypeConfig>,
        _: RPCOption,
    ) -> Result<AppendEntriesResponse<NodeId>, Error<openraft::error::Infallible>> {
        self.call(Request::Append(entries), |answer| match answer {
            Answer::Append(result) => Some(result),
            _ => None,
        })
        .await
    }

    async fn install_snapshot(
        &mut self,
        part: InstallSnapshotRequest<TypeConfig>,
        _: RPCOption,
    ) -> Result<InstallSnapshotResponse<NodeId>, Error<InstallSnapshotError>> {
        self.call(Request::Snapshot(part), |answer| match answer {
            Answer::Snapshot(result) => Some(result),
            _ => None,
        })
        .await
    }

    async fn vote(
        &mut self,
        vote: VoteRequest<NodeId>,
        _: RPCOption,
    ) -> Result<VoteResponse<NodeId>, Error<openraft::error::Infallible>> {
        self.call(Request::Vote(vote), |answer| match answer {
            Answer::Vote(result) => Some(result),
            _ => None,
        })
        .await
    }
}
