//! A party's turn with a database, in a process of its own: see `esker_peer::turn`.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, task, told] = &arguments[..] else {
        esker_peer::note("usage: esker-party TASK TOLD");
        return ExitCode::from(2);
    };
    match esker_peer::turn::Turn::run_here(Path::new(task), Path::new(told)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            esker_peer::note(&why);
            ExitCode::FAILURE
        }
    }
}
