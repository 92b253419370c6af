use super::*;

fn parsed(line: &str) -> Result<CacheBenchCommandLine, String> {
    parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
}

#[test]
fn flags_come_in_the_forms_of_gflags() {
    let line = "-threads=2 --cache_size 1000 -lean -nohistograms --skew=1 -cache-type=lru_cache";
    let Ok(CacheBenchCommandLine::Run(flags)) = parsed(line) else { panic!("{line}") };
    assert_eq!((flags.threads, flags.cache_size, flags.skew), (2, 1000, 1));
    assert_eq!((flags.lean, flags.histograms, flags.cache_type.as_str()), (true, false, "lru_cache"));
    let Ok(CacheBenchCommandLine::Help(help)) = parsed("--help") else { panic!("help") };
    assert!(
        help.contains("-ops_per_thread (Number of operations per thread.) type: uint64 default: 2000000")
    );
}

#[test]
fn wrong_flags_are_named() {
    for (line, why) in [
        ("--thread=2", "--thread: there is no such flag"),
        ("--threads=x", "--threads: "),
        ("--threads", "its value is missing"),
        ("--threads=0", "--threads: must be more than 0"),
        ("--erase_percent=50", "Percentages must add to 100."),
        ("word", "belongs to no flag"),
    ] {
        let error = parsed(line).unwrap_err();
        assert!(error.contains(why), "{line}: {error}");
    }
}
