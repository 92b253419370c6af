//! `esker report` on LOG files of Esker and RocksDB, and on damaged ones.

use crate::run::{esker, golden, peer, sample};
use esker::{Db, Options};
use esker_testkit::TempDir;
use std::path::Path;

fn report(dir: &Path, flags: &[&str]) -> String {
    esker(&[&["report", dir.to_str().unwrap()], flags].concat()).ok()
}

/// Checks what every page must be: whole, and without anything that loads or runs.
#[track_caller]
fn check_page(page: &str) {
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    for forbidden in ["<script", "http://", "https://", "<link", "<img", "NaN", "inf\""] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
}

#[test]
fn a_log_of_esker_becomes_charts_of_levels_and_jobs() {
    let temp = TempDir::new("report");
    let dir = temp.join("db");
    let mut options = Options::new().create_if_missing(true);
    options.cf.level0_file_num_compaction_trigger = 2;
    for _ in 0..3 {
        let db = Db::open(&options, &dir).unwrap();
        for flush in 0..4_u8 {
            (0..200_u8).for_each(|key| db.put([key], vec![flush; 200]).unwrap());
            db.flush().unwrap();
        }
        db.compact_range(None, None).unwrap();
        db.close().unwrap();
    }
    let out = temp.join("report.html");
    report(&dir, &["--out", out.to_str().unwrap()]);
    let page = std::fs::read_to_string(&out).unwrap();
    check_page(&page);
    for wanted in [
        "family &#39;default&#39;",
        "3 files, ",
        "&#39;default&#39;: files in each level",
        "Jobs by level of their output",
        "<td>flush</td>",
        "<td>compaction</td>",
        " by Esker 0.",
        ">flush</span>",
    ] {
        assert!(page.contains(wanted), "{wanted}");
    }
    // One bar for each job.
    let log_files = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path());
    let logs = log_files.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("LOG"));
    let events: usize = logs
        .map(|path| {
            let text = std::fs::read_to_string(path).unwrap();
            ["flush_finished", "compaction_finished", "\"trivial_move\""]
                .iter()
                .map(|event| text.matches(event).count())
                .sum::<usize>()
        })
        .sum();
    assert_eq!(page.matches("<rect class=\"job ").count(), events);
    assert!(events >= 12, "{events}");
}

#[test]
fn a_log_of_rocksdb_becomes_the_same_charts() {
    let temp = TempDir::new("report-peer");
    let dir = temp.join("db");
    let db = format!("--db={}", dir.display());
    let flags = [
        &db[..],
        "--benchmarks=fillrandom",
        "--num=30000",
        "--write_buffer_size=200000",
        "--target_file_size_base=200000",
        "--max_bytes_for_level_base=800000",
        "--level0_slowdown_writes_trigger=4",
        "--level0_stop_writes_trigger=6",
        "--stats_dump_period_sec=1",
    ];
    let Some(made) = peer("db_bench", &flags) else { return };
    assert_eq!(made.code, Some(0), "{made:?}");
    let page = report(&dir, &[]);
    check_page(&page);
    for wanted in [
        "&#39;default&#39;: files in each level",
        "Write Buffer Full",
        "LevelL0FilesNum",
        " by RocksDB 7.8.3",
        "Causes of stalls",
        "<td>files in level 0</td>",
    ] {
        assert!(page.contains(wanted), "{wanted}");
    }
}

/// The LOG of a database that is gone.
#[test]
fn a_log_without_a_database_still_makes_a_page() {
    let temp = TempDir::new("report-log-only");
    let db = sample(&temp);
    std::fs::remove_file(db.join("CURRENT")).unwrap();
    let page = report(&db, &[]);
    check_page(&page);
    assert!(page.contains("CURRENT") && page.contains("History"), "{page}");
    let empty = temp.join("empty");
    std::fs::create_dir(&empty).unwrap();
    assert!(esker(&["report", empty.to_str().unwrap()]).failed().contains("CURRENT"));
}

#[test]
fn a_database_without_a_log_makes_a_page() {
    let page = report(&golden("v7_8_default"), &[]);
    check_page(&page);
    assert!(page.contains("The LOG files have no events"));
}

#[test]
fn forged_logs_never_break_the_page() {
    let temp = TempDir::new("report-forged");
    let db = sample(&temp);
    let real = std::fs::read(db.join("LOG")).unwrap();
    let mut random = fastrand::Rng::with_seed(3);
    let evil = r#"
2026/11/20-02:00:01.000000 1 EVENT_LOG_v1 {"time_micros": 1, "job": 2, "event": "flush_started", "flush_reason": "<script>x</script>"}
2026/11/20-02:00:01.000000 1 EVENT_LOG_v1 {"time_micros": 18446744073709551615, "cf_name": "\"><script>", "job": 2, "event": "table_file_creation", "file_size": 18446744073709551615}
2026/11/20-02:00:01.000000 1 EVENT_LOG_v1 {"time_micros": 18446744073709551615, "job": 2, "event": "flush_finished", "lsm_state": [18446744073709551615, 18446744073709551615]}
2026/11/20-02:00:01.000000 1 [<script>] Stopping writes because of <script>
2026/11/20-02:00:01.000000 1 [ERROR] <script>alert(1)</script>
9999/12/31-23:59:60.999999 1 ------- DUMPING STATS -------
  L99999      3/0   1e308 PB   0.4
  L3      3/0   NaN MB   0.4
Interval stall: 00:00:0.436 H:M:S, 1e300 percent
"#;
    for round in 0..12 {
        let mut bytes = real.clone();
        match round % 4 {
            0 => bytes.truncate(random.usize(..bytes.len())),
            1 => (0..40).for_each(|_| {
                let at = random.usize(..bytes.len());
                bytes[at] = random.u8(..);
            }),
            2 => bytes = std::iter::repeat_with(|| random.u8(..)).take(5000).collect(),
            // A line without an end, longer than any that counts.
            _ => bytes.extend(std::iter::repeat_n(b'x', 5 << 20)),
        }
        bytes.extend_from_slice(evil.as_bytes());
        let log = temp.join("forged");
        std::fs::write(&log, &bytes).unwrap();
        let page = report(&db, &["--log", log.to_str().unwrap()]);
        check_page(&page);
    }
}
