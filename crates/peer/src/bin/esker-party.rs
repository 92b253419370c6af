//! Takes turns with databases, in a process of its own: see `esker_peer::party`.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, work] = &arguments[..] else {
        esker_peer::note("usage: esker-party DIRECTORY");
        return ExitCode::from(2);
    };
    match esker_peer::party::serve(Path::new(work)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            esker_peer::note(&why);
            ExitCode::FAILURE
        }
    }
}
