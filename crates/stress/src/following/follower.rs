//! The follower: a database that applies batches of the stream, each with the position behind it.

use super::leader::{DIR, StreamLeader};
use crate::crash::choices_of;
use esker::internals::env::{CrashChoices, CrashFs, Env, FileSystem};
use esker::{
    ChangeBatch, ChangeOp, ChangePosition, ColumnFamilyDescriptor, ColumnFamilyHandle, Db, Options, Result,
    SequenceNumber, Transaction, TransactionDb, TransactionDbOptions, WriteBatch, WriteOptions, builtin,
};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// The family of the follower's own keys: the position, and the leader's ids of families.
const OWN_FAMILY: &str = "follower";
const POSITION_KEY: &str = "position";

pub(super) struct StreamFollower {
    disk: CrashFs,
    options: Options,
    db: Db,
    /// Own families by their names, each with the leader's id.
    families: HashMap<String, (u32, ColumnFamilyHandle)>,
    own: ColumnFamilyHandle,
    position: ChangePosition,
}

fn family_key(name: &str) -> String {
    format!("family/{name}")
}

fn open(options: &Options) -> Result<Db> {
    let names = match options.db.env.fs.file_exists(&Path::new(DIR).join("CURRENT"))? {
        true => Db::list_column_families(&options.db, DIR)?,
        false => vec!["default".to_owned()],
    };
    let families = names.iter().map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone()));
    Db::open_cf(&options.db, DIR, families)
}

impl StreamFollower {
    /// A follower of an empty database.
    pub(super) fn new(rng: &mut fastrand::Rng) -> std::result::Result<StreamFollower, String> {
        StreamFollower::over(CrashFs::new(), None, rng).map_err(|e| format!("the new follower: {e}"))
    }

    /// Opens the follower on `disk`. `copied`: the newest number in a copy that begins here.
    pub(super) fn over(
        disk: CrashFs,
        copied: Option<SequenceNumber>,
        rng: &mut fastrand::Rng,
    ) -> Result<StreamFollower> {
        let mut options = Options::new().create_if_missing(true);
        options.db.create_missing_column_families = true;
        // WALs of a copy may have sections of transactions.
        options.db.allow_2pc = true;
        options.cf.write_buffer_size = 1 << rng.u32(14..18);
        options.cf.merge_operator = Some(builtin::string_append(","));
        if copied.is_some() {
            roll_back(&disk, &options)?;
        }
        StreamFollower::open(disk, options, copied)
    }

    fn open(disk: CrashFs, mut options: Options, copied: Option<SequenceNumber>) -> Result<StreamFollower> {
        options.db.env = Env::with_fs(Arc::new(disk.clone()));
        let db = open(&options)?;
        let own = match db.column_family(OWN_FAMILY) {
            Some(own) => own,
            None => db.create_column_family(OWN_FAMILY, &options.cf)?,
        };
        let handles = db.column_family_names().into_iter().filter(|name| name != OWN_FAMILY);
        let handles: Vec<_> = handles.filter_map(|name| db.column_family(&name)).collect();
        if let Some(copied) = copied {
            // A copy has the leader's ids.
            let mut batch = WriteBatch::new();
            for handle in &handles {
                batch.put_cf(&own, family_key(handle.name()), handle.id().0.to_string())?;
            }
            batch.put_cf(&own, POSITION_KEY, ChangePosition::after(copied).to_string())?;
            db.write_opt(&WriteOptions::new().sync(true), batch)?;
        }
        let number = |key: &str| -> Result<Option<u64>> {
            let value = db.get_cf(&own, key)?;
            Ok(value.and_then(|text| std::str::from_utf8(&text).ok()?.parse().ok()))
        };
        let position = number(POSITION_KEY)?.map_or(ChangePosition::START, |n| SequenceNumber(n).into());
        let mut families = HashMap::new();
        for handle in handles {
            let id = match handle.name() {
                "default" => Some(0),
                name => number(&family_key(name))?.and_then(|id| u32::try_from(id).ok()),
            };
            // A family without an id was created before a crash, and never written.
            families.insert(handle.name().to_owned(), (id.unwrap_or(u32::MAX), handle));
        }
        Ok(StreamFollower { disk, options, db, families, own, position })
    }

    /// The stored position.
    pub(super) fn position(&self) -> ChangePosition {
        self.position
    }

    /// Applies a batch and its position in one write.
    pub(super) fn apply(&mut self, batch: &ChangeBatch) -> std::result::Result<(), String> {
        let at = batch.first_sequence();
        self.try_apply(batch).map_err(|e| format!("the follower, at {at}: {e}"))
    }

    fn try_apply(&mut self, batch: &ChangeBatch) -> Result<()> {
        let mut applied = WriteBatch::new();
        let mut own = Vec::new();
        for family in batch.families() {
            let (Some(name), false) = (&family.name, family.is_dropped) else { continue };
            let known = self.families.get(name.as_ref()).map(|(id, _)| *id);
            if known == Some(family.id.0) {
                continue;
            }
            if let Some((_, old)) = self.families.remove(name.as_ref()) {
                self.db.drop_column_family(&old)?;
            }
            let handle = self.db.create_column_family(name.as_ref(), &self.options.cf)?;
            self.families.insert(name.to_string(), (family.id.0, handle));
            own.push((family_key(name), family.id.0.to_string()));
        }
        for change in batch.iter() {
            let Some(family) = change.family.filter(|family| !family.is_dropped) else { continue };
            let Some((_, to)) = family.name.as_ref().and_then(|name| self.families.get(name.as_ref())) else {
                continue;
            };
            match change.op {
                ChangeOp::Put { key, value } => applied.put_cf(to, key, value)?,
                ChangeOp::Delete { key } => applied.delete_cf(to, key)?,
                ChangeOp::SingleDelete { key } => applied.single_delete_cf(to, key)?,
                ChangeOp::Merge { key, operand } => applied.merge_cf(to, key, operand)?,
                ChangeOp::DeleteRange { begin, end } => applied.delete_range_cf(to, begin, end)?,
                ChangeOp::PutEntity { key, columns } => applied.put_entity_cf(to, key, &columns)?,
                _ => {}
            }
        }
        for (key, id) in own {
            applied.put_cf(&self.own, key, id)?;
        }
        applied.put_cf(&self.own, POSITION_KEY, batch.next_position().to_string())?;
        self.db.write(applied)?;
        self.position = batch.next_position();
        Ok(())
    }

    /// Crashes the follower and opens it again. Returns whether a garbled MANIFEST was refused.
    pub(super) fn crash(&mut self, rng: &mut fastrand::Rng) -> std::result::Result<bool, String> {
        let choices = choices_of(rng.u64(..));
        let opened = StreamFollower::open(self.disk.crash_clone(&choices), self.options.clone(), None);
        let is_refused = opened.as_ref().is_err_and(esker::Error::is_corruption);
        let opened = match opened {
            Err(_) if is_refused => {
                let disk = self.disk.crash_clone(&CrashChoices::process_kill());
                StreamFollower::open(disk, self.options.clone(), None)
            }
            opened => opened,
        };
        *self = opened.map_err(|e| format!("the follower after {choices:?}: {e}"))?;
        Ok(is_refused)
    }

    /// Compares the contents of each family of the leader.
    pub(super) fn compare(&self, leader: &StreamLeader) -> std::result::Result<(), String> {
        for handle in leader.families() {
            let mut theirs = leader.db().iter_cf(handle).map_err(|e| e.to_string())?;
            let ours = self.families.get(handle.name()).filter(|(id, _)| *id == handle.id().0);
            let mut ours =
                ours.map(|(_, own)| self.db.iter_cf(own)).transpose().map_err(|e| e.to_string())?;
            theirs.seek_to_first();
            if let Some(ours) = &mut ours {
                ours.seek_to_first();
            }
            loop {
                let (there, here) = (theirs.item(), ours.as_ref().and_then(|ours| ours.item()));
                if there != here {
                    let show = |item: Option<(&[u8], &[u8])>| {
                        item.map(|(key, value)| format!("{} = {}", key.escape_ascii(), value.escape_ascii()))
                    };
                    return Err(format!(
                        "in '{}', at position {}: the leader has {:?}, the follower {:?}",
                        handle.name(),
                        self.position,
                        show(there),
                        show(here)
                    ));
                }
                if there.is_none() {
                    break;
                }
                theirs.next();
                if let Some(ours) = &mut ours {
                    ours.next();
                }
            }
        }
        Ok(())
    }
}

/// Rolls back the prepared transactions in a copy: the stream brings their operations when they are
/// committed.
fn roll_back(disk: &CrashFs, options: &Options) -> Result<()> {
    let mut options = options.clone();
    options.db.env = Env::with_fs(Arc::new(disk.clone()));
    let names = Db::list_column_families(&options.db, DIR)?;
    let families = names.iter().map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone()));
    let db = TransactionDb::open_cf(&options.db, &TransactionDbOptions::default(), DIR, families)?;
    db.get_all_prepared_transactions().iter().try_for_each(Transaction::rollback)
}

/// Copies the files of a directory to the same names of [`DIR`] on a new disk.
pub(super) fn copied_disk(from: &CrashFs, dir: &Path) -> Result<CrashFs> {
    let disk = CrashFs::new();
    disk.create_dir_if_missing(Path::new(DIR))?;
    for name in from.children(dir)? {
        let path = dir.join(&name);
        let mut bytes = vec![0; usize::try_from(from.file_size(&path)?).unwrap_or(usize::MAX)];
        let (mut source, mut filled) = (from.new_sequential_file(&path)?, 0);
        while filled < bytes.len() {
            match source.read(&mut bytes[filled..])? {
                0 => break,
                n => filled += n,
            }
        }
        let mut file = disk.new_writable_file(&Path::new(DIR).join(&name))?;
        file.append(&bytes[..filled])?;
        file.sync()?;
        file.close()?;
    }
    disk.new_directory(Path::new(DIR))?.fsync()?;
    Ok(disk)
}
