//! Clients that read and write registers at once, and record what they did, or only count it.
//!
//! In: the nodes, the number of clients, the longest time, a seed. The clients also stop when
//! standard input ends, or has a byte. Out: counts of the operations; an error if the history of
//! all clients is not linearizable. Clients that only count run for the whole time.

use crate::linearizable::{Action, Operation, check};
use crate::protocol::{Answer, Connection, NodeId, Request};
use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt as _;
use tokio::sync::watch;

/// Registers that the clients share. Few, so that clients meet.
const KEYS: u64 = 12;
/// Registers of clients that only count.
const MEASURED_KEYS: u64 = 100_000;
/// A request without an answer for this time is given up.
const PATIENCE: Duration = Duration::from_secs(3);
/// A client's pause between operations. It keeps the number of operations small enough to check.
const PAUSE: Duration = Duration::from_millis(5);

/// Runs `clients` clients for `time` at most, and checks their history.
/// # Errors
/// No order of the operations explains their answers, or fewer than 100 succeeded.
pub async fn run(
    nodes: BTreeMap<NodeId, String>,
    clients: u64,
    time: Duration,
    seed: u64,
) -> Result<(), Box<dyn Error>> {
    let (begin, nodes) = (Instant::now(), Arc::new(nodes));
    let (end, is_over) = watch::channel(false);
    tokio::spawn(async move {
        // A byte, the end and an error mean the same.
        tokio::io::stdin().read_u8().await.ok();
        end.send_replace(true);
    });
    let clients: Vec<_> = (0..clients)
        .map(|id| {
            let (nodes, is_over) = (Arc::clone(&nodes), is_over.clone());
            tokio::spawn(async move { Client::new(id, seed, nodes, begin).run(time, is_over).await })
        })
        .collect();
    let mut history = Vec::new();
    for client in clients {
        history.extend(client.await?);
    }
    let known = history.iter().filter(|operation| operation.returned.is_some()).count();
    let writes = history.iter().filter(|operation| matches!(operation.action, Action::Write(_))).count();
    println!(
        "{} operations by clients: {writes} writes, {} reads; {} writes of unknown fate",
        history.len(),
        history.len() - writes,
        history.len() - known
    );
    println!("{:.0} operations a second", known as f64 / begin.elapsed().as_secs_f64());
    check(&history)?;
    println!("the history is linearizable");
    if known < 100 { Err("fewer than 100 operations succeeded".into()) } else { Ok(()) }
}

/// Runs `clients` clients for `time`, which put and get without pauses, and prints their speed.
/// # Errors
/// A client had no answer.
pub async fn measure(
    nodes: BTreeMap<NodeId, String>,
    clients: u64,
    time: Duration,
) -> Result<(), Box<dyn Error>> {
    let (begin, nodes) = (Instant::now(), Arc::new(nodes));
    let clients: Vec<_> = (0..clients)
        .map(|id| {
            let nodes = Arc::clone(&nodes);
            tokio::spawn(async move { Client::new(id, 0, nodes, begin).count(time).await })
        })
        .collect();
    let mut operations = 0;
    for client in clients {
        let done = client.await?;
        if done == 0 {
            return Err("a client had no answer".into());
        }
        operations += done;
    }
    println!("{:.0} operations a second", operations as f64 / begin.elapsed().as_secs_f64());
    Ok(())
}

struct Client {
    id: u64,
    random: u64,
    nodes: Arc<BTreeMap<NodeId, String>>,
    begin: Instant,
    /// The node that gets the next request, and the connection to it.
    node: NodeId,
    connection: Option<Connection>,
}

/// The fate of a request.
enum Outcome {
    Written,
    Value(Option<String>),
    /// No node has taken it.
    Refused,
    /// It may have taken effect, or may yet do so.
    Unknown,
}

impl Client {
    fn new(id: u64, seed: u64, nodes: Arc<BTreeMap<NodeId, String>>, begin: Instant) -> Client {
        let node = *nodes.keys().next().expect("there are nodes");
        let random =
            (seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (id + 1).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        Client { id, random: random | 1, nodes, begin, node, connection: None }
    }

    /// Reads and writes until `time` is over or `is_over` is true. Each written value is unique.
    async fn run(mut self, time: Duration, is_over: watch::Receiver<bool>) -> Vec<Operation> {
        let mut history = Vec::new();
        let mut number = 0_u64;
        while self.begin.elapsed() < time && !*is_over.borrow() {
            let key = format!("key{}", self.below(KEYS));
            let is_write = self.below(2) == 0;
            number += 1;
            let value = format!("{}-{number}", self.id);
            let request = match is_write {
                true => Request::Put { key: key.clone(), value: value.clone() },
                false => Request::Get { key: key.clone() },
            };
            let call = self.now();
            let outcome = self.ask(&request).await;
            let returned = self.now();
            let (action, returned) = match outcome {
                Outcome::Value(read) => (Action::Read(read), Some(returned)),
                Outcome::Written => (Action::Write(value), Some(returned)),
                Outcome::Unknown if is_write => (Action::Write(value), None),
                Outcome::Unknown | Outcome::Refused => {
                    tokio::time::sleep(20 * PAUSE).await;
                    continue;
                }
            };
            history.push(Operation { key, action, call, returned });
            tokio::time::sleep(PAUSE).await;
        }
        history
    }

    /// Puts and gets until `time` is over. Returns the number of answers.
    async fn count(mut self, time: Duration) -> u64 {
        let mut done = 0;
        while self.begin.elapsed() < time {
            let key = format!("key{:06}", self.below(MEASURED_KEYS));
            let request = match self.below(2) {
                0 => Request::Put { key, value: "value ".repeat(20) },
                _ => Request::Get { key },
            };
            match self.ask(&request).await {
                Outcome::Value(_) | Outcome::Written => done += 1,
                Outcome::Unknown | Outcome::Refused => tokio::time::sleep(PAUSE).await,
            }
        }
        done
    }

    /// Sends a request to the leader, as far as the client knows it.
    async fn ask(&mut self, request: &Request) -> Outcome {
        let connection = match self.connection.take() {
            Some(connection) => Ok(connection),
            None => self.connect().await,
        };
        let Ok(mut connection) = connection else {
            self.node = self.another();
            return Outcome::Refused;
        };
        match tokio::time::timeout(PATIENCE, connection.ask(request)).await {
            Ok(Ok(Answer::Done)) => {
                self.connection = Some(connection);
                Outcome::Written
            }
            Ok(Ok(Answer::Value(value))) => {
                self.connection = Some(connection);
                Outcome::Value(value)
            }
            // A node that loses the leadership during a write gives this answer, too. The other
            // nodes may have the entry of the write already.
            Ok(Ok(Answer::NotLeader(leader))) => {
                self.node = leader.filter(|id| self.nodes.contains_key(id)).unwrap_or_else(|| self.another());
                Outcome::Unknown
            }
            Ok(Ok(_) | Err(_)) | Err(_) => {
                self.node = self.another();
                Outcome::Unknown
            }
        }
    }

    async fn connect(&self) -> io::Result<Connection> {
        let address = &self.nodes[&self.node];
        match tokio::time::timeout(PATIENCE, Connection::connect(address)).await {
            Ok(result) => result,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    fn another(&mut self) -> NodeId {
        let at = self.below(self.nodes.len() as u64);
        *self.nodes.keys().nth(at as usize).expect("it is below their number")
    }

    /// Microseconds since the clients began.
    fn now(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// The next random number below `bound` (xorshift).
    fn below(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % bound
    }
}
