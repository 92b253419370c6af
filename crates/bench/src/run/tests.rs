use super::*;

#[test]
fn repeats_and_warm_ups_stand_in_brackets() {
    let named = |name: &str, repeats, warm_ups| Named { name: name.to_owned(), repeats, warm_ups };
    assert_eq!(
        name::parse_list("fillseq,readrandom[-X30],,readseq[-W2-X3],stats[]").unwrap(),
        [named("fillseq", 1, 0), named("readrandom", 30, 0), named("readseq", 3, 2), named("stats", 1, 0)]
    );
    for wrong in ["readrandom]", "readrandom[-Y3]", "readrandom[-X]", "readrandom[-Xmany]", "readrandom[-é]"]
    {
        let Err(Stop::Failed(why)) = name::parse_list(wrong) else { panic!("{wrong}") };
        assert_eq!(why, format!("unknown benchmark arguments '{wrong}'"));
    }
}

#[test]
fn every_benchmark_that_is_suggested_can_be_run() {
    let flags = Flags::default();
    for name in name::SUPPORTED {
        let named = Named { name: name.to_string(), repeats: 1, warm_ups: 0 };
        assert!(Benchmark::new(&flags, named).is_ok(), "{name}");
    }
}
