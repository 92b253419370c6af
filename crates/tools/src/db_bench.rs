//! `esker db_bench` and `esker cache_bench`: RocksDB's benchmark tools. `esker_bench` reads their
//! flags: they are gflags', which clap cannot read.

use crate::failure::{CommandOutcome, Failure};
use crate::host::Host;
use clap::Args;
use esker_bench::{BenchOutput, BenchStop};

#[derive(Args)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub(crate) struct BenchOptions {
    /// RocksDB's flags; --help lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "FLAGS")]
    flags: Vec<String>,
}

type Tool = fn(&[String], &BenchOutput) -> Result<(), BenchStop>;

pub(crate) fn run(options: &BenchOptions, host: &Host) -> CommandOutcome {
    run_tool("db_bench", esker_bench::db_bench, options, host)
}

pub(crate) fn run_cache_bench(options: &BenchOptions, host: &Host) -> CommandOutcome {
    run_tool("cache_bench", esker_bench::cache_bench, options, host)
}

fn run_tool(name: &str, tool: Tool, options: &BenchOptions, host: &Host) -> CommandOutcome {
    let output = BenchOutput::new(host.output(), host.errors());
    tool(&options.flags, &output).map_err(|stop| match stop {
        BenchStop::Failed(why) => Failure::new(format_args!("{name}: {why}")),
        BenchStop::OutputClosed => Failure::OutputClosed,
    })
}
