//! Databases of very many families.

use esker::internals::env::mem::MemFs;
use esker::{ColumnFamilyDescriptor, ColumnFamilyOptions, Db, DbOptions, Env, WriteBatch, WriteOptions};
use std::sync::Arc;

/// Nanoseconds that this thread has run.
fn own_nanos() -> u64 {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    times.split_whitespace().next().unwrap().parse().unwrap()
}

/// What it costs to have so many families flushed together, apart from the flush itself.
fn nanos_of_switch(count: usize) -> u64 {
    let options = DbOptions {
        env: Env::with_fs(Arc::new(MemFs::new())),
        create_if_missing: true,
        create_missing_column_families: true,
        atomic_flush: true,
        ..DbOptions::default()
    };
    let cf = ColumnFamilyOptions { arena_block_size: 4096, ..ColumnFamilyOptions::default() };
    let names = std::iter::once("default".to_owned()).chain((1..count).map(|n| format!("f{n}")));
    let families = names.map(|name| ColumnFamilyDescriptor::new(name, cf.clone())).collect();
    let db = Db::open_cf(&options, "/db", families).unwrap();
    let mut batch = WriteBatch::new();
    for name in db.column_family_names() {
        batch.put(db.column_family(&name).unwrap().id(), b"key", b"value").unwrap();
    }
    db.write(&WriteOptions::default(), &mut batch).unwrap();
    let before = own_nanos();
    db.flush().unwrap();
    let nanos = own_nanos() - before;
    assert_eq!(db.live_files().len(), count);
    db.close().unwrap();
    nanos
}

#[test]
fn what_a_flush_of_all_families_costs_does_not_grow_with_their_square() {
    let (few, many) = (nanos_of_switch(150), nanos_of_switch(900));
    assert!(many < 15 * few, "150 families: {few} ns, 900: {many} ns");
}
