//! The HTTP page: its answers, its refusals, and its look in a browser.

use crate::{Watched, wait_until, watched};
use esker::{Db, ErrorKind};
use esker_monitor::{
    Monitor, PageServer, PageServerOptions, RemoteStatistics, StatisticsServer, StatisticsServerOptions,
    StatisticsSnapshot, WatchedDb,
};
use esker_testkit::TempDir;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

fn page(watched: &Watched) -> PageServer {
    let source = WatchedDb::new(&watched.monitor, &watched.db, Duration::ZERO);
    let options = PageServerOptions::new(([127, 0, 0, 1], 0).into()).hosts(vec!["known.example".to_owned()]);
    PageServer::start(Box::new(source), &options).unwrap()
}

fn send(address: SocketAddr, head: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(head).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn get(address: SocketAddr, path: &str) -> String {
    send(address, format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())
}

#[test]
fn the_page_the_json_and_the_metrics_are_served() {
    let watched = watched("page");
    watched.db.put("key", "value").unwrap();
    watched.db.flush().unwrap();
    let server = page(&watched);
    let answer = get(server.address(), "/");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/html"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
    for outside in ["http://", "https://", "<link", "<img", "src=", "@import", "innerHTML"] {
        assert!(!body.contains(outside), "{outside}");
    }
    // As esker top and the dashboard do, the page counts keys of multi_get as read.
    assert!(body.contains("ticker(\"rocksdb.number.multiget.keys.read\")"));
    let answer = get(server.address(), "/snapshot.json?x=1");
    let snapshot: StatisticsSnapshot =
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(snapshot.families[0].table_files(), 1);
    let metrics = get(server.address(), "/metrics");
    assert!(metrics.contains("text/plain; version=0.0.4"), "{metrics}");
    assert!(metrics.contains("\nesker_level_files{family=\"default\",level=\"0\"} 1\n"), "{metrics}");
    let head = send(server.address(), b"HEAD /metrics HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.ends_with("\r\n\r\n"), "{head}");
}

#[test]
fn requests_of_other_kinds_are_refused() {
    let watched = watched("refusals");
    let server = page(&watched);
    let long = format!("GET / HTTP/1.1\r\nHost: localhost\r\nA: {}\r\n\r\n", "a".repeat(20_000));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "Host: localhost\r\n".repeat(2));
    for (head, status) in [
        ("GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n", "404"),
        ("GET /../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", "404"),
        ("POST / HTTP/1.1\r\nHost: localhost\r\n\r\n", "405"),
        ("GET / HTTP/1.1\r\n\r\n", "400"),
        ("nonsense\r\n\r\n", "400"),
        (&many, "400"),
        (&long, "431"),
        // A page of evil.example whose name resolves to 127.0.0.1.
        ("GET /snapshot.json HTTP/1.1\r\nHost: evil.example\r\n\r\n", "421"),
        ("GET /metrics HTTP/1.1\r\nHost: localhost.evil.example:80\r\n\r\n", "421"),
        ("GET /metrics HTTP/1.1\r\nHost: known.example:80\r\n\r\n", "200"),
        ("GET /metrics HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", "200"),
    ] {
        let answer = send(server.address(), head.as_bytes());
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{:.80} got {answer:.200}", head);
    }
}

#[test]
fn a_head_that_does_not_end_is_given_up() {
    let watched = watched("slow");
    let server = page(&watched);
    let mut slow = TcpStream::connect(server.address()).unwrap();
    slow.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    slow.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    assert!(get(server.address(), "/metrics").starts_with("HTTP/1.1 200"));
    let mut rest = Vec::new();
    // The end, or a reset, after five seconds: no timeout of this side.
    let ended = slow.read_to_end(&mut rest);
    assert!(ended.is_ok() || ended.is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionReset));
    assert_eq!(rest, b"");
}

#[test]
fn other_hosts_need_a_permission() {
    let watched = watched("remote");
    let source = || Box::new(WatchedDb::new(&watched.monitor, &watched.db, Duration::ZERO));
    let anywhere = PageServerOptions::new(([0, 0, 0, 0], 0).into());
    let refused = PageServer::start(source(), &anywhere).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert!(refused.to_string().contains("0.0.0.0:0"), "{refused}");
    PageServer::start(source(), &anywhere.allow_remote(true)).unwrap();
    let first = page(&watched);
    let taken = PageServer::start(source(), &PageServerOptions::new(first.address())).unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::IoError);
    assert!(taken.to_string().contains(&first.address().to_string()), "{taken}");
}

#[test]
fn a_page_beside_the_process_survives_a_new_server() {
    let watched = watched("beside");
    let socket = watched.dir.join("socket");
    let options = PageServerOptions::new(([127, 0, 0, 1], 0).into());
    let page = PageServer::start(Box::new(RemoteStatistics::new(&socket)), &options).unwrap();
    assert!(get(page.address(), "/snapshot.json").starts_with("HTTP/1.1 503 "));
    for _ in 0..2 {
        let options = StatisticsServerOptions::new(&socket);
        let _server = StatisticsServer::start(&watched.monitor, &watched.db, &options).unwrap();
        assert!(get(page.address(), "/snapshot.json").starts_with("HTTP/1.1 200 "));
        assert!(get(page.address(), "/metrics").starts_with("HTTP/1.1 200 "));
    }
    assert!(!page.has_ended());
}

#[test]
fn a_page_without_readers_ends_with_its_database() {
    let watched = watched("closed");
    let server = page(&watched);
    watched.db.close().unwrap();
    wait_until("the page ends", || server.has_ended());
    // There is no close to come.
    let late = page(&watched);
    wait_until("the late page ends", || late.has_ended());
    late.wait();
}

#[test]
fn a_request_after_the_close_ends_a_page_without_a_listener() {
    let dir = TempDir::new("page-unheard");
    let db = Arc::new(Db::open_default(dir.join("db")).unwrap());
    let source = WatchedDb::new(&Monitor::new(), &db, Duration::ZERO);
    let options = PageServerOptions::new(([127, 0, 0, 1], 0).into());
    let server = PageServer::start(Box::new(source), &options).unwrap();
    db.close().unwrap();
    assert!(!server.has_ended());
    assert!(get(server.address(), "/metrics").starts_with("HTTP/1.1 503 "));
    server.wait();
}

/// The browser's document of the page, after its script has run.
fn rendered(address: SocketAddr, profile: &str) -> Option<String> {
    let programs = ["chromium", "chromium-browser", "google-chrome"];
    for program in programs {
        let mut command = Command::new(program);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=4000"]);
        command.args([&format!("--user-data-dir={profile}"), "--dump-dom", &format!("http://{address}/")]);
        if let Ok(output) = command.stdin(Stdio::null()).output() {
            return Some(String::from_utf8_lossy(&output.stdout).into_owned());
        }
    }
    None
}

#[test]
fn a_browser_shows_levels_rates_and_hostile_names_as_text() {
    let watched = watched("browser");
    let hostile = "<img src=x onerror=document.title='broken'>";
    watched.db.create_column_family(hostile, &Default::default()).unwrap();
    (0..100_u8).for_each(|key| watched.db.put([key], [key; 1000]).unwrap());
    watched.db.flush().unwrap();
    let server = page(&watched);
    let profile = watched.dir.join("profile");
    let Some(document) = rendered(server.address(), profile.to_str().unwrap()) else {
        eprintln!("skipped: chromium is not installed");
        return;
    };
    let path = watched.db.path().display().to_string();
    for wanted in [path.as_str(), "keys written", "Family 'default'", "1 files, ", "L0", "no flush and no"] {
        assert!(document.contains(wanted), "{wanted}: {document}");
    }
    assert!(document.contains("&lt;img src=x") && !document.contains("<img"), "{document}");
    assert!(!document.contains("<title>broken"), "{document}");
}
