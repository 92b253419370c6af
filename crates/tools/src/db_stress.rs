//! `esker db_stress` and `esker db_crashtest`: RocksDB's stress test and its driver, both from
//! `esker_stress`.

use crate::failure::{CommandOutcome, Failure};
use crate::host::Host;
pub(crate) use esker_stress::db_stress::StressFlags;
use esker_stress::db_stress::crash_test;
pub(crate) use esker_stress::db_stress::crash_test::CrashFlags;
use std::io::Write;

pub(crate) fn run(flags: &StressFlags, host: &Host) -> CommandOutcome {
    let report = esker_stress::db_stress::run(flags).map_err(Failure::new)?;
    Ok(writeln!(host.output(), "{report}")?)
}

/// The command line of this program's own `db_stress`.
pub(crate) fn run_crash_test(flags: &CrashFlags, host: &Host) -> CommandOutcome {
    let program = std::env::current_exe()?;
    let report = crash_test::run(flags, &program, &["db_stress"]).map_err(Failure::new)?;
    Ok(writeln!(host.output(), "{report}")?)
}
