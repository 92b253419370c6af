use super::*;

#[test]
fn repeats_and_warm_ups_stand_in_brackets() {
    let named = |name: &str, repeats, warm_ups| NamedBenchmark { name: name.to_owned(), repeats, warm_ups };
    assert_eq!(
        name::parse_list("fillseq,readrandom[-X30],,readseq[-W2-X3],stats[]").unwrap(),
        [named("fillseq", 1, 0), named("readrandom", 30, 0), named("readseq", 3, 2), named("stats", 1, 0)]
    );
    for wrong in ["readrandom]", "readrandom[-Y3]", "readrandom[-X]", "readrandom[-Xmany]", "readrandom[-é]"]
    {
        let Err(BenchStop::Failed(why)) = name::parse_list(wrong) else { panic!("{wrong}") };
        assert_eq!(why, format!("unknown benchmark arguments '{wrong}'"));
    }
}

#[test]
fn every_benchmark_in_the_table_is_found_by_its_name() {
    let flags = Flags { merge_operator: "put".to_owned(), ..Flags::default() };
    for (name, what) in benchmark::SUPPORTED {
        let named = NamedBenchmark { name: name.to_string(), repeats: 1, warm_ups: 0 };
        let Ok(benchmark) = Benchmark::new(&flags, named) else { panic!("{name}") };
        assert_eq!(benchmark.what, *what);
    }
}

#[test]
fn the_default_list_can_be_run() {
    let flags = Flags::default();
    for named in name::parse_list(&flags.benchmarks).unwrap() {
        assert!(Benchmark::new(&flags, named).is_ok());
    }
}
