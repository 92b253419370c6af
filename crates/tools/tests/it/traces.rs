//! `esker trace_analyzer`, `esker block_cache_trace_analyzer` and `esker io_tracer_parser`.

use crate::run::{esker, files, peer};
use esker::internals::format::trace::binary_header;
use esker::trace::{
    BlockCacheTraceOptions, IoOp, Query, TraceFrame, TraceKind, TraceWriter, new_file_trace_writer,
};
use esker::{Db, Env, Options, WriteBatch};
use esker_testkit::TempDir;
use std::path::{Path, PathBuf};

const SECOND: u64 = 1_000_000;

/// Writes a trace of `queries`. The number beside a query is its time, in seconds after the trace's
/// begin.
fn trace(path: &Path, queries: &[(u64, Query<'_>)]) {
    let mut writer: Box<dyn TraceWriter> = new_file_trace_writer(&Env::default(), path).unwrap();
    let header =
        b"feedcafedeadbeef\tTrace Version: 0.2\tRocksDB Version: 11.8\tFormat: Timestamp OpType Payload\n";
    let mut add = |timestamp, kind, payload: &[u8]| {
        let mut record = Vec::new();
        TraceFrame { timestamp, kind, payload }.encode(&mut record);
        writer.write(&record).unwrap();
    };
    add(SECOND, TraceKind::Begin as u8, header);
    for (second, query) in queries {
        let mut payload = Vec::new();
        query.encode(&mut payload);
        add((second + 1) * SECOND, query.kind() as u8, &payload);
    }
    add(100 * SECOND, TraceKind::End as u8, b"");
    writer.close().unwrap();
}

fn batch() -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(b"a", b"12345678").unwrap();
    batch.merge(b"b", b"123").unwrap();
    batch.delete(b"a").unwrap();
    batch.delete_range(b"c", b"e").unwrap();
    batch
}

/// Gets of a, a, bb at seconds 0, 0 and 3; a batch; seeks; a multi-get of two families.
fn sample(temp: &TempDir) -> PathBuf {
    let path = temp.join("queries");
    let family = esker::ColumnFamilyId(0);
    let get = |key| Query::Get { family, key };
    let seek =
        |for_prev| Query::IteratorSeek { family, for_prev, key: b"m", lower_bound: b"", upper_bound: b"z" };
    let batch = batch();
    let other = esker::ColumnFamilyId(7);
    trace(
        &path,
        &[
            (0, get(b"a")),
            (0, get(b"a")),
            (1, Query::Write(batch.data())),
            (2, seek(false)),
            (2, seek(true)),
            (3, get(b"bb")),
            (4, Query::MultiGet(vec![(family, b"a"), (other, b"x")])),
        ],
    );
    path
}

#[test]
fn queries_are_counted_and_reported_as_by_rocksdbs_tool() {
    let temp = TempDir::new("trace-analyzer");
    let flag = format!("--trace_path={}", sample(&temp).display());
    let dir = temp.join("reports");
    std::fs::create_dir(&dir).unwrap();
    let to = format!("--output_dir={}", dir.display());
    let printed = esker(&[
        "trace_analyzer",
        &flag,
        &to,
        "--analyze_get",
        "--analyze_put",
        "--analyze_merge",
        "--analyze_range_delete",
        "--analyze_iterator",
        "--analyze_multiget",
        "--analyze_delete",
        "--output_key_stats",
        "--output_access_count_stats",
        "--output_time_series",
        "--output_prefix_cut=1",
        "--convert_to_human_readable_trace",
        "--output_qps_stats",
        "--output_key_distribution",
        "--output_value_distribution",
        "--print_top_k_access=2",
    ])
    .ok();
    for line in [
        "################# Operation Type: get #####################",
        "Total number of queries to this cf by get: 3",
        "Total unique keys in this cf: 2",
        "Average key size: 1.333333 key size medium: 2 Key size Variation: 0.471405",
        "Peak QPS is: 2 Average QPS is: 0.750000",
        "Access_count: 2 0x61",
        "Average value size: 8.000000 Value size medium: 8 Value size variation: 0.000000",
        "Total_requests: 7 Total_accessed_keys: 11 Total_gets: 3 Total_write_batches: 1 Total_seeks: 1 \
         Total_seek_for_prevs: 1 Total_multigets: 1",
        "Operation: 'multiget' has: 2",
        "Operation: 'range_delete' has: 2",
    ] {
        assert!(printed.lines().any(|l| l == line), "{line}\n{printed}");
    }
    let report = |name: &str| std::fs::read_to_string(dir.join(format!("trace-{name}.txt"))).unwrap();
    assert_eq!(report("get-0-accessed_key_stats"), "0 10 0 2 1.000000\n0 10 1 1 1.000000\n");
    assert_eq!(
        report("get-0-accessed_key_count_distribution"),
        "access_count: 1 num: 1\naccess_count: 2 num: 1\n"
    );
    assert_eq!(report("get-0-accessed_key_size_distribution"), "1 1\n2 1\n");
    assert_eq!(
        report("put-0-accessed_value_size_distribution"),
        "Number_of_value_size_between 0 and 16 is: 1\n"
    );
    assert_eq!(report("get-0-time_series"), "0 0 0\n0 0 0\n0 3 1\n");
    assert_eq!(
        report("get-0-accessed_key_prefix_cut"),
        "0 2 1 2.000000 1.000000 0x61\n1 1 1 1.000000 1.000000 0x62\n"
    );
    assert_eq!(report("get-0-qps_stats"), "2\n0\n0\n1\n");
    assert_eq!(report("qps_stats").lines().next(), Some("2 0 0 0 0 0 0 0 0 0 2"));
    assert_eq!(report("qps_stats").lines().nth(1), Some("0 1 1 0 2 1 0 0 0 0 5"));
    assert_eq!(report("cf_qps_stats").lines().next(), Some("2 0"));
    let sequence = report("human_readable_trace");
    assert_eq!(sequence.lines().next(), Some("0x61 0 0 0 1000000"));
    assert!(
        sequence.contains("0x63 0x65 4 0 0 2000000\n") && sequence.contains("0x78 8 7 0 5000000\n"),
        "{sequence}"
    );
}

/// Gets of a at seconds 0, 1, 4, a put of a at 1, gets of bb at 3 and 8.
#[test]
fn queries_that_follow_others_and_whole_key_spaces_are_reported() {
    let temp = TempDir::new("trace-correlation");
    let (path, dir, space) = (temp.join("queries"), temp.join("reports"), temp.join("space"));
    std::fs::create_dir(&dir).unwrap();
    std::fs::create_dir(&space).unwrap();
    let get = |key| Query::Get { family: esker::ColumnFamilyId(0), key };
    let batch = batch();
    trace(
        &path,
        &[
            (0, get(b"a")),
            (1, get(b"a")),
            (1, Query::Write(batch.data())),
            (3, get(b"bb")),
            (4, get(b"a")),
            (8, get(b"bb")),
        ],
    );
    let flag = format!("--trace_path={}", path.display());
    let to = format!("--output_dir={}", dir.display());
    let from = format!("--key_space_dir={}", space.display());
    let flags = ["--analyze_get", "--analyze_put", "--output_key_stats", "--output_prefix_cut=1"];
    let pairs = "--print_correlation=[get,get][get,put][put,get]";
    let analyze = |more: &[&str]| esker(&[&["trace_analyzer", &flag, &to, &from], &flags[..], more].concat());
    // 0x61, 0x62, 0x6262, 0x63.
    std::fs::write(space.join("0.txt"), "0x61\n0x62\n0x6262\n0x63\n").unwrap();
    let printed = analyze(&[pairs]).ok();
    for line in [
        // a at 1 and 4, bb at 8: 1, 3 and 5 seconds later.
        "The correlation statistics of 'get' after 'get' is: total numbers: 3 average time: 3000.000000(ms)",
        // The put has the time of a get, which does not count.
        "The correlation statistics of 'put' after 'get' is: total numbers: 0 average time: 0.000000(ms)",
        "The correlation statistics of 'get' after 'put' is: total numbers: 1 average time: 3000.000000(ms)",
        "The whole key space key numbers: 4",
    ] {
        assert!(printed.lines().any(|l| l == line), "{line}\n{printed}");
    }
    let report = |name: &str| std::fs::read_to_string(dir.join(format!("trace-{name}.txt"))).unwrap();
    assert_eq!(report("get-0-whole_key_stats"), "0 3\n2 2\n");
    assert_eq!(report("put-0-whole_key_stats"), "0 1\n");
    assert_eq!(report("get-0-whole_key_prefix_cut"), "0 0x61\n1 0x62\n3 0x63\n");
    std::fs::write(space.join("0.txt"), "0x61\nxyz\n").unwrap();
    assert!(analyze(&[]).failed().contains("0.txt, line 2"));
    std::fs::remove_file(space.join("0.txt")).unwrap();
    let without = analyze(&[]);
    assert!(without.err.contains("Warning") && without.ok().contains("The whole key space key numbers: 0"));
    for pairs in ["get,get", "[get]", "[get,got]", "[get,get"] {
        let told = analyze(&[&format!("--print_correlation={pairs}")]);
        assert!(told.code != Some(0) && told.err.contains("--print_correlation"), "{told:?}");
    }
    std::fs::remove_dir(&space).unwrap();
    assert!(analyze(&[]).failed().contains("--key_space_dir"));
}

#[test]
fn a_trace_of_rocksdb_is_analyzed() {
    let temp = TempDir::new("trace-rocksdb");
    let at = |name: &str| temp.join(name).display().to_string();
    // RocksDB's tool begins its trace anew with each database that it opens.
    for (benchmark, existing, told) in [
        ("fillrandom", 0, "Operation: 'get' has: 0\nOperation: 'put' has: 500\n"),
        ("readrandom", 1, "Operation: 'get' has: 500\nOperation: 'put' has: 0\n"),
    ] {
        let flags = [
            format!("--benchmarks={benchmark}"),
            format!("--use_existing_db={existing}"),
            "--num=500".to_owned(),
            format!("--db={}", at("db")),
            format!("--trace_file={}", at("queries")),
        ];
        if peer("db_bench", &flags.iter().map(String::as_str).collect::<Vec<_>>()).is_none() {
            return;
        }
        let path = format!("--trace_path={}", at("queries"));
        let printed = esker(&["trace_analyzer", &path, "--analyze_get", "--analyze_put"]).ok();
        assert!(printed.ends_with(told), "{printed}");
    }
    let flags = [
        "--benchmarks=readrandom,readrandom".to_owned(),
        "--use_existing_db=1".to_owned(),
        "--num=500".to_owned(),
        "--cache_size=8000".to_owned(),
        format!("--db={}", at("db")),
        format!("--block_cache_trace_file={}", at("blocks")),
    ];
    peer("db_bench", &flags.iter().map(String::as_str).collect::<Vec<_>>());
    std::fs::write(temp.join("caches"), "lru,0,0,4K,1G\n").unwrap();
    let path = format!("--block_cache_trace_path={}", at("blocks"));
    let config = format!("--block_cache_sim_config_path={}", at("caches"));
    let printed = esker(&["block_cache_trace_analyzer", &path, &config]).ok();
    assert!(printed.contains("Statistics for column family default:"), "{printed}");
    assert!(printed.contains("\nCaller Get: Number of accesses "), "{printed}");
    let curve = esker(&["block_cache_trace_analyzer", &path, &config, "--mrc_only"]).ok();
    let ratios: Vec<f64> =
        curve.lines().skip(2).map(|l| l.split(',').nth(4).unwrap().parse().unwrap()).collect();
    assert!(ratios.len() == 2 && ratios[0] > 50.0 && ratios[1] < 20.0, "{curve}");
}

#[test]
fn miss_ratios_are_written_for_caches_of_several_kinds_and_sizes() {
    let temp = TempDir::new("cache-analyzer");
    let db = Db::open(&Options::default().create_if_missing(true), temp.join("db")).unwrap();
    for n in 0..3000 {
        db.put(format!("key{n:05}"), "v".repeat(100)).unwrap();
    }
    db.flush().unwrap();
    let writer = new_file_trace_writer(&Env::default(), temp.join("blocks")).unwrap();
    db.start_block_cache_trace(&BlockCacheTraceOptions::default(), writer).unwrap();
    for round in 0..3 {
        for n in (0..3000).step_by(10) {
            db.get(format!("key{:05}", (n + round) % 3000)).unwrap();
        }
    }
    db.end_block_cache_trace().unwrap();
    db.close().unwrap();
    let config = temp.join("caches");
    std::fs::write(&config, "lru,1,0,8K,10M\nghost_lru_priority,1,64K,10M\nhyper_clock,0,0,16K,10M\n")
        .unwrap();
    let dir = temp.join("results");
    std::fs::create_dir(&dir).unwrap();
    let flags = [
        format!("--block_cache_trace_path={}", temp.join("blocks").display()),
        format!("--block_cache_sim_config_path={}", config.display()),
        format!("--block_cache_analysis_result_dir={}", dir.display()),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let printed = esker(
        &[
            &["block_cache_trace_analyzer", "--print_block_size_stats", "--print_access_count_stats"],
            &flags[..],
        ]
        .concat(),
    )
    .ok();
    assert!(printed.starts_with("Status: OK\n") && printed.contains("Block size stats"), "{printed}");
    let curve = std::fs::read_to_string(files(&dir, "_mrc").remove(0)).unwrap();
    let lines: Vec<Vec<&str>> = curve.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(
        lines[0],
        ["cache_name", "num_shard_bits", "ghost_capacity", "capacity", "miss_ratio", "total_accesses"]
    );
    let ratio = |line: usize| lines[line][4].parse::<f64>().unwrap();
    assert_eq!(lines.len(), 6);
    assert!(ratio(1) > ratio(2) && ratio(4) > ratio(5) && ratio(3) >= ratio(2), "{curve}");
    assert!(lines[1..].iter().all(|line| line[5] == lines[1][5]), "{curve}");
}

#[test]
fn operations_of_a_trace_of_io_are_printed_in_the_form_of_rocksdbs_tool() {
    let temp = TempDir::new("io-tracer-parser");
    let path = temp.join("io");
    let mut writer = new_file_trace_writer(&Env::default(), &path).unwrap();
    let frame = |timestamp, kind: TraceKind, payload: &[u8]| {
        let mut record = Vec::new();
        TraceFrame { timestamp, kind: kind as u8, payload }.encode(&mut record);
        record
    };
    writer.write(&frame(SECOND, TraceKind::Begin, &binary_header((11, 8)))).unwrap();
    let append = IoOp {
        timestamp: 2 * SECOND,
        file_operation: b"Append",
        latency: 1500,
        io_status: b"OK",
        file_name: b"000004.log",
        len: Some(27),
        offset: Some(0),
        ..IoOp::default()
    };
    let size = IoOp {
        file_operation: b"GetFileSize",
        io_status: b"IO error",
        file_size: Some(7),
        len: None,
        offset: None,
        request_id: Some(b"r1"),
        ..append.clone()
    };
    for op in [append, size] {
        let mut record = Vec::new();
        op.encode(&mut record);
        writer.write(&record).unwrap();
    }
    writer.close().unwrap();
    let flag = format!("--io_trace_file={}", path.display());
    let lines = "Start Time: 1000000\nRocksDB Major Version: 11\nRocksDB Minor Version: 8\n\
        Access Time : 2000000             , File Name: 000004.log          , File Operation: Append            , \
        Latency: 1500      , IO Status: OK, Length: 27, Offset: 0\n\
        Access Time : 2000000             , File Name: 000004.log          , File Operation: GetFileSize       , \
        Latency: 1500      , IO Status: IO error, File Size: 7, Request Id: r1\n";
    assert_eq!(esker(&["io_tracer_parser", &flag]).ok(), lines, "a trace without a footer");
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, [&whole[..], &frame(3 * SECOND, TraceKind::End, b"")].concat()).unwrap();
    assert_eq!(esker(&["io_tracer_parser", &flag]).ok(), lines);
    std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    let cut = esker(&["io_tracer_parser", &flag]);
    assert!(cut.out.ends_with("Length: 27, Offset: 0\n"), "{}", cut.out);
    assert!(cut.failed().contains("ends within a record"));
}

/// Some reports have a line for each second. A forged time would make such a report almost endless.
#[test]
fn a_forged_time_is_damage_before_a_report_is_made() {
    let temp = TempDir::new("trace-time");
    let (path, dir) = (temp.join("queries"), temp.join("reports"));
    std::fs::create_dir(&dir).unwrap();
    let get = |key| Query::Get { family: esker::ColumnFamilyId(0), key };
    let analyze = |more: &[&str]| {
        let flags = [format!("--trace_path={}", path.display()), format!("--output_dir={}", dir.display())];
        esker(&[&["trace_analyzer", &flags[0], &flags[1], "--analyze_get"], more].concat())
    };
    let year = 366 * 24 * 3600;
    for second in [year + 1, (1 << 63) / SECOND] {
        trace(&path, &[(0, get(b"a")), (second, get(b"b")), (2, get(b"c"))]);
        let time = ((second + 1) * SECOND).to_le_bytes();
        let bytes = std::fs::read(&path).unwrap();
        let offset = bytes.windows(time.len()).position(|part| part == time).unwrap();
        // This report has no line for each second. So the test ends even if the check is missing.
        let told = analyze(&["--output_key_distribution"]).failed();
        let place = format!("{}: offset {offset}: ", path.display());
        assert!(told.contains(&place) && told.contains("366 days"), "{told}");
        assert_eq!(files(&dir, ""), Vec::<PathBuf>::new(), "{told}");
    }
    let tried = analyze(&["--output_qps_stats", "--output_key_stats", "--try_process_corrupted_trace"]);
    assert!(tried.err.contains("Warning") && tried.ok().contains("Total_gets: 1 "));
    trace(&path, &[(0, get(b"a")), (year, get(b"b")), (2, get(b"c"))]);
    let printed = analyze(&["--output_key_distribution"]).ok();
    assert!(printed.contains("Total_gets: 3 "), "{printed}");
}

#[test]
fn bad_traces_and_flags_are_named_before_a_file_is_made() {
    let temp = TempDir::new("trace-bad");
    let whole = sample(&temp);
    let bytes = std::fs::read(&whole).unwrap();
    let (cut, empty, other) = (temp.join("cut"), temp.join("empty"), temp.join("other"));
    std::fs::write(&cut, &bytes[..bytes.len() - 30]).unwrap();
    std::fs::write(&empty, b"").unwrap();
    std::fs::write(&other, b"no trace, and long enough to look like one").unwrap();
    for tool in [
        &["trace_analyzer", "--trace_path"],
        &["block_cache_trace_analyzer", "--block_cache_trace_path"],
        &["io_tracer_parser", "--io_trace_file"],
    ] {
        for path in [&empty, &other, &temp.join("none")] {
            let told = esker(&[tool[0], &format!("{}={}", tool[1], path.display())]).failed();
            assert!(told.contains(path.to_str().unwrap()), "{told}");
        }
        // The other tools refuse a trace of queries.
        if tool[0] != "trace_analyzer" {
            let told = esker(&[tool[0], &format!("{}={}", tool[1], whole.display())]).failed();
            assert!(told.contains("queries"), "{told}");
        }
    }
    let flag = |path: &Path| format!("--trace_path={}", path.display());
    let told = esker(&["trace_analyzer", &flag(&cut), "--analyze_get"]).failed();
    assert!(told.contains("cut") && told.contains("ends within a record"), "{told}");
    let tried = esker(&["trace_analyzer", &flag(&cut), "--analyze_get", "--try_process_corrupted_trace"]);
    assert!(tried.err.contains("Warning") && tried.ok().contains("Operation: 'get' has: 3"));
    for (more, named) in [
        (&["--output_key_stats"][..], "--output_dir"),
        (&["--output_key_stats", "--output_dir=/nowhere"], "/nowhere"),
        (&["--sample_ratio=0"], "--sample_ratio"),
        (&["--output_prefix=a/b"], "--output_prefix"),
    ] {
        let told = esker(&[&["trace_analyzer", &flag(&whole)], more].concat()).failed();
        assert!(told.contains(named), "{told}");
    }
    let blocks = format!("--block_cache_trace_path={}", whole.display());
    for (more, named) in [
        (&["--mrc_only"][..], "--block_cache_sim_config_path"),
        (&["--block_cache_analysis_result_dir=/nowhere"], "/nowhere"),
        (&["--block_cache_sim_config_path=/nowhere"], "/nowhere"),
    ] {
        let told = esker(&[&["block_cache_trace_analyzer", &blocks], more].concat()).failed();
        assert!(told.contains(named), "{told}");
    }
}
