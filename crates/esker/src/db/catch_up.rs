//! Secondary instances: a database that another process owns, followed from one catch-up to the
//! next.
//!
//! In: the records that the primary has added to its MANIFEST and WALs. Out: super versions that
//! show the primary's state as of the catch-up. None of the primary's files is changed or locked.
//!
//! Cost: a catch-up reads the new bytes of MANIFEST and WALs, lists the WAL directory, and reads
//! CURRENT once. If there is a new MANIFEST, it reads all of it. After an error in a replay it
//! reads all wanted WALs.
//!
//! Source: RocksDB `db/db_impl/db_impl_secondary.cc`, for what users see.
//!
//! Invariants
//!  1. The MANIFEST is read before the WALs. So no table lacks an entry whose WAL was passed over.
//!  2. Every file that the new versions name is held open before readers see these versions.
//!  3. All families and the sequence number are published under one hold of the db mutex, the
//!     number first: a read that takes an old super version and the new number sees the old state.
//!  4. An attempt that the primary's own changes disturb is repeated (`version/beside_owner.rs`).

mod replay;

use super::Db;
use super::holding::Holding;
use super::recover::BeforeManifest;
use crate::cf::FamilyState;
use crate::engine::{
    DbState, Engine, FollowedFamily, FollowedMemTable, PrimaryFollower, UnderWay, forget_shares,
    publish_super_versions,
};
use crate::options::DbOptions;
use crate::version::beside_owner::{OwnersProgress, owner_has_changed, read_beside_owner};
use crate::version::{Followed, VersionSet};
use crate::wal::FollowedWals;
use crate::write::new_memtable;
use esker_base::sync::atomic::Ordering;
use esker_base::sync::{Arc, epoch};
use esker_base::{ColumnFamilyId, Error, FileNumber, Result, SequenceNumber, SubCode};
use esker_format::file_name::{FileType, blob_file_name, parse_file_name, table_file_name};
use replay::Replay;
use std::collections::{BTreeMap, HashSet};

impl Db {
    /// Brings a secondary to the primary's present state. Later reads see it; iterators and
    /// snapshots stay where they are. Several threads may call it; they wait for each other.
    ///
    /// Cost: the bytes that the primary has written since the last call, and a listing of its WAL
    /// directory.
    ///
    /// ```
    /// use esker::{Db, Options};
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// let primary = Db::open_default(dir.join("db"))?;
    /// let secondary = Db::open_as_secondary(&Options::default(), dir.join("db"), dir.join("mine"))?;
    ///
    /// primary.put("fjord", "water")?;
    /// assert_eq!(secondary.get("fjord")?, None);
    /// secondary.try_catch_up_with_primary()?;
    /// assert_eq!(secondary.get("fjord")?.as_deref(), Some(&b"water"[..]));
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `NotSupported`: the database is no secondary, or a WAL of the primary has transactions of
    /// `WritePrepared` or `WriteUnprepared` · `Corruption`: names file and offset; entries before
    /// the damage may be seen · `TryAgain`: the primary changes its files faster than they are read
    /// · `InvalidArgument`: the directory holds another database now · `IoError` ·
    /// `ShutdownInProgress`. After an error reads see the former state, or a later one.
    pub fn try_catch_up_with_primary(&self) -> Result<()> {
        catch_up(self.engine())
    }
}

/// The work of [`Db::try_catch_up_with_primary`].
/// # Errors
/// Those of [`Db::try_catch_up_with_primary`].
pub(super) fn catch_up(engine: &Arc<Engine>) -> Result<()> {
    let Some(secondary) = &engine.secondary else {
        return Err(Error::not_supported("Supported only by secondary instance"));
    };
    let _under_way = UnderWay::begin(engine)?;
    let mut follower = secondary.follower.lock();
    let before = engine.visible_sequence();
    let attempt = || CatchUp { engine, follower: &mut follower }.run();
    let caught_up = read_beside_owner(engine.fs().as_ref(), engine.env.clock.as_ref(), &engine.path, attempt)
        .and_then(|()| check_whole(&follower));
    drop(follower);
    engine.report_stall_changes();
    match &caught_up {
        Ok(()) if engine.visible_sequence() == before => {}
        Ok(()) => {
            let sequence = engine.visible_sequence();
            esker_base::info_log!(engine.info_log, Info, "Last sequence is {sequence}");
        }
        Err(e) => {
            esker_base::info_log!(engine.info_log, Warn, "Could not catch up with the primary: {e}")
        }
    }
    caught_up
}

/// Starts to follow a database whose MANIFEST was read and whose WALs were not. `refused`: the
/// error if a WAL has operands of a family.
pub(super) fn new_follower(
    options: &DbOptions,
    manifest: &VersionSet,
    states: &[FamilyState],
    mut refused: BTreeMap<ColumnFamilyId, Error>,
) -> PrimaryFollower {
    let family = |state: &FamilyState| {
        let id = state.cf.id;
        let family = FollowedFamily {
            cf: state.cf.clone(),
            options: state.options.clone(),
            log_number: manifest.family(id).map(|f| f.log_number()).unwrap_or_default(),
            foreign_operands: refused.remove(&id),
            active: FollowedMemTable { mem: state.memtables.active.clone(), wal: FileNumber(0) },
            sealed: Vec::new(),
            is_fresh: true,
            has_new_version: false,
            next_memtable_id: state.next_memtable_id,
        };
        (id, family)
    };
    PrimaryFollower {
        wals: FollowedWals::new(super::recover::mode_of(options.wal_recovery_mode)),
        families: states.iter().map(family).collect(),
        changed: states.iter().map(|state| state.cf.id).collect(),
        dropped: Vec::new(),
        unheld: Vec::new(),
        is_spoiled: false,
    }
}

/// The first replay of a secondary that is being opened. `before`: the files that were there before
/// its MANIFEST was read.
/// # Errors
/// Those of `Db::open_cf_as_secondary`.
pub(super) fn first_replay(engine: &Arc<Engine>, before: BeforeManifest) -> Result<()> {
    let Some(secondary) = &engine.secondary else { return Ok(()) };
    let mut follower = secondary.follower.lock();
    follower.wals.seen = before.wals;
    CatchUp { engine, follower: &mut follower }.replay_and_publish(before.progress)
}

/// Checks that no replayed WAL is damaged.
/// # Errors
/// `Corruption` if the replay has stopped before damage, and the primary has written more.
fn check_whole(follower: &PrimaryFollower) -> Result<()> {
    match follower.wals.decide.stopped_in() {
        None => Ok(()),
        Some(wal) => {
            let what =
                "the WAL is damaged: the secondary stays before the damage until the primary has flushed it";
            Err(Error::corruption(what).at(format_args!("{:06}.log", wal.0)))
        }
    }
}

/// One attempt to catch up.
struct CatchUp<'a> {
    engine: &'a Arc<Engine>,
    follower: &'a mut PrimaryFollower,
}

impl CatchUp<'_> {
    fn run(&mut self) -> Result<()> {
        let engine = self.engine;
        engine.check_open()?;
        let progress = OwnersProgress::now(engine.fs().as_ref(), &engine.path);
        let followed = engine.manifest.lock().read_later_edits()?;
        esker_base::probe!("catch_up:manifest_read");
        self.adopt(followed);
        self.hold_new_tables()?;
        self.replay_and_publish(progress)
    }

    /// `progress`: the owner's progress before the MANIFEST was read.
    fn replay_and_publish(&mut self, progress: Option<OwnersProgress>) -> Result<()> {
        let smallest_wanted = self.engine.manifest.lock().min_log_number_to_keep();
        self.find_wals(smallest_wanted, progress)?;
        let stopped = self.follower.wals.decide.stopped_in();
        if self.follower.is_spoiled || stopped.is_some_and(|wal| wal < smallest_wanted) {
            self.begin_again(smallest_wanted)?;
        }
        self.follower.is_spoiled = true;
        let last = Replay::new(self.engine, self.follower, smallest_wanted).run()?;
        self.check_stop()?;
        self.follower.is_spoiled = false;
        self.publish(last);
        self.close_unnamed_files();
        Ok(())
    }

    /// Applies the MANIFEST's new versions and families.
    fn adopt(&mut self, followed: Followed) {
        let follower = &mut *self.follower;
        for (id, version) in followed.versions {
            let Some(family) = follower.families.get_mut(&id) else { continue };
            family.has_new_version = true;
            follower.changed.insert(id);
            follower.unheld.extend(version.new_files().iter().map(|file| (id, file.clone())));
        }
        let manifest = self.engine.manifest.lock();
        for id in followed.named {
            let Some(family) = follower.families.get_mut(&id) else { continue };
            family.log_number = manifest.family(id).map(|f| f.log_number()).unwrap_or_default();
            if family.drop_flushed(self.engine) {
                follower.changed.insert(id);
            }
        }
        for id in followed.dropped {
            if follower.families.remove(&id).is_some() {
                follower.changed.remove(&id);
                follower.dropped.push(id);
            }
        }
    }

    /// Opens the files that versions have named since the last catch-up, if the current versions
    /// still name them.
    /// # Errors
    /// `Corruption` if one is missing: the primary may have deleted it meanwhile.
    fn hold_new_tables(&mut self) -> Result<()> {
        let engine = self.engine;
        let holding = Holding {
            fs: engine.fs(),
            paranoid_checks: engine.options.paranoid_checks,
            info_log: &engine.info_log,
        };
        let follower = &mut *self.follower;
        let manifest = engine.manifest.lock();
        follower.unheld.retain(|(id, file)| {
            manifest.family(*id).is_some_and(|family| family.level_of(file.number).is_some())
        });
        while let Some((id, file)) = follower.unheld.last() {
            if let Some(family) = follower.families.get(id) {
                holding.hold_table(&family.cf.tables, file.level().unwrap_or(0), file)?;
            }
            follower.unheld.pop();
        }
        for id in &follower.changed {
            let (Some(family), Some(version)) = (follower.families.get(id), manifest.current(*id)) else {
                continue;
            };
            for number in version.blob_files().keys().filter(|_| family.has_new_version) {
                holding.hold_blob_file(&family.cf.tables, *number)?;
            }
        }
        Ok(())
    }

    /// Lists the WALs and opens the wanted ones.
    /// # Errors
    /// `TryAgain` if a wanted WAL may have been deleted. The primary deletes WALs oldest first,
    /// once the MANIFEST does not need them. So if a wanted WAL that was seen before the MANIFEST
    /// was read still exists, all later ones do.
    fn find_wals(&mut self, smallest_wanted: FileNumber, progress: Option<OwnersProgress>) -> Result<()> {
        let (engine, wals) = (self.engine, &mut self.follower.wals);
        let number = |name: &String| parse_file_name(name).filter(|(kind, _)| *kind == FileType::Wal);
        let names = engine.fs().children(&engine.wal_dir)?;
        let mut listed: Vec<FileNumber> = names.iter().filter_map(number).map(|(_, wal)| wal).collect();
        listed.sort_unstable();
        let seen = std::mem::replace(&mut wals.seen, listed.clone());
        wals.open(engine.fs().as_ref(), &engine.wal_dir, &listed, smallest_wanted)?;
        let mut wanted = seen.iter().filter(|wal| **wal >= smallest_wanted).peekable();
        let is_there = |wal: &&FileNumber| listed.binary_search(wal).is_ok();
        let has_landmark = wanted.clone().any(|wal| is_there(&wal));
        let is_whole = wanted.all(|wal| wals.is_open(*wal))
            && (has_landmark || OwnersProgress::now(engine.fs().as_ref(), &engine.path) == progress);
        if is_whole { Ok(()) } else { Err(owner_has_changed("a WAL has gone")) }
    }

    /// Forgets every memtable, and replays all wanted WALs.
    fn begin_again(&mut self, smallest_wanted: FileNumber) -> Result<()> {
        esker_base::probe!("catch_up:begin_again");
        let engine = self.engine;
        let follower = &mut *self.follower;
        follower.wals.begin_again();
        let listed = follower.wals.seen.clone();
        follower.wals.open(engine.fs().as_ref(), &engine.wal_dir, &listed, smallest_wanted)?;
        for family in follower.families.values_mut() {
            family.sealed.clear();
            family.renew(engine);
            follower.changed.insert(family.cf.id);
        }
        Ok(())
    }

    /// Checks that no family's tables are newer than damage in a WAL.
    /// # Errors
    /// `Corruption` if replay stopped in a WAL that a family with tables does not need: its tables
    /// are newer than the replayed entries of the other families.
    fn check_stop(&self) -> Result<()> {
        let Some(stopped) = self.follower.wals.decide.stopped_in() else { return Ok(()) };
        let manifest = self.engine.manifest.lock();
        match manifest.families().find(|f| f.log_number() > stopped && f.current().total_size() > 0) {
            None => Ok(()),
            Some(family) => Err(Error::corruption(format!(
                "SST file is ahead of WALs in CF {}: WAL {stopped:06}.log is damaged and the family's tables are newer",
                family.name()
            ))),
        }
    }

    /// Shows readers the new state.
    fn publish(&mut self, last: SequenceNumber) {
        let engine = self.engine;
        let follower = &mut *self.follower;
        let manifest = engine.manifest.lock();
        let mut state = engine.state.lock();
        engine.numbers.set_last_sequence(last);
        engine.allocated_sequence.store(engine.numbers.last_sequence().0, Ordering::Relaxed);
        let changed: Vec<_> = std::mem::take(&mut follower.changed).into_iter().collect();
        for id in &changed {
            let (Some(family), Some(of_engine)) = (follower.families.get_mut(id), state.family_mut(*id))
            else {
                continue;
            };
            family.show(of_engine);
            if std::mem::take(&mut family.has_new_version)
                && let Some(version) = manifest.current(*id)
            {
                of_engine.version = version.clone();
            }
            // Remembered deleted runs hold only while no older entries arrive.
            of_engine.deleted_run_memory = Arc::new(of_engine.deleted_run_memory.fresh());
        }
        publish_super_versions(engine, &mut state, &changed);
        drop_families(engine, &mut state, std::mem::take(&mut follower.dropped));
    }

    /// Closes files that no version names any more: at once, or after the reads under way.
    fn close_unnamed_files(&self) {
        self.engine.hand_over_super_versions();
        let no_read_is_under_way = epoch::settle(2, || ());
        close_obsolete_files(self.engine);
        if !no_read_is_under_way {
            self.engine.purger.request();
        }
    }
}

/// Closes files that no version names any more: the primary may have deleted them, and open
/// descriptors keep their space.
pub(super) fn close_obsolete_files(engine: &Engine) {
    let manifest = engine.manifest.lock();
    let tables: Vec<_> = manifest.take_obsolete_tables().iter().map(|table| table.number).collect();
    let blobs: Vec<_> = manifest.take_obsolete_blobs().iter().map(|blob| blob.number).collect();
    drop(manifest);
    if !tables.is_empty() || !blobs.is_empty() {
        let default = engine.families.default_family();
        default.tables.open_files().close_unnamed(&tables, &blobs);
    }
    if engine.secondary.as_ref().is_some_and(|secondary| secondary.has_links.load(Ordering::Relaxed)) {
        delete_links(engine, &tables, &blobs);
    }
}

/// Deletes a follower's links to files that no version names any more.
fn delete_links(engine: &Engine, tables: &[FileNumber], blobs: &[FileNumber]) {
    let tables = tables.iter().map(|number| table_file_name(&engine.path, *number));
    let blobs = blobs.iter().map(|number| blob_file_name(&engine.path, *number));
    for path in tables.chain(blobs) {
        match engine.fs().delete_file(&path) {
            Err(e) if e.subcode() != SubCode::PathNotFound => {
                esker_base::info_log!(engine.info_log, Warn, "Cannot delete a link: {e}");
            }
            _ => {}
        }
    }
}

/// Families that the primary has dropped: handles continue reading what they have.
fn drop_families(engine: &Arc<Engine>, state: &mut DbState, dropped: Vec<ColumnFamilyId>) {
    if dropped.is_empty() {
        return;
    }
    let leaving: HashSet<_> = dropped.into_iter().collect();
    for id in &leaving {
        let Some(family) = state.families.remove(id) else { continue };
        esker_base::info_log!(engine.info_log, Info, "[{}] was dropped by the primary", family.cf.name);
        family.cf.set_dropped();
        engine.families.remove(&family.cf);
    }
    forget_shares(engine, state, &leaving);
}

impl FollowedFamily {
    /// Drops memtables whose entries are in tables. Whether there were any.
    fn drop_flushed(&mut self, engine: &Engine) -> bool {
        let before = self.sealed.len();
        let log_number = self.log_number;
        self.sealed.retain(|sealed| sealed.wal >= log_number);
        let is_flushed = self.active.wal < log_number && !self.active.mem.is_empty();
        if is_flushed {
            self.renew(engine);
        }
        is_flushed || self.sealed.len() < before
    }

    /// Puts an empty memtable in the place of the active one.
    fn renew(&mut self, engine: &Engine) {
        let earliest = engine.visible_sequence();
        let id = self.next_memtable_id;
        self.next_memtable_id += 1;
        let mem = new_memtable(&engine.options, &self.cf.icmp, &self.options, id, earliest);
        let old = std::mem::replace(&mut self.active, FollowedMemTable { mem, wal: FileNumber(0) });
        old.mem.mark_immutable();
        self.is_fresh = true;
    }

    /// Seals the active memtable: later entries go into a new one.
    fn seal(&mut self, engine: &Engine) {
        let full = self.active.clone();
        self.renew(engine);
        if !full.mem.is_empty() {
            self.sealed.push(full);
        }
    }

    /// Gives the engine the memtables.
    fn show(&mut self, family: &mut FamilyState) {
        self.is_fresh = false;
        let sealed = self.sealed.iter().map(|sealed| (sealed.mem.clone(), sealed.wal));
        family.memtables.follow(self.active.mem.clone(), self.active.wal, sealed);
        family.next_memtable_id = self.next_memtable_id;
    }
}
