//! `esker-demo`: see the library beside it.
#![forbid(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let outcome = match arguments.split_first() {
        Some((first, rest)) if *first == *esker_demo::VICTIM => esker_demo::run_victim(rest),
        _ => esker_demo::run(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // If standard error is closed, the exit code still reports the failure.
            writeln!(std::io::stderr(), "{failure}").ok();
            ExitCode::from(failure.code())
        }
    }
}
