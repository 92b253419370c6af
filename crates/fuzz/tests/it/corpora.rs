use esker_fuzz::TARGETS;
use esker_testkit::seed::for_each_seed;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// The limit on the bytes of all corpora together. Every checkout contains the corpora, so they
/// stay small.
const MAX_BYTES: usize = 3 << 20;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// Names and contents of a target's corpus, in the order of names.
fn inputs(target: &str) -> Vec<(String, Vec<u8>)> {
    let dir = root().join("corpus").join(target);
    let files = std::fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let mut inputs: Vec<(String, Vec<u8>)> = files
        .map(|file| {
            let path = file.expect("can be listed").path();
            let name = path.file_name().expect("it has one").to_string_lossy().into_owned();
            (name, std::fs::read(&path).expect("can be read"))
        })
        .collect();
    inputs.sort();
    inputs
}

/// Whether the input breaks no law. If it breaks one, standard error has the panic's text.
fn holds(run: fn(&[u8]), bytes: &[u8]) -> bool {
    catch_unwind(AssertUnwindSafe(|| run(bytes))).is_ok()
}

#[test]
fn every_input_of_every_corpus_keeps_its_targets_law() {
    let mut broken = Vec::new();
    let mut total = 0;
    for &(target, run) in TARGETS {
        let inputs = inputs(target);
        assert!(!inputs.is_empty(), "{target} has no corpus");
        for (name, bytes) in &inputs {
            total += bytes.len();
            if !holds(run, bytes) {
                broken.push(format!("{target}/{name}"));
            }
        }
        println!("{target}: {} inputs", inputs.len());
    }
    assert!(broken.is_empty(), "laws are broken by {}", broken.join(", "));
    assert!(total <= MAX_BYTES, "the corpora have {total} bytes");
}

fn change(bytes: &mut Vec<u8>, rng: &mut fastrand::Rng) {
    let at = rng.usize(..=bytes.len());
    match (rng.u8(..4), bytes.get_mut(at)) {
        (0, Some(byte)) => *byte = rng.u8(..),
        (1, Some(byte)) => *byte ^= 1 << rng.u8(..8),
        (2, Some(_)) => bytes.truncate(at),
        _ => bytes.insert(at, rng.u8(..)),
    }
}

/// A simple fuzzer without coverage: `ROUNDS=n` changes n inputs of each corpus.
#[test]
fn inputs_that_are_changed_at_random_keep_their_targets_law() {
    for &(target, run) in TARGETS {
        let inputs = inputs(target);
        for_each_seed(&format!("changed {target}"), 3, |_, mut rng| {
            let mut bytes = rng.choice(&inputs).expect("no corpus is empty").1.clone();
            for _ in 0..rng.u8(1..5) {
                change(&mut bytes, &mut rng);
            }
            assert!(holds(run, &bytes), "{target}: {}", bytes.escape_ascii());
        });
    }
}

/// Targets that compare with RocksDB pass without it. So this test fails if RocksDB is missing and
/// `ESKER_REQUIRE_PEERS` is set.
#[test]
fn rocksdb_is_there_if_peers_are_required() {
    let oracle = if esker_fuzz::oracle::is_there() { Ok(()) } else { Err("it is missing".to_owned()) };
    esker_peer::require("librocksdb 11.8 with esker-fuzz-oracle", oracle);
}

#[test]
fn each_target_has_a_function_and_a_corpus_of_its_name() {
    let names = |dir: &str| -> BTreeSet<String> {
        let files = std::fs::read_dir(root().join(dir)).expect("is there");
        let names = files.map(|file| file.expect("can be listed").path());
        names.map(|path| path.file_stem().expect("it has one").to_string_lossy().into_owned()).collect()
    };
    let functions: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names("fuzz_targets"), functions);
    assert_eq!(names("corpus"), functions);
}
