//! `esker db_bench` and `esker cache_bench`: RocksDB's benchmark tools. `esker_bench` reads their
//! flags: they are gflags', which clap cannot read.

use crate::failure::{Failure, Outcome};
use crate::host::Host;
use clap::Args;
use esker_bench::{Output, Stop};

#[derive(Args)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub(crate) struct BenchOptions {
    /// RocksDB's flags; --help lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "FLAGS")]
    flags: Vec<String>,
}

type Tool = fn(&[String], &Output) -> Result<(), Stop>;

pub(crate) fn run(options: &BenchOptions, host: &Host) -> Outcome {
    run_tool("db_bench", esker_bench::db_bench, options, host)
}

pub(crate) fn run_cache_bench(options: &BenchOptions, host: &Host) -> Outcome {
    run_tool("cache_bench", esker_bench::cache_bench, options, host)
}

fn run_tool(name: &str, tool: Tool, options: &BenchOptions, host: &Host) -> Outcome {
    let output = Output::new(host.output(), host.errors());
    tool(&options.flags, &output).map_err(|stop| match stop {
        Stop::Failed(why) => Failure::new(format_args!("{name}: {why}")),
        Stop::OutputClosed => Failure::OutputClosed,
    })
}
