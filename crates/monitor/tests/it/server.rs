//! The statistics server: its socket, its clients, the end of its database.

use crate::{Watched, wait_until, watched};
use esker::{Db, ErrorKind, Options};
use esker_monitor::{
    Hello, Monitor, RemoteStatistics, SnapshotSource, StatisticsClient, StatisticsServer,
    StatisticsServerOptions,
};
use esker_testkit::{TempDir, this_program};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

fn start(watched: &Watched, socket: &Path) -> StatisticsServer {
    let options = StatisticsServerOptions::new(socket).interval(Duration::ZERO);
    StatisticsServer::start(&watched.monitor, &watched.db, &options).unwrap()
}

/// A raw connection behind its hello.
fn connect(socket: &Path) -> BufReader<UnixStream> {
    let stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut stream = BufReader::new(stream);
    let mut hello = String::new();
    stream.read_line(&mut hello).unwrap();
    let hello: Hello = serde_json::from_str(&hello).unwrap();
    assert_eq!((hello.esker_statistics, hello.pid), (1, std::process::id()));
    stream
}

#[test]
fn the_socket_has_mode_0600_and_goes_with_its_server() {
    let watched = watched("mode");
    let socket = watched.dir.join("socket");
    let server = start(&watched, &socket);
    let metadata = std::fs::symlink_metadata(&socket).unwrap();
    assert!(metadata.file_type().is_socket());
    assert_eq!(metadata.permissions().mode() & 0o7777, 0o600);
    assert_eq!(server.path(), socket);
    assert_eq!(StatisticsClient::connect(&socket).unwrap().snapshot().unwrap().family_count, 1);
    drop(server);
    assert!(!socket.exists());
    assert_eq!(StatisticsClient::connect(&socket).unwrap_err().kind(), ErrorKind::IoError);
}

#[test]
fn a_second_server_at_a_path_is_refused_by_the_path() {
    let watched = watched("second");
    let socket = watched.dir.join("socket");
    let first = start(&watched, &socket);
    let options = StatisticsServerOptions::new(&socket);
    let refused = StatisticsServer::start(&watched.monitor, &watched.db, &options).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Busy, "{refused}");
    assert!(refused.to_string().contains(socket.to_str().unwrap()), "{refused}");
    assert!(StatisticsClient::connect(&socket).unwrap().snapshot().is_ok());
    drop(first);
    start(&watched, &socket);
}

/// Many starts at one path at once: one server at a time, and none takes the place of another.
#[test]
fn of_many_starts_at_one_path_one_succeeds() {
    let watched = watched("race");
    let socket = watched.dir.join("socket");
    drop(UnixListener::bind(&socket).unwrap()); // A dead socket, which all of them may replace.
    let servers: Vec<_> = std::thread::scope(|scope| {
        let try_start = || {
            let options = StatisticsServerOptions::new(&socket);
            StatisticsServer::start(&watched.monitor, &watched.db, &options).ok()
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(try_start)).collect();
        threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(servers.len(), 1);
    assert!(StatisticsClient::connect(&socket).unwrap().snapshot().is_ok());
}

#[test]
fn a_file_that_is_no_socket_stays() {
    let watched = watched("file");
    let path = watched.dir.join("file");
    std::fs::write(&path, "mine").unwrap();
    let target = watched.dir.join("target");
    let link = watched.dir.join("link");
    std::os::unix::fs::symlink(&target, &link).unwrap();
    for at in [&path, &link, &watched.dir.join("missing/socket"), &PathBuf::from("x".repeat(200))] {
        let options = StatisticsServerOptions::new(at);
        let refused = StatisticsServer::start(&watched.monitor, &watched.db, &options).unwrap_err();
        assert!(refused.to_string().contains(at.to_str().unwrap()), "{refused}");
    }
    assert_eq!(std::fs::read(&path).unwrap(), b"mine");
    assert!(link.is_symlink() && !target.exists());
}

/// Any user can lock a directory such as /tmp.
#[test]
fn a_lock_of_the_directory_holds_no_start() {
    let watched = watched("locked");
    let socket = watched.dir.join("socket");
    let directory = std::fs::File::open(watched.dir.path()).unwrap();
    directory.lock().unwrap();
    let _server = start(&watched, &socket);
    assert!(!watched.dir.join("socket.lock").exists());
}

#[test]
fn a_lock_that_others_can_open_is_refused() {
    let watched = watched("others");
    let (socket, lock) = (watched.dir.join("socket"), watched.dir.join("socket.lock"));
    let refused = || {
        let options = StatisticsServerOptions::new(&socket);
        let refused = StatisticsServer::start(&watched.monitor, &watched.db, &options).unwrap_err();
        assert!(refused.to_string().contains(lock.to_str().unwrap()), "{refused}");
        assert!(!socket.exists());
    };
    std::fs::write(&lock, "mine").unwrap();
    std::fs::set_permissions(&lock, PermissionsExt::from_mode(0o644)).unwrap();
    refused();
    assert_eq!(std::fs::read(&lock).unwrap(), b"mine");
    std::fs::remove_file(&lock).unwrap();
    let target = watched.dir.join("target");
    std::os::unix::fs::symlink(&target, &lock).unwrap();
    refused();
    assert!(!target.exists());
    std::fs::remove_file(&lock).unwrap();
    // A start that was killed leaves its lock, which nobody holds.
    std::fs::write(&lock, "").unwrap();
    std::fs::set_permissions(&lock, PermissionsExt::from_mode(0o600)).unwrap();
    let _server = start(&watched, &socket);
    assert!(!lock.exists());
}

const SOCKET: &str = "ESKER_TEST_MONITOR_SOCKET";

/// The program of the next test: serves until it is killed.
#[test]
fn serve_until_killed() {
    let Some(socket) = std::env::var_os(SOCKET) else { return };
    let watched = watched("killed");
    let _server = start(&watched, Path::new(&socket));
    wait_until("the test kills this process", || false);
}

#[test]
fn a_killed_process_leaves_a_socket_that_the_next_start_replaces() {
    let watched = watched("killer");
    let socket = watched.dir.join("socket");
    let mut command = this_program();
    command.args(["--exact", "server::serve_until_killed", "--nocapture"]).env(SOCKET, &socket);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let pid = child.id();
    let mut served = None;
    wait_until("the child serves", || {
        served = StatisticsClient::connect(&socket).and_then(|mut client| client.snapshot()).ok();
        served.is_some()
    });
    assert_eq!(served.unwrap().process.pid, pid);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(socket.exists());
    let _server = start(&watched, &socket);
    let mut client = StatisticsClient::connect(&socket).unwrap();
    assert_eq!(client.snapshot().unwrap().process.pid, std::process::id());
}

#[test]
fn garbage_gets_an_error_and_the_end_of_its_connection() {
    let watched = watched("garbage");
    let socket = watched.dir.join("socket");
    let _server = start(&watched, &socket);
    for garbage in [&b"\n"[..], b"GET / HTTP/1.1\r\n\r\n", b"\xFF\x00\n", b"{\"snapshot\":1}\n", b"\"x\"\n"] {
        let mut stream = connect(&socket);
        stream.get_mut().write_all(garbage).unwrap();
        let mut rest = String::new();
        stream.read_to_string(&mut rest).unwrap();
        assert!(rest.starts_with("{\"error\":\"") && rest.ends_with("\"}\n"), "{rest}");
    }
    assert!(StatisticsClient::connect(&socket).unwrap().snapshot().is_ok());
}

#[test]
fn ten_megabytes_without_a_line_end_are_refused_early() {
    let watched = watched("long");
    let socket = watched.dir.join("socket");
    let _server = start(&watched, &socket);
    let mut stream = connect(&socket);
    let bytes = vec![b'a'; 64 << 10];
    let mut sent = 0;
    while sent < 10 << 20 && stream.get_mut().write_all(&bytes).is_ok() {
        sent += bytes.len();
    }
    assert!(sent < 2 << 20, "the server took {sent} bytes");
    let mut answer = String::new();
    stream.read_line(&mut answer).unwrap();
    assert!(answer.contains("longer than 4096 bytes"), "{answer}");
    assert!(StatisticsClient::connect(&socket).unwrap().snapshot().is_ok());
}

#[test]
fn requests_in_one_packet_are_answered_in_order() {
    let watched = watched("pipeline");
    let socket = watched.dir.join("socket");
    let _server = start(&watched, &socket);
    let mut stream = connect(&socket);
    let asks = "\"snapshot\"\n".repeat(50) + "end\n";
    stream.get_mut().write_all(asks.as_bytes()).unwrap();
    let lines: Vec<String> = stream.lines().map(Result::unwrap).collect();
    assert_eq!(lines.len(), 51);
    assert!(lines[..50].iter().all(|line| line.starts_with("{\"snapshot\":{")));
    assert!(lines[50].starts_with("{\"error\""));
}

/// Clients that never read, never end a request or say nothing, in every place of the server.
#[test]
fn silent_clients_give_their_places_to_others() {
    let watched = watched("silent");
    let socket = watched.dir.join("socket");
    let _server = start(&watched, &socket);
    let mut clients: Vec<UnixStream> = (0..8).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    for (index, client) in clients.iter_mut().enumerate() {
        client.set_nonblocking(true).unwrap();
        match index % 3 {
            0 => {}
            1 => client.write_all(b"\"snap").unwrap(),
            // More answers than the socket's buffer takes.
            _ => client.write_all("\"snapshot\"\n".repeat(300).as_bytes()).unwrap(),
        }
    }
    let mut answers = 0;
    wait_until("new clients are served beside eight silent ones", || {
        let snapshot = StatisticsClient::connect(&socket).and_then(|mut client| client.snapshot());
        answers += usize::from(snapshot.is_ok());
        answers == 8
    });
}

#[test]
fn a_hundred_connections_leave_the_server_at_work() {
    let watched = watched("hundred");
    let socket = watched.dir.join("socket");
    let _server = start(&watched, &socket);
    let clients: Vec<_> = (0..100).filter_map(|_| UnixStream::connect(&socket).ok()).collect();
    assert!(clients.len() > 8);
    let mut words = Vec::new();
    for mut client in clients {
        client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut first = [0; 8];
        words.push(client.read_exact(&mut first).map(|()| first));
    }
    let is = |word: &[u8; 8], start: &str| word.starts_with(start.as_bytes());
    let served = words.iter().flatten().filter(|word| is(word, "{\"esker_")).count();
    let busy = words.iter().flatten().filter(|word| is(word, "{\"error\"")).count();
    assert!(served >= 8, "{served} of {}", words.len());
    assert!(served + busy == words.len(), "{served} served, {busy} refused, of {}", words.len());
    wait_until("a place is free again", || {
        StatisticsClient::connect(&socket).and_then(|mut client| client.snapshot()).is_ok()
    });
}

#[test]
fn a_close_ends_the_server_and_its_socket() {
    let watched = watched("close");
    let socket = watched.dir.join("socket");
    let server = start(&watched, &socket);
    let mut client = StatisticsClient::connect(&socket).unwrap();
    client.snapshot().unwrap();
    watched.db.close().unwrap();
    wait_until("the server ends", || server.has_ended());
    assert!(!socket.exists());
    assert!(client.snapshot().is_err());
}

#[test]
fn a_drop_of_the_database_ends_the_server_and_frees_the_directory() {
    let watched = watched("drop");
    let socket = watched.dir.join("socket");
    let server = start(&watched, &socket);
    let mut client = StatisticsClient::connect(&socket).unwrap();
    client.snapshot().unwrap();
    let (path, Watched { db, dir, .. }) = (watched.db.path().to_owned(), watched);
    drop(db);
    // The server's thread may hold the last handle for some milliseconds.
    wait_until("the directory is free", || Db::open_default(&path).is_ok());
    wait_until("the server ends", || server.has_ended());
    assert!(!socket.exists());
    drop(dir);
}

#[test]
fn a_request_after_the_close_ends_a_server_without_a_listener() {
    let dir = TempDir::new("unheard");
    let (socket, monitor) = (dir.join("socket"), Monitor::new());
    let db = Arc::new(Db::open(&Options::new().create_if_missing(true), dir.join("db")).unwrap());
    let server = StatisticsServer::start(&monitor, &db, &StatisticsServerOptions::new(&socket)).unwrap();
    let mut client = StatisticsClient::connect(&socket).unwrap();
    client.snapshot().unwrap();
    db.close().unwrap();
    assert!(!server.has_ended());
    assert_eq!(client.snapshot().unwrap_err().kind(), ErrorKind::ShutdownInProgress);
    wait_until("the server ends", || server.has_ended());
    assert!(!socket.exists());
}

#[test]
fn requests_within_the_interval_get_one_snapshot() {
    let watched = watched("interval");
    let socket = watched.dir.join("socket");
    let options = StatisticsServerOptions::new(&socket).interval(Duration::from_secs(3600));
    let _server = StatisticsServer::start(&watched.monitor, &watched.db, &options).unwrap();
    let mut client = StatisticsClient::connect(&socket).unwrap();
    let first = client.snapshot().unwrap();
    watched.db.put("key", "value").unwrap();
    assert_eq!(client.snapshot().unwrap(), first);
    assert_eq!(StatisticsClient::connect(&socket).unwrap().snapshot().unwrap(), first);
}

#[test]
fn other_servers_are_told_from_statistics_servers() {
    let dir = TempDir::new("other");
    for (words, kind) in [
        ("hello\n", ErrorKind::Corruption),
        ("{\"esker_statistics\":2,\"pid\":1,\"version\":\"9\"}\n", ErrorKind::NotSupported),
        ("{\"error\":\"no place\"}\n", ErrorKind::Busy),
        ("", ErrorKind::IoError),
    ] {
        let socket = dir.join(format!("{kind:?}"));
        let listener = UnixListener::bind(&socket).unwrap();
        let answer = std::thread::scope(|scope| {
            scope.spawn(|| listener.accept().unwrap().0.write_all(words.as_bytes()).unwrap());
            StatisticsClient::connect(&socket).unwrap_err()
        });
        assert_eq!(answer.kind(), kind, "{answer}");
        assert!(answer.to_string().contains(socket.to_str().unwrap()), "{answer}");
    }
}

/// As a process that does not run, with other clients in its queue.
#[test]
fn a_full_queue_is_an_error_at_once() {
    let dir = TempDir::new("queue");
    let socket = dir.join("socket");
    let kind = rustix::net::SocketType::STREAM;
    let listener = rustix::net::socket(rustix::net::AddressFamily::UNIX, kind, None).unwrap();
    let address = rustix::net::SocketAddrUnix::new(&socket).unwrap();
    rustix::net::bind(&listener, &address).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let _waiting = UnixStream::connect(&socket).unwrap();
    let refused = RemoteStatistics::new(&socket).latest().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Busy, "{refused}");
    assert!(refused.to_string().contains(socket.to_str().unwrap()), "{refused}");
}

/// A server that is silent, and one whose line does not end.
#[test]
fn a_slow_server_is_given_up_after_the_patience() {
    let dir = TempDir::new("drip");
    let socket = dir.join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _silent = listener.accept().unwrap();
            let (mut dripping, _) = listener.accept().unwrap();
            while dripping.write_all(b"{").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        for _ in 0..2 {
            let given_up = StatisticsClient::connect_within(&socket, Duration::from_millis(200));
            let given_up = given_up.unwrap_err();
            assert_eq!(given_up.kind(), ErrorKind::IoError);
            assert!(given_up.to_string().contains("no answer in time"), "{given_up}");
        }
    });
}
