//! Takes steps with databases, in a process of its own: see `esker_peer::peer_process`.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, work] = &arguments[..] else {
        esker_peer::note("usage: esker-peer-process DIRECTORY");
        return ExitCode::from(2);
    };
    match esker_peer::peer_process::serve(Path::new(work)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            esker_peer::note(&why);
            ExitCode::FAILURE
        }
    }
}
