//! Jobs and results: read back as written, read as RocksDB writes them, refused where they are cut.

use super::*;

fn input() -> CompactionServiceInput {
    CompactionServiceInput {
        cf_name: "default".into(),
        snapshots: vec![SequenceNumber(3), SequenceNumber(9)],
        input_files: vec!["000012.sst".into(), "000009.sst".into()],
        output_level: 6,
        db_id: "id;of={db}".into(),
        begin: None,
        end: Some(b"k:1".to_vec()),
        options_file_number: FileNumber(7),
    }
}

fn result(files: usize) -> CompactionServiceResult {
    let file = |n: usize| CompactionServiceOutputFile {
        file_name: format!("{n:06}.sst"),
        file_size: 1000 + n as u64,
        smallest_internal_key: b"a\x00\xFF".to_vec(),
        largest_internal_key: b"b".to_vec(),
        unique_id: [1, u64::MAX],
        file_temperature: 12,
        table_properties: [("num_entries", "7"), ("user_collected_properties", "{6161=62;}")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        marked_for_compaction: n.is_multiple_of(2),
        ..CompactionServiceOutputFile::default()
    };
    CompactionServiceResult {
        status: Ok(()),
        output_files: (0..files).map(file).collect(),
        output_level: 2,
        output_path: "/out".into(),
        stats: RemoteJobCounts { num_input_records: 5, ..RemoteJobCounts::default() },
        has_accurate_num_input_records: true,
        level_stats: RemoteLevelCounts { count: 1, ..RemoteLevelCounts::default() },
        ..CompactionServiceResult::default()
    }
}

#[test]
fn written_jobs_and_results_are_read_back() {
    let mut job = input();
    assert_eq!(CompactionServiceInput::parse(&job.to_bytes()).unwrap(), job);
    (job.snapshots, job.begin, job.end) = (Vec::new(), Some(Vec::new()), None);
    job.input_files.truncate(1);
    assert_eq!(CompactionServiceInput::parse(&job.to_bytes()).unwrap(), job);
    for files in 0..4 {
        let result = result(files);
        let read = CompactionServiceResult::parse(&result.to_bytes()).unwrap();
        assert_eq!(read.output_files, result.output_files);
        assert_eq!((read.output_level, read.output_path), (result.output_level, result.output_path));
        assert_eq!((read.stats, read.level_stats), (result.stats, result.level_stats));
        assert!(read.status.is_ok() && read.has_accurate_num_input_records && !read.is_full_compaction);
    }
    let error = Error::io("disk {full}").with_subcode(SubCode::NoSpace);
    let failed = CompactionServiceResult { status: Err(error.clone()), ..result(0) };
    let read = CompactionServiceResult::parse(&failed.to_bytes()).unwrap();
    let status = read.status.unwrap_err();
    assert_eq!((status.kind(), status.subcode()), (error.kind(), error.subcode()));
    assert_eq!(status.message(), error.message());
}

/// In other orders, with spaces, with fields of other releases.
#[test]
fn text_is_read_as_rocksdb_reads_it() {
    let text = b"\x01\0\0\0has_end=true; end=6B ;new_field={a=1;b={c=2;}};has_begin=0;begin=;db_id=;\
        options_file_number={5};output_level=1;snapshots=;input_files=3030303030312E737374;cf_name=64;";
    let job = CompactionServiceInput::parse(text).unwrap();
    assert_eq!((job.cf_name.as_str(), job.output_level), ("d", 1));
    assert_eq!((job.begin, job.end), (None, Some(b"k".to_vec())));
    assert_eq!((job.input_files, job.options_file_number), (vec!["000001.sst".to_owned()], FileNumber(5)));
}

#[test]
fn another_version_is_refused_by_its_number() {
    for parse in [
        |bytes: &[u8]| CompactionServiceInput::parse(bytes).map(drop),
        |bytes: &[u8]| CompactionServiceResult::parse(bytes).map(drop),
    ] {
        let error = parse(b"\x02\0\0\0cf_name=64;").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotSupported);
        assert!(error.message().ends_with("data version not supported: 2"), "{error}");
        assert_eq!(parse(b"\x01\0\0\0").unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}

#[test]
fn snapshots_out_of_order_are_refused() {
    let mut job = input();
    job.snapshots.reverse();
    let error = CompactionServiceInput::parse(&job.to_bytes()).unwrap_err();
    assert!(error.message().contains("'snapshots'"), "{error}");
}

#[test]
fn bytes_that_are_cut_short_are_refused() {
    let (job, result) = (input().to_bytes(), result(2).to_bytes());
    for len in 0..job.len() {
        assert!(CompactionServiceInput::parse(&job[..len]).is_err(), "{len}");
    }
    for len in 0..result.len() {
        assert!(CompactionServiceResult::parse(&result[..len]).is_err(), "{len}");
    }
}

#[test]
fn no_bytes_make_a_parser_panic() {
    let mut state = 1_u64;
    let mut below = |limit: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % limit
    };
    for _ in 0..2000 {
        let mut bytes = if below(2) == 0 { input().to_bytes() } else { result(below(3)).to_bytes() };
        for _ in 0..below(8) {
            let (at, with) = (below(bytes.len()), b"{};:=0F\xFF"[below(8)]);
            match below(3) {
                0 => bytes[at] = with,
                1 => bytes.truncate(at.max(1)),
                _ => bytes.insert(at, with),
            }
        }
        drop(CompactionServiceInput::parse(&bytes));
        drop(CompactionServiceResult::parse(&bytes));
    }
    // Braces without end cost no stack and no time.
    let deep = [b"\x01\0\0\0status=".as_slice(), &vec![b'{'; 1 << 16], &vec![b'}'; 1 << 16]].concat();
    assert!(CompactionServiceResult::parse(&deep).is_err());
}
