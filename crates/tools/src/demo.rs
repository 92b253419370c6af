//! `esker demo`: the demonstration of `esker-demo`, which reads its own flags.

use crate::failure::{CommandOutcome, Failure};
use clap::Args;
use std::ffi::OsString;

#[derive(Args)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub(crate) struct DemoArguments {
    /// The demonstration's flags: --help lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "FLAGS")]
    flags: Vec<OsString>,
}

pub(crate) fn run(options: &DemoArguments) -> CommandOutcome {
    esker_demo::run(&options.flags).map_err(coded)
}

/// Runs the process that the demonstration kills.
pub(crate) fn run_victim(options: &DemoArguments) -> CommandOutcome {
    esker_demo::run_victim(&options.flags).map_err(coded)
}

fn coded(failure: esker_demo::DemoFailure) -> Failure {
    Failure::Coded(failure.code(), failure.to_string())
}
