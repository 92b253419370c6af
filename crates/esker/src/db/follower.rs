//! Followers: secondaries that keep up by themselves, and have links to their leader's files in a
//! directory of their own.
//!
//! In: a leader's directory. Out: a read-only database that catches up every
//! `follower_refresh_catchup_period_ms`. If a catch-up fails, it is repeated
//! `follower_catchup_retry_wait_ms` later, up to `follower_catchup_retry_count` attempts in all.
//!
//! Each wait is a call of the environment's timer, and each attempt a job of the pool: no thread
//! waits for the leader.
//!
//! Source: RocksDB `db/db_impl/db_impl_follower.cc`.

use super::Db;
use super::catch_up::catch_up;
use super::descriptor::ColumnFamilyDescriptor;
use crate::engine::{Engine, Refresh};
use crate::files::{OnDemandFileSystem, is_data_file};
use crate::options::{DbOptions, Options};
use crate::schedule::Job;
use esker_base::sync::atomic::Ordering;
use esker_base::sync::{Arc, epoch};
use esker_base::{FileNumber, Result};
use esker_env::FileSystem;
use esker_format::file_name::parse_file_name;
use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

impl Db {
    /// Opens the default family of the database in `leader_path` as a follower: RocksDB's
    /// `DB::OpenAsFollower`. The leader, which another process or handle has open, owns the
    /// database. The follower reads beside it as a secondary does, WALs included, and catches up
    /// by itself every `follower_refresh_catchup_period_ms`.
    /// [`Db::try_catch_up_with_primary`] catches up at once.
    ///
    /// `path` is a directory of the follower's own: it holds hard links to tables and blob files,
    /// so that the leader may delete them, and the LOG. It must lie on the leader's file system.
    /// An open makes all links anew, and a link goes when no reader needs it. Costs a link for
    /// each table and blob file, and what [`Db::open_as_secondary`] costs.
    ///
    /// ```
    /// use esker::{Db, Options};
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// let leader = Db::open_default(dir.join("leader"))?;
    /// leader.put("fjord", "water")?;
    /// leader.flush()?;
    ///
    /// let mut options = Options::new().create_if_missing(true);
    /// options.db.follower_refresh_catchup_period_ms = 1;
    /// let follower = Db::open_as_follower(&options, dir.join("follower"), dir.join("leader"))?;
    /// assert!(follower.get("fjord")?.is_some());
    /// leader.put("fjord", "ice")?;
    /// while follower.get("fjord")?.as_deref() != Some(b"ice") {
    ///     std::thread::yield_now();
    /// }
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: the leader does not exist; `path` is missing and `create_if_missing` is
    /// off, holds a database or tables, or is not apart from `leader_path`; an option is out of
    /// range · `IoError`: another follower has `path`, or files cannot be linked into it · the
    /// other errors of [`Db::open_as_secondary`].
    pub fn open_as_follower(
        options: &Options,
        path: impl AsRef<Path>,
        leader_path: impl AsRef<Path>,
    ) -> Result<Db> {
        let default = ColumnFamilyDescriptor::new("default", options.cf.clone());
        Db::open_cf_as_follower(&options.db, path, leader_path, [default])
    }

    /// Opens families of the database in `leader_path` as a follower, as [`Db::open_as_follower`]
    /// does; `default` must be one of them.
    ///
    /// A family that the leader creates later appears when the follower is opened again. The handle
    /// of a family that the leader drops reads the contents at the last catch-up.
    ///
    /// ```
    /// use esker::{Db, DbOptions};
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let leader = Db::open_default(dir.join("leader"))?;
    /// # leader.create_column_families(["users", "orders"])?;
    ///
    /// let mut options = DbOptions::default();
    /// options.create_if_missing = true;
    /// let (own, families) = (dir.join("follower"), ["default", "users"]);
    /// let db = Db::open_cf_as_follower(&options, own, dir.join("leader"), families)?;
    /// assert_eq!(db.column_family_names(), families);
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: the leader or a family does not exist; `path` is missing and
    /// `create_if_missing` is off, holds a database or tables, or is not apart from `leader_path`;
    /// an option is out of range · `IoError`: another follower has `path`, or files cannot be
    /// linked into it · the other errors of [`Db::open_cf_as_secondary`].
    pub fn open_cf_as_follower(
        options: &DbOptions,
        path: impl AsRef<Path>,
        leader_path: impl AsRef<Path>,
        families: impl IntoIterator<Item = impl Into<ColumnFamilyDescriptor>>,
    ) -> Result<Db> {
        let families = ColumnFamilyDescriptor::list(families);
        let fs = &options.env.fs;
        let own = fs.absolute_path(path.as_ref())?;
        let leader = fs.absolute_path(leader_path.as_ref())?;
        let (on_demand, lock) =
            OnDemandFileSystem::take(fs.clone(), (own.clone(), leader), options.create_if_missing)?;
        let mut options = options.clone();
        options.env.fs = Arc::new(on_demand);
        let db = Db::open_following(&options, &own, &own, families)?;
        let engine = db.engine();
        // A close releases it, also if iterators or handles stay.
        *engine.lock.lock() = Some(lock);
        delete_other_links(engine, fs.as_ref())?;
        esker_base::info_log!(engine.info_log, Info, "Opening the db in follower mode");
        begin_to_refresh(engine);
        Ok(db)
    }
}

/// Deletes links to files that the opened versions do not name. An attempt to open that the
/// leader's changes have disturbed leaves some. `fs` is the file system of the links.
fn delete_other_links(engine: &Engine, fs: &dyn FileSystem) -> Result<()> {
    let manifest = engine.manifest.lock();
    let live: HashSet<FileNumber> =
        manifest.families().flat_map(|family| family.current().live_files()).collect();
    drop(manifest);
    for name in fs.children(&engine.path)?.iter().filter(|name| is_data_file(name)) {
        if parse_file_name(name).is_some_and(|(_, number)| !live.contains(&number)) {
            fs.delete_file(&engine.path.join(name))?;
        }
    }
    Ok(())
}

fn begin_to_refresh(engine: &Arc<Engine>) {
    let Some(secondary) = &engine.secondary else { return };
    secondary.has_links.store(true, Ordering::Relaxed);
    engine.scheduler.ensure_threads(1, 0);
    if engine.options.follower_catchup_retry_count > 0 {
        wait_then_refresh(engine, engine.options.follower_refresh_catchup_period_ms, 0);
    }
}

/// Lets the next attempt begin after `millis`. `failed`: the attempts before it that failed in a
/// row. Does nothing once the database closes.
fn wait_then_refresh(engine: &Arc<Engine>, millis: u64, failed: u64) {
    let Some(secondary) = &engine.secondary else { return };
    let mut refresh = secondary.refresh.lock();
    if matches!(*refresh, Refresh::Ended) {
        return;
    }
    let weak = Arc::downgrade(engine);
    let timer = engine.env.timer.repeat(Duration::from_millis(millis.max(1)), move || {
        if let Some(engine) = weak.upgrade() {
            begin_attempt(&engine, failed);
        }
    });
    let old = std::mem::replace(&mut *refresh, Refresh::Waits(timer));
    drop(refresh);
    drop(old);
}

/// Ends the wait, and queues an attempt.
fn begin_attempt(engine: &Arc<Engine>, failed: u64) {
    let Some(secondary) = &engine.secondary else { return };
    let mut refresh = secondary.refresh.lock();
    if matches!(*refresh, Refresh::Ended) {
        return;
    }
    let old = std::mem::replace(&mut *refresh, Refresh::Idle);
    drop(refresh);
    drop(old);
    let weak = Arc::downgrade(engine);
    let work = move || {
        if let Some(engine) = weak.upgrade() {
            attempt(&engine, failed);
        }
        // The thread may sleep for long: what it retired must not wait for its next job.
        epoch::pin().flush();
    };
    engine.scheduler.schedule(Job::CatchUp, Box::new(work));
}

fn attempt(engine: &Arc<Engine>, failed: u64) {
    let options = &engine.options;
    match catch_up(engine) {
        Ok(()) => {
            esker_base::info_log!(engine.info_log, Info, "Successful catch up on attempt {failed}");
            wait_then_refresh(engine, options.follower_refresh_catchup_period_ms, 0);
        }
        Err(_) if failed + 1 < options.follower_catchup_retry_count => {
            wait_then_refresh(engine, options.follower_catchup_retry_wait_ms, failed + 1);
        }
        Err(_) => {
            esker_base::info_log!(engine.info_log, Info, "Catch up unsuccessful");
            wait_then_refresh(engine, options.follower_refresh_catchup_period_ms, 0);
        }
    }
}
