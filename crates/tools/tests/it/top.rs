//! `esker top` beside `esker db_bench`, by socket, directory and process.

use crate::run::esker;
use esker::{Db, Options};
use esker_monitor::{Monitor, StatisticsServer, StatisticsServerOptions, StatisticsSnapshot};
use esker_testkit::TempDir;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// A program that is killed at the end of its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().unwrap_or_default();
        self.0.wait().unwrap();
    }
}

fn start(arguments: &[&str]) -> Running {
    let mut command = Command::new(env!("CARGO_BIN_EXE_esker"));
    Running(
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    )
}

/// `db_bench` at work, with a statistics socket.
fn bench(temp: &TempDir) -> (Running, PathBuf, PathBuf) {
    let (db, socket) = (temp.join("db"), temp.join("socket"));
    let flags = [
        format!("--db={}", db.display()),
        format!("--statistics_socket={}", socket.display()),
        "--benchmarks=fillrandom,overwrite[-X1000]".to_owned(),
        "--num=20000".to_owned(),
        "--write_buffer_size=200000".to_owned(),
        "--target_file_size_base=200000".to_owned(),
        "--benchmark_write_rate_limit=20000000".to_owned(),
    ];
    let all: Vec<&str> = std::iter::once("db_bench").chain(flags.iter().map(String::as_str)).collect();
    let running = start(&all);
    for _ in 0..6000 {
        if esker(&["top", socket.to_str().unwrap(), "--json", "--count=1"]).code == Some(0) {
            return (running, db, socket);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("db_bench serves no statistics");
}

fn snapshots(text: &str) -> Vec<StatisticsSnapshot> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_benchmark_is_seen_by_socket_directory_and_process() {
    let temp = TempDir::new("top");
    let (running, db, socket) = bench(&temp);
    let pid = running.0.id();
    for target in [socket.display().to_string(), db.display().to_string(), pid.to_string()] {
        let screen = esker(&["top", &target, "--once", "--interval=0.5", "--width=80"]).ok();
        for wanted in
            [db.to_str().unwrap(), &format!("process {pid}, "), "Levels of 'default' (1 of 1)", "L0 "]
        {
            assert!(screen.contains(wanted), "{target}: {wanted}\n{screen}");
        }
        assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
        assert!(!screen.contains('\u{1b}'), "{screen}");
        assert!(!screen.contains("written          0/s"), "{screen}");
        let json = esker(&["top", &target, "--json", "--count=2", "--interval=0.1"]).ok();
        let [first, second] = &snapshots(&json)[..] else { panic!("{json}") };
        assert!(first.has_listener && second.uptime_seconds > 0.0);
        assert_eq!((first.process.pid, &first.process.path), (pid, &db.display().to_string()));
    }
}

#[test]
fn targets_without_a_server_are_named() {
    let temp = TempDir::new("top-none");
    let db = temp.join("db");
    let _open = Db::open(&Options::new().create_if_missing(true), &db).unwrap();
    let file = temp.join("file");
    std::fs::write(&file, "text").unwrap();
    let (me, db) = (std::process::id().to_string(), db.display().to_string());
    for (target, why) in [
        (temp.path().to_str().unwrap(), "no process has a database open here"),
        (&db, "serves no statistics; start it with"),
        (&me, "serves no statistics; start it with"),
        (file.to_str().unwrap(), "is neither a socket nor a directory"),
        ("/nowhere", "/nowhere: No such file"),
        ("4294967294", "/proc/4294967294/fd: "),
    ] {
        let failed = esker(&["top", target, "--once"]).failed();
        assert!(failed.contains(why), "{target}: {failed}");
    }
    let socket = temp.join("socket");
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let failed = esker(&["top", socket.to_str().unwrap(), "--json"]).failed();
    assert!(failed.contains(socket.to_str().unwrap()), "{failed}");
}

/// A server of this process.
fn served(temp: &TempDir) -> (Arc<Db>, StatisticsServer) {
    let monitor = Monitor::new();
    let db = Arc::new(Db::open(&Options::new().create_if_missing(true), temp.join("db")).unwrap());
    let options = StatisticsServerOptions::new(temp.join("socket"));
    let server = StatisticsServer::start(&monitor, &db, &options).unwrap();
    (db, server)
}

#[test]
fn a_pipe_needs_a_flag_and_json_ends_with_the_server() {
    let temp = TempDir::new("top-pipe");
    let (_db, server) = served(&temp);
    let socket = temp.join("socket").display().to_string();
    let failed = esker(&["top", &socket]).failed();
    assert_eq!(failed, "top: the output is no terminal; use --once or --json\n");
    let mut running = start(&["top", &socket, "--json", "--interval=0.05"]);
    let mut lines = BufReader::new(running.0.stdout.take().unwrap()).lines();
    assert_eq!(snapshots(&lines.next().unwrap().unwrap())[0].process.pid, std::process::id());
    drop(server);
    assert!(lines.all(|line| snapshots(&line.unwrap()).len() == 1));
    assert_eq!(running.0.wait().unwrap().code(), Some(0));
}

/// A socket that gives one snapshot, and other words to the next client.
#[test]
fn json_without_a_count_tells_other_errors_than_the_end() {
    let temp = TempDir::new("top-words");
    let socket = temp.join("socket");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let serve = move || {
        let (mut first, _) = listener.accept().unwrap();
        let snapshot = serde_json::to_string(&StatisticsSnapshot::default()).unwrap();
        let hello = "{\"esker_statistics\":1,\"pid\":1,\"version\":\"0\"}";
        first.write_all(format!("{hello}\n{{\"snapshot\":{snapshot}}}\n").as_bytes()).unwrap();
        // The request has come, so the client has read the hello.
        BufReader::new(&first).read_line(&mut String::new()).unwrap();
        drop(first);
        listener.accept().unwrap().0.write_all(b"hello\n").unwrap();
    };
    let server = std::thread::Builder::new().spawn(serve).unwrap();
    let ended = esker(&["top", socket.to_str().unwrap(), "--json", "--interval=0.05"]);
    assert_eq!(snapshots(&ended.out).len(), 1);
    assert!(ended.failed().contains("is no statistics server"));
    server.join().unwrap();
}

#[test]
fn http_serves_a_page_from_the_side_of_the_client() {
    let temp = TempDir::new("top-http");
    let (_db, _server) = served(&temp);
    let socket = temp.join("socket").display().to_string();
    let failed = esker(&["top", &socket, "--http=0.0.0.0:0"]).failed();
    assert_eq!(failed, "--http 0.0.0.0:0: other hosts need --allow-remote\n");
    let mut running = start(&["top", &socket, "--http=127.0.0.1:0"]);
    let mut line = String::new();
    BufReader::new(running.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.strip_prefix("http://").and_then(|rest| rest.split_once('/')).unwrap().0;
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.contains("esker_info{path=\"") && text.contains("/db\""), "{text}");
}

#[test]
fn a_second_benchmark_at_one_socket_is_refused_by_its_path() {
    let temp = TempDir::new("top-second");
    let (_db, _server) = served(&temp);
    let socket = temp.join("socket");
    let flags = [
        format!("--db={}", temp.join("other").display()),
        format!("--statistics_socket={}", socket.display()),
    ];
    let failed = esker(&["db_bench", "--benchmarks=fillseq", "--num=10", &flags[0], &flags[1]]).failed();
    assert!(failed.contains(socket.to_str().unwrap()) && failed.contains("another server"), "{failed}");
    assert!(Path::new(&socket).exists());
}
