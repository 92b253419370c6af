use super::*;
use crate::clock::MockClock;
use crate::fault::{FaultFs, FaultRule, OpKind};
use crate::mem::MemFs;
use esker_base::info_log;
use std::time::Duration;

const NOW: u64 = 1_795_208_743_000_042;

struct Bench {
    fs: FaultFs,
    clock: Arc<MockClock>,
    env: Env,
}

impl Bench {
    fn new() -> Bench {
        let (fs, clock) = (FaultFs::new(Arc::new(MemFs::new())), Arc::new(MockClock::new(NOW)));
        let env = Env::new(Arc::new(fs.clone()), Arc::clone(&clock) as _);
        Bench { fs, clock, env }
    }

    fn open(&self, options: InfoLogOptions) -> InfoLogFile {
        InfoLogFile::open(&self.env, Path::new("/db/LOG"), options).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let mut names = self.fs.children(Path::new("/db")).unwrap();
        names.sort();
        names
    }

    /// The messages of a file, without stamps.
    fn messages(&self, name: &str) -> Vec<String> {
        let mut buf = vec![0; 1 << 16];
        let n = self.fs.new_sequential_file(&Path::new("/db").join(name)).unwrap().read(&mut buf).unwrap();
        let text = String::from_utf8(buf[..n].to_vec()).unwrap();
        text.lines().map(|line| line.splitn(3, ' ').nth(2).unwrap().to_owned()).collect()
    }
}

#[test]
fn lines_look_as_rocksdb_writes_them() {
    let bench = Bench::new();
    let log = bench.open(InfoLogOptions::default());
    info_log!(log, Info, "number {}", 7);
    info_log!(log, Warn, "careful\n");
    info_log!(log, Debug, "unseen");
    assert_eq!(bench.messages("LOG"), ["number 7", "[WARN] careful"]);
    let mut buf = [0; 200];
    let n = bench.fs.new_sequential_file(Path::new("/db/LOG")).unwrap().read(&mut buf).unwrap();
    let text = std::str::from_utf8(&buf[..n]).unwrap();
    let shape: String =
        text.lines().next().unwrap().chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    let thread = "0".repeat(thread_id().to_string().len());
    assert_eq!(shape, format!("0000/00/00-00:00:00.000000 {thread} number 0"));
    assert!(text.contains(":43.000042 "), "{text}");
    assert!(text.starts_with("2026/11/2"), "{text}");
}

#[test]
fn the_level_decides_and_can_change() {
    let bench = Bench::new();
    let log = bench.open(InfoLogOptions { level: InfoLogLevel::Error, ..Default::default() });
    log.log(InfoLogLevel::Warn, format_args!("no"));
    log.log(InfoLogLevel::Header, format_args!("headers always"));
    log.set_level(InfoLogLevel::Debug);
    assert_eq!(log.level(), InfoLogLevel::Debug);
    log.log(InfoLogLevel::Debug, format_args!("yes"));
    assert_eq!(bench.messages("LOG"), ["headers always", "[DEBUG] yes"]);
}

#[test]
fn opening_keeps_the_old_file_and_a_limited_number_of_files() {
    let bench = Bench::new();
    for i in 0..6 {
        let log = bench.open(InfoLogOptions { keep_log_file_num: 3, ..Default::default() });
        info_log!(log, Info, "opening {i}");
        // The clock does not advance for the first three: their names must differ all the same.
        bench.clock.advance(Duration::from_secs(u64::from(i > 2)));
    }
    let names = bench.names();
    assert_eq!(names.len(), 3, "{names:?}");
    assert_eq!(names[0], "LOG");
    let messages: Vec<_> = names.iter().flat_map(|name| bench.messages(name)).collect();
    assert_eq!(messages, ["opening 5", "opening 3", "opening 4"]);
}

#[test]
fn large_and_old_files_are_rolled_with_their_headers() {
    let bench = Bench::new();
    let options = InfoLogOptions { max_log_file_size: 200, log_file_time_to_roll: 60, ..Default::default() };
    let log = bench.open(options);
    info_log!(log, Header, "version");
    for i in 0..20 {
        info_log!(log, Info, "line {i} {}", "x".repeat(20));
    }
    let old = bench.names().len();
    assert!(old > 4, "{old}");
    for name in bench.names() {
        let messages = bench.messages(&name);
        assert_eq!(messages[0], "version");
        assert!((2..=5).contains(&messages.len()), "{messages:?}");
    }
    info_log!(log, Info, "young");
    bench.clock.advance(Duration::from_secs(60));
    info_log!(log, Info, "new file");
    assert_eq!(bench.messages("LOG"), ["version", "new file"]);
}

#[test]
fn a_clock_that_goes_back_keeps_files_rolling_and_the_newest_of_them() {
    let bench = Bench::new();
    let options = InfoLogOptions { log_file_time_to_roll: 60, keep_log_file_num: 3, ..Default::default() };
    let log = bench.open(options);
    info_log!(log, Info, "0");
    bench.clock.advance(Duration::from_secs(60));
    info_log!(log, Info, "1");
    bench.clock.set_micros(NOW - 3_600_000_000);
    for line in 2..6 {
        bench.clock.advance(Duration::from_secs(60));
        info_log!(log, Info, "{line}");
    }
    let mut messages: Vec<_> = bench.names().iter().flat_map(|name| bench.messages(name)).collect();
    messages.sort();
    assert_eq!(messages, ["3", "4", "5"]);
}

#[test]
fn a_line_that_cannot_be_written_is_lost_and_the_next_one_tries_again() {
    let bench = Bench::new();
    let log = bench.open(InfoLogOptions { max_log_file_size: 1, ..Default::default() });
    info_log!(log, Info, "one");
    bench.fs.add_rule(FaultRule::fail(&[OpKind::Create]));
    info_log!(log, Info, "two");
    assert_eq!(log.lost_lines(), 1);
    info_log!(log, Info, "three");
    assert_eq!(log.lost_lines(), 1);
    assert_eq!(bench.messages("LOG"), ["three"]);
    // A file that cannot be put away is written on.
    bench.fs.add_rule(FaultRule::fail(&[OpKind::Rename]));
    info_log!(log, Info, "four");
    assert_eq!((bench.messages("LOG"), log.lost_lines()), (vec!["three".to_owned(), "four".to_owned()], 1));
    bench.fs.add_rule(FaultRule::fail(&[OpKind::Create]));
    assert!(InfoLogFile::open(&bench.env, Path::new("/db/LOG"), InfoLogOptions::default()).is_err());
}

#[test]
fn a_full_disk_costs_lines_but_no_file_of_before() {
    let bench = Bench::new();
    let log =
        bench.open(InfoLogOptions { max_log_file_size: 200, keep_log_file_num: 3, ..Default::default() });
    let say = |what: &str| {
        bench.clock.advance(Duration::from_secs(1));
        info_log!(log, Info, "{what} {}", "x".repeat(40));
    };
    info_log!(log, Header, "version");
    // Three lines fill a file: the newest is full.
    (0..21).for_each(|_| say("before"));
    let lines = || bench.names().iter().map(|name| bench.messages(name).len()).sum::<usize>();
    let (before, files) = (lines(), bench.names().len());
    bench.fs.add_rule(FaultRule::fail(&[OpKind::Append]).no_space().forever());
    (0..20).for_each(|_| say("lost"));
    // At most one was put away, for one that nothing can be written to.
    assert!(lines() * files >= before * (files - 1), "{} lines of {before}", lines());
    assert_eq!(log.lost_lines(), 20);
    bench.fs.clear_rules();
    say("there is room again");
    assert_eq!(bench.messages("LOG").len(), 1);
}
