//! `ldb remote_compaction_primary` and `remote_compaction_worker`: a compaction that another
//! process does, over two files of a directory that both see.
//!
//! In: `JOB_DIR/input.bin`, which the primary writes once. Out: `JOB_DIR/result.bin`, which the
//! worker writes, and tables in `JOB_DIR/output`. Both files appear whole or not at all, and have
//! the bytes of RocksDB 11.8: either side may be RocksDB's tool. Unlike RocksDB's, both commands
//! refuse a directory with files of an earlier job.

use super::session::{Opened, Session, db_path};
use super::{Common, Out};
use crate::failure::{CommandOutcome, Failure};
use crate::host::{Host, read_file};
use clap::Args;
use esker::internals::base::sync::Arc;
use esker::internals::base::sync::atomic::{AtomicBool, Ordering};
use esker::internals::env::replace_file;
use esker::options::{
    CompactionService, CompactionServiceJobInfo, CompactionServiceJobStatus,
    CompactionServiceOptionsOverride, CompactionServiceScheduleResponse, OpenAndCompactOptions,
};
use esker::{CompactRangeOptions, Db, DbOptions, Env};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

const INPUT: &str = "input.bin";
const RESULT: &str = "result.bin";
/// RocksDB's name of the one job.
const JOB_ID: &str = "job_0001";
const POLL: Duration = Duration::from_millis(100);

#[derive(Args)]
#[command(rename_all = "snake_case")]
pub(super) struct JobFlags {
    /// Directory of the job's files, the same for both commands; each job needs one of its own
    #[arg(long)]
    job_dir: PathBuf,
    /// Seconds to wait for the other command
    #[arg(long, default_value_t = 120)]
    timeout: u64,
}

/// The content of `path`, once it has some. `None` after `timeout` seconds, or if `is_cancelled`.
fn poll(env: &Env, path: &Path, timeout: u64, is_cancelled: &AtomicBool) -> Option<Vec<u8>> {
    let start = env.clock.monotonic_nanos();
    while !is_cancelled.load(Ordering::Relaxed) {
        let content = read_file(env.fs.as_ref(), path).unwrap_or_default();
        if !content.is_empty() {
            return Some(content);
        }
        let waited = Duration::from_nanos(env.clock.monotonic_nanos().saturating_sub(start));
        if waited >= Duration::from_secs(timeout) {
            return None;
        }
        env.clock.sleep(POLL);
    }
    None
}

/// Checks that the job's directory has none of these files: they would be those of an earlier job.
fn refuse_earlier(env: &Env, flags: &JobFlags, names: &[&str]) -> CommandOutcome {
    for name in names {
        let path = flags.job_dir.join(name);
        if env.fs.file_exists(&path)? {
            let path = path.display();
            return Err(Failure::new(format_args!("{path} is of an earlier job: name another job_dir")));
        }
    }
    Ok(())
}

/// Writes a file that appears whole or not at all.
fn write_whole(env: &Env, path: &Path, content: &[u8]) -> esker::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    replace_file(env.fs.as_ref(), Path::new(&temporary), path, content, true)
}

/// A service for one job, whose worker is another command.
struct LocalFiles {
    env: Env,
    dir: PathBuf,
    timeout: u64,
    is_scheduled: AtomicBool,
    is_cancelled: AtomicBool,
}

impl CompactionService for LocalFiles {
    fn name(&self) -> &str {
        "LocalFileCompactionService"
    }

    /// Later jobs, such as further key ranges, run in this process.
    fn schedule(&self, _info: &CompactionServiceJobInfo, input: &[u8]) -> CompactionServiceScheduleResponse {
        if self.is_scheduled.swap(true, Ordering::Relaxed) {
            return CompactionServiceScheduleResponse::without_job(CompactionServiceJobStatus::UseLocal);
        }
        match write_whole(&self.env, &self.dir.join(INPUT), input) {
            Ok(()) => CompactionServiceScheduleResponse::scheduled(JOB_ID),
            Err(_) => CompactionServiceScheduleResponse::without_job(CompactionServiceJobStatus::Failure),
        }
    }

    fn wait(&self, _scheduled_job_id: &str) -> (CompactionServiceJobStatus, Vec<u8>) {
        match poll(&self.env, &self.dir.join(RESULT), self.timeout, &self.is_cancelled) {
            Some(result) => (CompactionServiceJobStatus::Success, result),
            None if self.is_cancelled.load(Ordering::Relaxed) => {
                (CompactionServiceJobStatus::Aborted, Vec::new())
            }
            None => (CompactionServiceJobStatus::Failure, Vec::new()),
        }
    }

    fn cancel_awaiting_jobs(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }
}

/// Compacts the column family through a worker.
pub(super) fn primary(session: &mut Session, flags: &JobFlags, host: &Host, out: &mut Out) -> CommandOutcome {
    host.fs().create_dir_if_missing(&flags.job_dir)?;
    // The result of an earlier job may be complete: its tables have the values of that time.
    refuse_earlier(&host.env(), flags, &[INPUT, RESULT])?;
    let service: Arc<dyn CompactionService> = Arc::new(LocalFiles {
        env: host.env(),
        dir: flags.job_dir.clone(),
        timeout: flags.timeout,
        is_scheduled: AtomicBool::new(false),
        is_cancelled: AtomicBool::new(false),
    });
    session.options = DbOptions { compaction_service: Some(service), ..session.options.clone() };
    let was_disabled = session.family_options()?.disable_auto_compactions;
    session.change_family(|options| options.disable_auto_compactions = true);
    let Opened { db, family } = session.open()?;
    let compacted = db.compact_range_opt(&CompactRangeOptions::default(), &family, None, None);
    // The OPTIONS file has the family's own setting again.
    let restored = db.set_options(&family, &[("disable_auto_compactions", &was_disabled.to_string())]);
    compacted.map_err(|why| Failure::new(format_args!("CompactRange: {why}")))?;
    restored?;
    db.close()?;
    Ok(writeln!(out, "remote_compaction_primary: OK")?)
}

/// Does the job of a primary.
pub(super) fn worker(common: &Common, flags: &JobFlags, host: &Host, out: &mut Out) -> CommandOutcome {
    let db = db_path(common)?;
    let (env, input) = (host.env(), flags.job_dir.join(INPUT));
    refuse_earlier(&env, flags, &[RESULT])?;
    let job = poll(&env, &input, flags.timeout, &AtomicBool::new(false)).ok_or_else(|| {
        Failure::new(format_args!("Timed out ({}s) waiting for {}", flags.timeout, input.display()))
    })?;
    let overrides = CompactionServiceOptionsOverride { env: env.clone(), ..Default::default() };
    let how = OpenAndCompactOptions::default();
    let result = Db::open_and_compact(&how, db, flags.job_dir.join("output"), &job, &overrides)
        .map_err(|why| Failure::new(format_args!("OpenAndCompact: {why}")))?;
    write_whole(&env, &flags.job_dir.join(RESULT), &result)?;
    Ok(writeln!(out, "remote_compaction_worker: OK ({} bytes result)", result.len())?)
}
