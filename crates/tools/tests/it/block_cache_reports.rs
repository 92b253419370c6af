//! Report files of `esker block_cache_trace_analyzer`, against counts by hand.

use crate::run::{esker, files};
use esker::Env;
use esker::internals::format::trace::binary_header;
use esker::trace::{BlockAccess, GetAccess, TraceFrame, TraceKind, new_file_trace_writer};
use esker_testkit::TempDir;
use std::path::Path;

const SECOND: u64 = 1_000_000;

/// Time of the trace's header.
const BEGIN: u64 = 6000 * SECOND;

const LAST: u64 = u64::MAX;

const INDEX: (u8, &[u8], u64) = (TraceKind::IndexBlock as u8, &[3, 0], 100);
const FIRST_DATA: (u8, &[u8], u64) = (TraceKind::DataBlock as u8, &[3, 100], 400);
const SECOND_DATA: (u8, &[u8], u64) = (TraceKind::DataBlock as u8, &[3, 101], 600);
const OTHER_DATA: (u8, &[u8], u64) = (TraceKind::DataBlock as u8, &[4, 50], 200);

fn access(second: u64, block: (u8, &'static [u8], u64), caller: u8) -> BlockAccess<'static> {
    let is_other = block == OTHER_DATA;
    BlockAccess {
        timestamp: BEGIN + second * SECOND,
        block_type: block.0,
        block_key: block.1,
        block_size: block.2,
        cf_id: u64::from(is_other),
        cf_name: if is_other { b"other" } else { b"default" },
        level: if is_other { 2 } else { 1 },
        sst_fd_number: if is_other { 9 } else { 7 },
        caller,
        is_cache_hit: false,
        no_insert: false,
        get: None,
    }
}

/// A get of `key` in a block with `keys` keys, which has `found` bytes for it.
fn get(
    second: u64,
    block: (u8, &'static [u8], u64),
    (get_id, key): (u64, &'static [u8; 9]),
    (keys, found): (u64, u64),
) -> BlockAccess<'static> {
    let get = GetAccess {
        get_id,
        from_user_specified_snapshot: false,
        referenced_key: key,
        referenced_data_size: found,
        num_keys_in_block: keys,
        referenced_key_exists: found > 0,
    };
    BlockAccess { get: Some(get), ..access(second, block, 1) }
}

/// Three gets, two steps of a scan, and a compaction. Every first access to a block is a miss.
fn sample() -> Vec<BlockAccess<'static>> {
    let (a, b) = (b"a\0\0\0\0\0\0\0\0", b"b\0\0\0\0\0\0\0\0");
    let mut accesses = vec![
        get(0, INDEX, (1, a), (0, 0)),
        get(0, FIRST_DATA, (1, a), (4, 50)),
        get(10, INDEX, (2, b), (0, 0)),
        get(10, SECOND_DATA, (2, b), (5, 0)),
        access(70, FIRST_DATA, 3),
        access(70, FIRST_DATA, 3),
        access(130, OTHER_DATA, 10),
        get(130, INDEX, (3, a), (0, 0)),
        get(130, FIRST_DATA, (3, a), (4, 50)),
    ];
    for hit in [2, 4, 5, 7, 8] {
        accesses[hit].is_cache_hit = true;
    }
    accesses
}

fn write(path: &Path, accesses: &[BlockAccess<'_>]) {
    let mut writer = new_file_trace_writer(&Env::default(), path).unwrap();
    let mut record = Vec::new();
    let payload = binary_header((11, 8));
    TraceFrame { timestamp: BEGIN, kind: TraceKind::Begin as u8, payload: &payload }.encode(&mut record);
    writer.write(&record).unwrap();
    for access in accesses {
        record.clear();
        access.encode(&mut record);
        writer.write(&record).unwrap();
    }
    writer.close().unwrap();
}

const REPORTS: [&str; 16] = [
    "--timeline_labels=cf,block",
    "--reuse_distance_labels=bt",
    "--reuse_distance_buckets=500,1K",
    "--reuse_interval_labels=all,caller",
    "--reuse_interval_buckets=1,60",
    "--reuse_lifetime_labels=all",
    "--reuse_lifetime_buckets=100,200",
    "--analyze_callers=Get",
    "--access_count_buckets=2",
    "--analyze_blocks_reuse_k_reuse_window=60",
    "--analyze_get_spatial_locality_labels=all",
    "--analyze_get_spatial_locality_buckets=50",
    "--analyze_correlation_coefficients_labels=bt",
    "--skew_labels=block,cf_bt",
    "--skew_buckets=50",
    "--print_data_block_access_count_stats",
];

/// The reports of the sample.
fn expected() -> Vec<(&'static str, String)> {
    let correlation = "num_accesses_since_last_access,elapsed_time_since_last_access,num_past_accesses,\
                       num_accesses_till_next_access,elapsed_time_till_next_access\n";
    vec![
        ("all_access_cf_60_access_timeline", "time,100,101,102\ndefault,4,2,2\nother,0,0,1\n".to_owned()),
        ("all_access_cf_3600_access_timeline", "time,1\ndefault,8\nother,1\n".to_owned()),
        (
            "all_access_block_60_access_timeline",
            "time,100,101,102\n2,1,2,1\n1,2,0,1\n3,1,0,0\n4,0,0,1\n".to_owned(),
        ),
        ("user_access_only_block_3600_access_timeline", "time,1\n2,4\n1,3\n3,1\n".to_owned()),
        (
            "bt_reuse_distance",
            format!(
                "bucket,Data,Index\n500,20.000000,0.000000\n1024,20.000000,20.000000\n\
                 {LAST},20.000000,20.000000\n"
            ),
        ),
        ("all_access_reuse_interval", format!("bucket,all\n1,20.000000\n60,20.000000\n{LAST},60.000000\n")),
        ("all_avg_reuse_interval", format!("bucket,all\n1,0.000000\n60,50.000000\n{LAST},50.000000\n")),
        (
            "all_avg_reuse_interval_naccesses",
            format!("bucket,all\n1,0.000000\n60,77.777778\n{LAST},22.222222\n"),
        ),
        ("caller_avg_reuse_interval", format!("bucket\n1\n60\n{LAST}\n")),
        ("all_reuse_lifetime", format!("bucket,all\n100,0.000000\n200,50.000000\n{LAST},50.000000\n")),
        (
            "percentage_of_accesses_summary",
            "caller,default,other\nGet,66.666667,0\nIterator,22.222222,0\nCompaction,0,11.111111\n"
                .to_owned(),
        ),
        ("Get_level_percentage_of_accesses_summary", "level,default,other\n1,100.000000,0\n".to_owned()),
        (
            "Get_bt_percentage_of_accesses_summary",
            "bt,default,other\nIndex,50.000000,0\nData,50.000000,0\n".to_owned(),
        ),
        (
            "bt_all_access_access_count_summary",
            format!("bucket,Data,Index\n2,50.000000,0.000000\n{LAST},25.000000,25.000000\n"),
        ),
        (
            "cf_user_access_only_access_count_summary",
            format!("bucket,default,other\n2,33.333333,0.000000\n{LAST},66.666667,0.000000\n"),
        ),
        (
            "Data_all_access_60_reuse_blocks_timeline",
            "start_time,0,1\n0,100.000000,50.000000\n60,100.0,100.000000\n".to_owned(),
        ),
        (
            "Filter_user_access_only_60_reuse_blocks_timeline",
            "start_time,0,1\n0,-1.000000,-1.000000\n60,100.0,-1.000000\n".to_owned(),
        ),
        ("all_percent_ref_keys", format!("bucket,all\n50,100.000000\n{LAST},0.000000\n")),
        ("all_percent_accesses_on_ref_keys", format!("bucket,all\n50,50.000000\n{LAST},50.000000\n")),
        ("all_percent_data_size_on_ref_keys", format!("bucket,all\n50,100.000000\n{LAST},0.000000\n")),
        (
            "bt_Data_correlation_input",
            format!("{correlation}0,0,0,3,70000000\n3,70000000,1,1,0\n1,0,2,3,60000000\n"),
        ),
        ("bt_Index_correlation_input", format!("{correlation}0,0,0,2,10000000\n2,10000000,1,5,120000000\n")),
        (
            "GetKeyInfo_GetKeyInfo_correlation_input",
            format!("{correlation}0,0,0,1,0\n1,0,1,6,130000000\n6,130000000,2,1,0\n0,0,0,1,0\n"),
        ),
        ("block_skewness", format!("bucket,block\n50,77.777778\n{LAST},22.222222\n")),
        ("block_Data_skewness", format!("bucket,block\n50,66.666667\n{LAST},33.333333\n")),
        ("block_Filter_skewness", format!("bucket,block\n50,-1.000000\n{LAST},-1.000000\n")),
        ("cf_bt_skewness", format!("bucket,cf_bt\n50,55.555556\n{LAST},44.444444\n")),
    ]
}

#[test]
fn reports_have_the_counts_made_by_hand_also_of_a_human_readable_trace() {
    let temp = TempDir::new("cache-reports");
    let (path, readable) = (temp.join("blocks"), temp.join("readable"));
    write(&path, &sample());
    let mut printed = Vec::new();
    let human = format!("--human_readable_trace_file_path={}", readable.display());
    for (from, more) in [(&path, &human[..]), (&readable, "--is_block_cache_human_readable_trace")] {
        let dir = temp.join(format!("reports-{}", printed.len()));
        std::fs::create_dir(&dir).unwrap();
        let flags = [
            format!("--block_cache_trace_path={}", from.display()),
            format!("--block_cache_analysis_result_dir={}", dir.display()),
        ];
        let flags = [&["block_cache_trace_analyzer", more, &flags[0], &flags[1]], &REPORTS[..]].concat();
        printed.push(esker(&flags).ok());
        for (name, text) in expected() {
            let report = std::fs::read_to_string(dir.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(report, text, "{name}");
        }
        // Two further hours and minutes, two of callers' intervals, two counts, four of reused
        // blocks, and one skew. Without a simulated cache there are no miss ratios.
        assert_eq!(files(&dir, "").len(), expected().len() + 11, "{:?}", files(&dir, ""));
    }
    assert_eq!(printed[0], printed[1]);
    let lines = std::fs::read_to_string(&readable).unwrap();
    let lines: Vec<&str> = lines.lines().collect();
    assert_eq!(lines[0], "6000000000,1,7,100,0,default,1,7,1,0,1,1,0,0,0,0,98,0,2,9,0");
    assert_eq!(lines[8], "6130000000,2,9,400,0,default,1,7,1,0,3,1,50,1,1,4,98,0,2,9,100");
    assert_eq!(lines.len(), 9);
}

#[test]
fn distributions_and_the_ends_of_access_counts_are_printed() {
    let temp = TempDir::new("cache-details");
    let path = temp.join("blocks");
    write(&path, &sample());
    let printed = esker(&[
        "block_cache_trace_analyzer",
        &format!("--block_cache_trace_path={}", path.display()),
        "--print_access_count_stats",
        "--analyze_bottom_k_access_count_blocks=1",
        "--analyze_top_k_access_count_blocks=1",
        "--print_block_size_stats",
        "--print_data_block_access_count_stats",
    ])
    .ok();
    for line in [
        "Trace duration 130 seconds. Observed miss ratio 44.44",
        "Caller Get: Observed miss ratio 50.00",
        "Block access count stats: The number of accesses per block. User accesses only",
        "Bottom 1 access count. Access count=1 nblocks=2 Caller:Get:50.000000,Compaction:50.000000,",
        "Top 1 access count blocks access_count=4 Caller:,Get:50.000000,Iterator:50.000000,nkeys=4,\
         block_size=400,num_ref_keys=1,percent_access_ref_keys=50.000000,num_ref_keys_does_not_exist=0,\
         percent_access_ref_keys_does_not_exist=0.000000,ref_data_size=50",
        "Block size stats for column family other and block type Data: ",
        "Histogram on the average number of accesses per key in a block: ",
    ] {
        assert!(printed.lines().any(|l| l == line), "{line}\n{printed}");
    }
    let sizes = printed.split("Block size stats: \n").nth(1).unwrap();
    assert!(sizes.starts_with("Count: 4 Average: 325.0000"), "{sizes}");
    let keys = printed.split("total number of keys in a block: \n").nth(1).unwrap();
    assert!(keys.starts_with("Count: 2 Average: 1250.0000"), "{keys}");
}

#[test]
fn forged_sizes_of_values_do_not_end_a_report() {
    let temp = TempDir::new("cache-forged");
    let path = temp.join("blocks");
    let (a, b) = (b"a\0\0\0\0\0\0\0\0", b"b\0\0\0\0\0\0\0\0");
    write(&path, &[get(0, FIRST_DATA, (1, a), (2, LAST)), get(0, FIRST_DATA, (2, b), (2, LAST))]);
    let printed = esker(&[
        "block_cache_trace_analyzer",
        &format!("--block_cache_trace_path={}", path.display()),
        "--print_access_count_stats",
        "--analyze_top_k_access_count_blocks=1",
    ])
    .ok();
    assert!(printed.contains(&format!("ref_data_size={LAST}")), "{printed}");
}

#[test]
fn wrong_groups_and_buckets_are_named_before_a_report_is_made() {
    let temp = TempDir::new("cache-reports-bad");
    let (path, dir) = (temp.join("blocks"), temp.join("reports"));
    std::fs::create_dir(&dir).unwrap();
    write(&path, &sample());
    let from = format!("--block_cache_trace_path={}", path.display());
    let to = format!("--block_cache_analysis_result_dir={}", dir.display());
    let analyze = |more: &[&str]| esker(&[&["block_cache_trace_analyzer", &from, &to], more].concat());
    for (more, named) in [
        (&["--timeline_labels=cf_table"][..], "'table'"),
        (&["--skew_labels=all"], "--skew_buckets"),
        (&["--reuse_distance_buckets=1K"], "--reuse_distance_labels"),
        (&["--skew_labels=all", "--skew_buckets=50,101"], "101"),
        (&["--access_count_buckets=5,5"], "ascend"),
        (&["--access_count_buckets=x"], "'x'"),
        (&["--analyze_callers=Nobody"], "'Nobody'"),
        (&["--mrc_only", "--analyze_callers=Get"], "--mrc_only"),
        (&["--analyze_top_k_access_count_blocks=3"], "--print_access_count_stats"),
    ] {
        let run = analyze(more);
        assert!(run.code != Some(0) && run.err.contains(named), "{more:?}: {run:?}");
        assert!(files(&dir, "").is_empty(), "{more:?}");
    }
    let told = esker(&["block_cache_trace_analyzer", &from, "--analyze_callers=Get"]).failed();
    assert!(told.contains("--block_cache_analysis_result_dir"), "{told}");
    // A report of timelines has a column for each second: a forged time is damage.
    let mut accesses = sample();
    accesses[8].timestamp = BEGIN + 367 * 24 * 3600 * SECOND;
    write(&path, &accesses);
    let told = analyze(&["--timeline_labels=cf"]).failed();
    assert!(told.contains("366 days") && told.contains("blocks"), "{told}");
    accesses[8].timestamp = BEGIN + 5000 * SECOND;
    write(&path, &accesses);
    let told = analyze(&["--analyze_blocks_reuse_k_reuse_window=1"]).failed();
    assert!(told.contains("--analyze_blocks_reuse_k_reuse_window=1") && told.contains("4096"), "{told}");
    assert!(files(&dir, "").is_empty());
    std::fs::write(&path, "1,2,3\n").unwrap();
    let told = analyze(&["--is_block_cache_human_readable_trace"]).failed();
    assert!(told.contains("line 1") && told.contains("21"), "{told}");
}
