//! Tables of other databases keep their sequence numbers. While such a number is that of an early
//! transaction which some reader may not see, the table cannot come in.

use super::options;
use super::write_prepared::{begin, open_as};
use esker::txn::WritePolicy;
use esker::{
    ColumnFamilyOptions, Db, Error, ErrorKind, ImportColumnFamilyOptions, IngestExternalFileOptions, Options,
    TransactionDb,
};
use std::path::PathBuf;

const KEYS: [&str; 3] = ["a", "b", "c"];

/// A table of another database: [`KEYS`], from sequence number 1 on.
fn table_of_another(options: &Options) -> PathBuf {
    let other = Db::open(options, "/other").unwrap();
    KEYS.iter().for_each(|key| other.put(key, "other").unwrap());
    other.flush().unwrap();
    let file = &other.live_files()[0].file;
    file.directory.join(&file.relative_filename)
}

fn ingest(db: &TransactionDb, table: &PathBuf) -> Result<(), Error> {
    let how = IngestExternalFileOptions::default().allow_db_generated_files(true).snapshot_consistency(false);
    db.db().ingest_external_file_opt(&how, &db.db().default_column_family(), &[table])
}

#[test]
fn a_table_with_sequence_numbers_of_a_prepared_transaction_is_refused_until_it_ends() {
    for commits in [true, false] {
        let options = options();
        let table = table_of_another(&options);
        let db = open_as(&options, WritePolicy::WritePrepared);
        let txn = begin(&db, "one");
        txn.put("z", "prepared").unwrap();
        txn.prepare().unwrap();
        assert_eq!(ingest(&db, &table).unwrap_err().kind(), ErrorKind::TryAgain);
        if commits {
            txn.commit().unwrap()
        } else {
            txn.rollback().unwrap()
        }
        ingest(&db, &table).unwrap();
        assert!(KEYS.iter().all(|key| db.db().get(key).unwrap().as_deref() == Some(b"other")));
    }
}

#[test]
fn a_table_is_refused_while_a_snapshot_does_not_see_a_transaction_with_its_sequence_numbers() {
    let options = options();
    let table = table_of_another(&options);
    let db = open_as(&options, WritePolicy::WritePrepared);
    let (one, two) = (begin(&db, "one"), begin(&db, "two"));
    one.put("z", "prepared").unwrap();
    one.prepare().unwrap();
    // The transaction that stays prepared has none of the table's numbers.
    (0..5).for_each(|_| db.put("y", "between").unwrap());
    two.put("x", "prepared").unwrap();
    two.prepare().unwrap();
    let snapshot = db.db().snapshot();
    one.commit().unwrap();
    assert_eq!(ingest(&db, &table).unwrap_err().kind(), ErrorKind::TryAgain);
    drop(snapshot);
    ingest(&db, &table).unwrap();
    assert_eq!(db.db().get("a").unwrap().as_deref(), Some(&b"other"[..]));
    two.commit().unwrap();
    assert_eq!(db.db().get("a").unwrap().as_deref(), Some(&b"other"[..]));
}

#[test]
fn a_family_with_sequence_numbers_of_a_prepared_transaction_is_not_imported_until_it_ends() {
    let options = options();
    let other = Db::open(&options, "/other").unwrap();
    KEYS.iter().for_each(|key| other.put(key, "other").unwrap());
    let exported = other.export_column_family(&other.default_column_family(), "/exported").unwrap();
    let db = open_as(&options, WritePolicy::WriteUnprepared);
    let txn = begin(&db, "one");
    txn.put("z", "prepared").unwrap();
    txn.prepare().unwrap();
    let import = || {
        let (how, family) = (ImportColumnFamilyOptions::default(), ColumnFamilyOptions::default());
        db.db().create_column_family_with_import(&how, "imported", &family, &exported)
    };
    assert_eq!(import().unwrap_err().kind(), ErrorKind::TryAgain);
    assert!(db.db().column_family("imported").is_none());
    txn.commit().unwrap();
    let family = import().unwrap();
    assert!(KEYS.iter().all(|key| db.db().get_cf(&family, key).unwrap().as_deref() == Some(b"other")));
}
