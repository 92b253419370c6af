//! Golden databases: Esker opens each, read-only and read-write, reads its contents and rewrites
//! it. RocksDB then reads the result.

use esker::options::{BottommostLevelCompaction, TargetVersion, load_latest_options_from};
use esker::{
    ColumnFamilyDescriptor, ColumnFamilyOptions, CompactRangeOptions, Db, DbOptions, ErrorKind, OpenMode,
    ReadOptions, WriteOptions, builtin,
};
use esker_base::comparator::BytewiseComparatorWithU64Ts;
use esker_peer::fixture::{ExpectedFamily, Fixture};
use esker_peer::{Contents, FamilySpec, RocksDb, Tools, fixture, require};
use esker_testkit::TempDir;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Whether a `TransactionDB` wrote the database in `dir`, by the fixture's name in the path.
pub(crate) fn has_transactions(dir: &Path) -> bool {
    dir.to_string_lossy().contains("_txn_")
}

/// Whether the fixture contains a prepared transaction. RocksDB opens such a database only with
/// `allow_2pc`, and `ldb` has no flag for that.
pub(crate) fn has_pending_transaction(fixture: &Fixture) -> bool {
    fixture.name.ends_with("_txn_2pc")
}

/// RocksDB's own family, made by `persist_stats_to_disk`.
const STATS_HISTORY: &str = "___rocksdb_stats_history___";

/// The newest possible timestamp: reads at it see the newest version of each key.
const NEWEST: [u8; 8] = [0xFF; 8];

/// Whether the keys of a fixture have user-defined timestamps.
pub(crate) fn has_timestamps(name: &str) -> bool {
    name.contains("_udt_")
}

fn read_options(db: &Db) -> ReadOptions {
    let has_timestamps = db.default_column_family().comparator().timestamp_size() > 0;
    ReadOptions { timestamp: has_timestamps.then(|| NEWEST.to_vec()), ..ReadOptions::default() }
}

/// Families as a user would describe them: from the OPTIONS file if there is one. A family without
/// a merge operator gets `stringappend`.
pub(crate) fn families(db_options: &DbOptions, dir: &Path) -> esker::Result<Vec<ColumnFamilyDescriptor>> {
    let loaded = match load_latest_options_from(db_options.env.fs.as_ref(), dir) {
        Ok(loaded) => Some(loaded),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let names = Db::list_column_families(db_options, dir)?;
    let has_timestamps = dir.to_string_lossy().contains("_udt_");
    let descriptor = |name: String| {
        let mut options = loaded.as_ref().and_then(|l| l.family(&name)).cloned().unwrap_or_default();
        if has_timestamps {
            // If there is an OPTIONS file, it names the comparator.
            if options.comparator.timestamp_size() == 0 {
                options.comparator = Arc::new(BytewiseComparatorWithU64Ts);
            }
        }
        options.merge_operator.get_or_insert_with(|| builtin::string_append(","));
        ColumnFamilyDescriptor::new(name, options)
    };
    Ok(names.into_iter().map(descriptor).collect())
}

fn open(dir: &Path, mode: OpenMode) -> esker::Result<Db> {
    let options = DbOptions { allow_2pc: has_transactions(dir), ..DbOptions::default() };
    Db::open_with(&options, dir, families(&options, dir)?, mode)
}

/// A result with the error as text, so that one table holds errors of Esker and of checks.
pub(crate) type Outcome = Result<(), String>;

/// Compares a database with its expected contents. `timestamps_may_go` says that the family keeps
/// timestamps in memory only, and was flushed.
fn check_contents(db: &Db, expected: &[ExpectedFamily], timestamps_may_go: bool) -> Outcome {
    for family in expected {
        let handle = db.column_family(&family.name).ok_or_else(|| format!("no family '{}'", family.name))?;
        let options = read_options(db);
        let contents = Contents::of(db, &handle, &options).map_err(describe)?;
        family.check(&contents)?;
        let mut iter = db.iter_opt(options, &handle).map_err(describe)?;
        iter.seek_to_first();
        for entry in &family.entries {
            let (timestamp, may_go) = (iter.timestamp(), timestamps_may_go && iter.timestamp() == [0; 8]);
            if entry.timestamp.as_deref().is_some_and(|expected| expected != timestamp) && !may_go {
                return Err(format!("{entry:?} has timestamp {timestamp:?}"));
            }
            let columns: Vec<_> = iter.columns().iter().map(|(n, v)| (n.to_vec(), v.to_vec())).collect();
            if entry.columns.as_ref().is_some_and(|expected| *expected != columns) {
                return Err(format!("{entry:?} has columns {columns:?}"));
            }
            iter.next();
        }
    }
    let names = db.column_family_names();
    if names.iter().filter(|name| *name != STATS_HISTORY).count() != expected.len() {
        return Err(format!("families are {:?}", db.column_family_names()));
    }
    Ok(())
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn describe(error: esker::Error) -> String {
    format!("{:?}: {error}", error.kind())
}

/// Opens a copy read-only. The files must not change.
fn read_only(fixture: &Fixture) -> Outcome {
    let copy = fixture.copy();
    let before = files(copy.path());
    let read = || {
        let db = open(copy.path(), OpenMode::ReadOnly).map_err(describe)?;
        check_contents(&db, &fixture.expected(), false)?;
        db.close().map_err(describe)
    };
    let result = read();
    if files(copy.path()) == before { result } else { Err("reading only changed files".to_owned()) }
}

/// All files in a directory with their bytes.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let paths = std::fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("readable").path());
    paths.map(|path| (path.clone(), std::fs::read(path).expect("readable"))).collect()
}

/// Opens a copy for writing, rewrites every table, and opens it again. RocksDB reads the copy
/// afterwards.
fn read_write(fixture: &Fixture, dir: &Path) -> Outcome {
    let expected = fixture.expected();
    let db = open(dir, OpenMode::ReadWrite).map_err(describe)?;
    check_contents(&db, &expected, fixture.name.contains("memtable_only"))?;
    let (family, write) = (db.default_column_family(), WriteOptions::default());
    if has_timestamps(&fixture.name) {
        db.put_with_ts(&write, &family, "zz-esker", &0xFFFF_u64.to_le_bytes(), "was here")
            .map_err(describe)?;
    } else {
        db.put("zz-esker", "was here").map_err(describe)?;
    }
    for family in &expected {
        let handle = db.column_family(&family.name).ok_or("a family went")?;
        db.compact_range_opt(&rewrite_all(), &handle, None, None).map_err(describe)?;
    }
    if has_timestamps(&fixture.name) {
        db.delete_with_ts(&write, &family, "zz-esker", &0x1_0000_u64.to_le_bytes()).map_err(describe)?;
    } else {
        db.delete("zz-esker").map_err(describe)?;
    }
    check_contents(&db, &expected, fixture.name.contains("memtable_only"))
        .map_err(|e| format!("after compaction: {e}"))?;
    db.close().map_err(describe)?;
    drop(db);
    let db = open(dir, OpenMode::ReadWrite).map_err(describe)?;
    check_contents(&db, &expected, fixture.name.contains("memtable_only"))
        .map_err(|e| format!("after reopening: {e}"))?;
    db.close().map_err(describe)
}

/// Puts a key and deletes it again. Rewrites the default family after each. Steps after the put
/// may fail with `NotSupported`. If the open fails, the function does nothing.
fn write_regardless(dir: &Path) -> Outcome {
    let refused = |result: esker::Result<()>| match result {
        Err(e) if e.kind() != ErrorKind::NotSupported => Err(describe(e)),
        _ => Ok(()),
    };
    let Ok(db) = open(dir, OpenMode::ReadWrite) else { return Ok(()) };
    db.put("zz-esker", "was here").map_err(describe)?;
    refused(db.flush())?;
    refused(db.compact_range_opt(&rewrite_all(), &db.default_column_family(), None, None))?;
    refused(db.delete("zz-esker"))?;
    refused(db.compact_range_opt(&rewrite_all(), &db.default_column_family(), None, None))?;
    refused(db.close())
}

fn rewrite_all() -> CompactRangeOptions {
    CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    }
}

/// RocksDB 7.8.3 reads a database that Esker has rewritten. Compares the contents.
pub(crate) fn read_by_7(fixture: &Fixture, dir: &Path) -> Outcome {
    // 7.8.3 knows neither tables without their timestamps nor a reverse order with timestamps.
    if fixture.name.contains("memtable_only") || fixture.name.contains("udt_reverse") {
        return Ok(());
    }
    let Some(tools) = require("ldb 7.8", Tools::find()) else { return Ok(()) };
    if has_pending_transaction(fixture) {
        return Ok(());
    }
    tools.check_consistency(dir)?;
    tools.verify_tables(dir)?;
    if has_timestamps(&fixture.name) {
        return Ok(()); // `ldb` 7.8.3 cannot read at a timestamp
    }
    for family in fixture.expected() {
        family.check(&tools.contents(dir, &family.name)?).map_err(|e| format!("7.8.3: {e}"))?;
    }
    Ok(())
}

/// RocksDB 11.8.1 reads a database that Esker has rewritten. Compares the contents.
pub(crate) fn read_by_11(fixture: &Fixture, dir: &Path) -> Outcome {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return Ok(());
    }
    let described = families(&DbOptions::default(), dir).map_err(describe)?;
    let spec = |family: &ColumnFamilyDescriptor| {
        let in_memory_only = fixture.name.contains("memtable_only");
        let persisted = if in_memory_only { "persist_user_defined_timestamps=false;" } else { "" };
        let order = family.options.comparator.name();
        // RocksDB knows its own operator by the name `put`, not by its class name.
        let operator = match family.options.merge_operator.as_ref().map_or("", |o| o.name()) {
            "StringAppendOperator" => "{id=StringAppendOperator;delimiter=,}",
            "PutOperator" => "put",
            other => other,
        };
        FamilySpec::new(
            family.name.clone(),
            format!("comparator={order};{persisted}merge_operator={operator};"),
        )
    };
    let expected = fixture.expected();
    let specs: Vec<_> = described.iter().map(spec).collect();
    // RocksDB demands `allow_concurrent_memtable_write=false` if timestamps are kept in memory
    // only.
    let in_memory_only = fixture.name.contains("memtable_only");
    let db_options = match () {
        () if has_transactions(dir) => "allow_2pc=true",
        () if in_memory_only => "allow_concurrent_memtable_write=false;",
        () => "",
    };
    let db = RocksDb::open(dir, db_options, &specs)?;
    if !in_memory_only {
        // In tables without timestamps, this check misreads range tombstones, and throws.
        db.verify_checksum()?;
    }
    for family in &expected {
        let contents = if has_timestamps(&fixture.name) {
            db.contents_at(&family.name, &NEWEST)
        } else {
            db.contents(&family.name, None)
        };
        family.check(&contents?).map_err(|e| format!("11.8.1: {e}"))?;
    }
    Ok(())
}

/// One row of the table.
struct Row {
    text: String,
    wrong: Vec<String>,
}

fn supported(fixture: &Fixture) -> Row {
    let copy = fixture.copy();
    let mut results = vec![read_only(fixture), read_write(fixture, copy.path())];
    let rewritten = results[1].is_ok();
    for reader in [read_by_7, read_by_11] {
        results.push(if rewritten {
            reader(fixture, copy.path())
        } else {
            Err("was not rewritten".to_owned())
        });
    }
    let cells: Vec<String> =
        results.iter().map(|r| format!("{:<11}", if r.is_ok() { "ok" } else { "WRONG" })).collect();
    let wrong = results.into_iter().filter_map(Result::err).collect();
    Row { text: cells.join(" "), wrong }
}

#[test]
fn golden_databases_open_and_go_back() {
    let fixtures = fixture::all(&["v7_8_", "v11_8_", "v11_9_", "v11_12_"]);
    assert!(fixtures.len() >= 155, "only {} golden databases", fixtures.len());
    let mut table = format!(
        "{:<26} {:<11} {:<11} {:<11} {:<11}\n",
        "fixture", "read-only", "read-write", "7.8.3 reads", "11.8.1 reads"
    );
    let mut wrong = Vec::new();
    let mut opened = 0;
    for fixture in fixtures.iter().filter(|f| f.is_database()) {
        let row = supported(fixture);
        opened += usize::from(row.wrong.is_empty());
        wrong.extend(row.wrong.into_iter().map(|e| format!("{}: {e}", fixture.name)));
        writeln!(table, "{:<26} {}", fixture.name, row.text.trim_end()).expect("a String");
    }
    println!("{table}{opened} opened and handed back, {} findings", wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The newest version of each key as it is stored, by `ldb idump`.
fn stored(tools: Tools, dir: &Path) -> BTreeMap<Vec<u8>, (u8, Vec<u8>)> {
    let mut newest = BTreeMap::new();
    for entry in tools.internal_entries(dir, "default").expect("idump") {
        newest.entry(entry.key).or_insert((entry.kind, entry.value));
    }
    // Types 0 and 7 are deletions.
    newest.retain(|_, (kind, _)| !matches!(kind, 0 | 7));
    newest
}

#[test]
fn entities_and_blob_indexes_survive_a_rewrite_byte_for_byte() {
    let Some(tools) = require("ldb 7.8", Tools::find()) else { return };
    for (name, kind) in [("v7_8_wide_columns", 22), ("v7_8_blob", 17), ("v7_8_blob_zstd", 17)] {
        let fixture = &fixture::all(&[name])[0];
        let copy = fixture.copy();
        // With `enable_blob_files` in OPTIONS, a flush turns values of the WAL into blobs. The
        // compaction by RocksDB does that before the comparison begins.
        tools.ldb(copy.path(), ["compact"]).expect("compacts");
        let before = stored(tools, copy.path());
        assert!(before.values().any(|(k, _)| *k == kind), "{name}: no entry of this kind is visible");
        write_regardless(copy.path()).expect("written");
        assert_eq!(stored(tools, copy.path()), before, "{name}");
    }
}

#[test]
fn a_table_with_embedded_blobs_is_ingested_read_and_rewritten() {
    let fixture = &fixture::all(&["v11_9_embedded_blob_sst"])[0];
    let expected = &fixture.expected()[0];
    let dir = TempDir::new("embedded");
    let options = DbOptions { create_if_missing: true, ..DbOptions::default() };
    let mut family = ColumnFamilyOptions::default();
    family.table.no_block_cache = true;
    let families = || vec![ColumnFamilyDescriptor::new("default", family.clone())];
    let db = Db::open_with(&options, dir.path(), families(), OpenMode::ReadWrite).expect("opens");
    let file = fixture.file("emb.sst");
    db.ingest_external_file(&[file]).expect("ingested");
    let read = |db: &Db| {
        let family = db.default_column_family();
        expected.check(&Contents::of(db, &family, &ReadOptions::default()).expect("read")).expect("right");
    };
    read(&db);
    db.compact_range_opt(&rewrite_all(), &db.default_column_family(), None, None).expect("compacts");
    read(&db);
    db.close().expect("closes");
    drop(db);
    // An epoch guard of another test may have kept the ingested table on disk, where 7.8.3's tools
    // would read it too. An open deletes such a table.
    let db = Db::open_with(&options, dir.path(), families(), OpenMode::ReadWrite).expect("opens again");
    db.close().expect("closes");
    drop(db);
    read_by_7(fixture, dir.path()).expect("read by 7.8.3");
    read_by_11(fixture, dir.path()).expect("read by 11.8.1");
}

/// A WAL that RocksDB 11 reads must state the size of timestamps. Otherwise RocksDB reads its keys
/// as keys without timestamps. The WALs of RocksDB 7.8 do not state the size.
#[test]
fn a_wal_with_timestamps_is_read_by_rocksdb_11() {
    for name in ["v7_8_udt_u64", "v11_9_udt_u64"] {
        let fixture = &fixture::all(&[name])[0];
        let copy = fixture.copy();
        let options = DbOptions {
            avoid_flush_during_shutdown: true,
            compatible_with: TargetVersion::V8,
            ..DbOptions::default()
        };
        let families = families(&options, copy.path()).expect("described");
        let db = Db::open_with(&options, copy.path(), families, OpenMode::ReadWrite).expect("opens");
        let (family, write) = (db.default_column_family(), WriteOptions::default());
        db.put_with_ts(&write, &family, "zz-esker", &0xFFFF_u64.to_le_bytes(), "was here").expect("written");
        db.delete_with_ts(&write, &family, "zz-esker", &0x1_0000_u64.to_le_bytes()).expect("written");
        db.close().expect("closes");
        drop(db);
        read_by_11(fixture, copy.path()).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
}

/// Tests other databases, in the layout of `fixtures/`, from the directory `ESKER_DATABASES`. Each
/// is opened for reading and for writing, rewritten, and compared.
#[test]
fn databases_from_elsewhere_open_and_keep_what_is_in_them() {
    let Some(root) = std::env::var_os("ESKER_DATABASES") else { return };
    let fixtures = fixture::all_in(Path::new(&root));
    let mut wrong = Vec::new();
    for fixture in &fixtures {
        let copy = fixture.copy();
        if let Err(error) = read_only(fixture) {
            wrong.push(format!("{}: read-only: {error}", fixture.name));
        }
        if let Err(error) = read_write(fixture, copy.path()) {
            wrong.push(format!("{}: read-write: {error}", fixture.name));
        } else if let Err(error) = read_by_11(fixture, copy.path()) {
            wrong.push(format!("{}: handed back: {error}", fixture.name));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), fixtures.len(), wrong.join("\n"));
}
