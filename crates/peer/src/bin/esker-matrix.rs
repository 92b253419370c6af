//! The matrix and the chain, for any number of seeds: `esker-matrix mixtures|chains FIRST_SEED
//! COUNT`. The program `esker-peer-process` lies beside it.

use esker_peer::matrix::{Matrix, MatrixCounts};
use esker_peer::note;
use std::process::ExitCode;

/// Hand-overs of one chain.
const STEPS: usize = 20;

/// Seeds between two lines of progress.
const TOLD_EVERY: u64 = 10;

fn main() -> ExitCode {
    match run() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(failures) => {
            note(&format!("{failures} failed"));
            ExitCode::FAILURE
        }
        Err(why) => {
            note(&why);
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<usize, String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, first, count] = &arguments[..] else {
        return Err("usage: esker-matrix mixtures|chains FIRST_SEED COUNT".to_owned());
    };
    let number = |text: &String| text.parse::<u64>().map_err(|e| format!("'{text}': {e}"));
    let (first, count) = (number(first)?, number(count)?);
    let program = std::env::current_exe().map_err(|e| e.to_string())?.with_file_name("esker-peer-process");
    let matrix = Matrix::new(&program)?;
    let (mut all, mut failures) = (MatrixCounts::default(), 0);
    for seed in first..first + count {
        let done = match what.as_str() {
            "mixtures" => matrix.mixture(seed),
            "chains" => matrix.chain(seed, STEPS),
            other => return Err(format!("'{other}': mixtures or chains")),
        };
        match done {
            Ok(done) => all.add(done),
            Err(why) => {
                failures += 1;
                note(&format!("FAILED: {why}\n"));
            }
        }
        let so_far = seed - first + 1;
        if so_far.is_multiple_of(TOLD_EVERY) || so_far == count {
            note(&format!(
                "{so_far} {what} from seed {first}: {} databases, {} steps, {} of them killed, {failures} failed",
                all.databases, all.steps, all.kills
            ));
        }
    }
    Ok(failures)
}
