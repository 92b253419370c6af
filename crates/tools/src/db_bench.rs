//! `esker db_bench`: RocksDB's benchmark tool. The flags are gflags', which clap cannot read: `esker_bench` does.

use crate::failure::{Failure, Outcome};
use clap::Args;
use esker_bench::{Output, Stop};

#[derive(Args)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub(crate) struct DbBenchOptions {
    /// As RocksDB's; --help lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "FLAGS")]
    flags: Vec<String>,
}

pub(crate) fn run(options: &DbBenchOptions) -> Outcome {
    let output = Output::new(std::io::stdout(), std::io::stderr());
    esker_bench::db_bench(&options.flags, &output).map_err(|stop| match stop {
        Stop::Failed(why) => Failure::new(format_args!("db_bench: {why}")),
        Stop::OutputClosed => Failure::OutputClosed,
    })
}
