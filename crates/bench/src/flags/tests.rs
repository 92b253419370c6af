use super::*;

fn flags(arguments: &[&str]) -> Flags {
    match parse(&owned(arguments)).unwrap() {
        BenchCommandLine::Run(flags) => *flags,
        other => panic!("{other:?}"),
    }
}

fn refused(arguments: &[&str]) -> String {
    parse(&owned(arguments)).unwrap_err()
}

fn owned(arguments: &[&str]) -> Vec<String> {
    arguments.iter().map(|a| a.to_string()).collect()
}

#[test]
fn every_form_of_gflags_is_read() {
    for arguments in [
        ["-num=5", "-sync"].as_slice(),
        &["--num=5", "--sync"],
        &["-num", "5", "-sync=true"],
        &["--num", "5", "--sync=yes"],
        &["--num=0x5", "--sync=1"],
        &["--num=7", "--num=5", "-nosync", "-sync=T"],
    ] {
        let flags = flags(arguments);
        assert_eq!((flags.num, flags.sync), (5, true), "{arguments:?}");
    }
}

#[test]
fn truths_are_denied_in_both_ways() {
    assert!(flags(&[]).verify_checksum);
    for argument in
        ["-noverify_checksum", "--noverify_checksum", "-verify_checksum=false", "--verify-checksum=0"]
    {
        assert!(!flags(&[argument]).verify_checksum, "{argument}");
    }
}

#[test]
fn the_four_published_commands_are_read() {
    let hot = flags(&[
        "-benchmarks=multireadrandom",
        "-readonly",
        "-num=5",
        "-duration=10",
        "-threads=20",
        "-multiread_batched",
        "-batch_size=200",
    ]);
    assert_eq!((hot.num, hot.duration, hot.threads, hot.batch_size), (5, 10, 20, 200));
    assert!(hot.readonly && hot.multiread_batched);
    let tombstones = flags(&[
        "--benchmarks=fillrandom,readrandom",
        "--writes_per_range_tombstone=1",
        "--max_write_buffer_number=100",
        "--min_write_buffer_number_to_merge=100",
        "--writes=500000",
        "--reads=100000",
        "--max_num_range_tombstones=100",
    ]);
    assert_eq!((tombstones.writes_per_range_tombstone, tombstones.max_num_range_tombstones), (1, 100));
    let large = flags(&["-cache_size=6789000000", "-duration", "20", "-threads=16", "-bloom_bits=16"]);
    assert_eq!((large.cache_size, large.duration, large.bloom_bits), (6_789_000_000, 20, 16));
    let scans = flags(&[
        "-use_existing_db=true",
        "-preserve_internal_time_seconds=1",
        "-explicit_snapshot=1",
        "-auto_refresh_iterator_with_snapshot=1",
    ]);
    assert!(scans.use_existing_db && scans.explicit_snapshot && scans.auto_refresh_iterator_with_snapshot);
}

#[test]
fn an_unknown_flag_names_the_nearest() {
    for (wrong, nearest) in [
        ("--bloombits=10", "bloom_bits"),
        ("--use_existing_database", "use_existing_db"),
        ("--num_multi_dbs", "num_multi_db"),
    ] {
        let why = refused(&[wrong]);
        assert!(why.contains(&format!("there is no such flag; did you mean --{nearest}?")), "{why}");
    }
}

#[test]
fn flags_that_are_not_supported_are_never_ignored() {
    assert_eq!(flags(&["--use_plain_table=false", "--num_multi_db=0", "-nouse_blob_db"]), Flags::default());
    assert_eq!(flags(&["--memtablerep=skip_list", "--blob_file_size=0x10000000"]), Flags::default());
    for argument in ["--use_plain_table", "--num_multi_db=2", "--memtablerep=vector"] {
        let why = refused(&[argument]);
        assert!(why.contains("not supported yet"), "{why}");
    }
}

#[test]
fn values_that_make_no_sense_are_refused() {
    for (arguments, why) in [
        (["-num=many"].as_slice(), "--num: 'many' is not a whole number"),
        (&["-threads=4294967296"], "--threads: 4294967296 is not in -2147483648..=2147483647"),
        (&["-sync=perhaps"], "--sync: 'perhaps' is neither true nor false"),
        (&["-compression_ratio=inf"], "--compression_ratio: 'inf' is not a number"),
        (&["-num"], "--num: its value is missing"),
        (&["-nosync=1"], "--nosync: takes no value"),
        (&["--num_multi_db=x"], "--num_multi_db: 'x' is not a whole number"),
    ] {
        assert_eq!(refused(arguments), why);
    }
    assert!(refused(&["fillseq"]).starts_with("'fillseq' belongs to no flag"));
    assert!(refused(&["-sync", "true"]).starts_with("'true' belongs to no flag"));
    assert!(refused(&["--"]).starts_with("'--' belongs to no flag"));
}

#[test]
fn each_flag_stands_once() {
    let mut names: Vec<_> = TABLE.iter().map(|f| f.name).chain(KNOWN.iter().map(|(n, ..)| *n)).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
    assert!(KNOWN.is_sorted_by_key(|(name, ..)| *name));
}

#[test]
fn defaults_are_values_of_their_kind() {
    let defaults = Flags::default();
    for flag in TABLE {
        let mut changed = defaults.clone();
        (flag.set)(&mut changed, &(flag.text)(&defaults)).unwrap();
        assert_eq!(changed, defaults, "{}", flag.name);
    }
    for (name, kind, default) in KNOWN {
        assert_eq!(kind.same(default, default), Ok(true), "{name}");
    }
}

#[test]
fn help_lists_every_flag() {
    let Ok(BenchCommandLine::Help(text)) = parse(&owned(&["--help"])) else { panic!("help") };
    assert!(text.contains("    -num (Keys in the database."), "{text}");
    assert_eq!(text.matches(" type: ").count(), TABLE.len() + KNOWN.len());
}
