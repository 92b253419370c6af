//! `esker`: see the library beside it.
#![forbid(unsafe_code)]

use esker_tools::{CommandLine, Host};
use std::process::ExitCode;

fn main() -> ExitCode {
    match CommandLine::parse(std::env::args_os()) {
        Ok(line) => ExitCode::from(line.run(&Host::machine())),
        // Prints the error, or the requested help.
        Err(refused) => refused.exit(),
    }
}
