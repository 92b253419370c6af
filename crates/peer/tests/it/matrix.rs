//! A slice of the matrix and of the chains; `cargo xtask long compat` runs five hundred mixtures.

use esker_peer::matrix::{Matrix, MatrixCounts};
use esker_peer::{note, require};
use esker_testkit::seed;
use std::path::Path;

fn matrix() -> Option<Matrix> {
    require(
        "ldb 7.8, librocksdb 10.4 and 11.8",
        Matrix::new(Path::new(env!("CARGO_BIN_EXE_esker-peer-process"))),
    )
}

#[test]
fn mixtures_written_by_each_are_opened_by_each() {
    let Some(matrix) = matrix() else { return };
    let mut all = MatrixCounts::default();
    seed::for_each_seed("mixtures", 8, |seed, _| {
        all.add(matrix.mixture(seed).unwrap_or_else(|why| panic!("{why}")));
    });
    note(&format!("{} databases, {} steps, {} of them killed", all.databases, all.steps, all.kills));
}

#[test]
fn a_database_goes_from_hand_to_hand_twenty_times() {
    let Some(matrix) = matrix() else { return };
    seed::for_each_seed("chain", 2, |seed, _| {
        matrix.chain(seed, 20).unwrap_or_else(|why| panic!("{why}"));
    });
}
