use super::*;
use std::time::Duration;

/// The entries that a scan of a family finds.
fn entries(database: &Database, family: &ColumnFamilyHandle) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut iter = database.db.db().iter_cf(family).expect("an iterator");
    iter.seek_to_first();
    let mut entries = Vec::new();
    while let Some((key, value)) = iter.item() {
        entries.push((key.to_vec(), value.to_vec()));
        iter.next();
    }
    entries
}

#[test]
fn indexes_have_what_the_table_has_however_transactions_meet() {
    let options = LockBenchOptions { time: Duration::from_millis(20), ..LockBenchOptions::default() };
    for locking in [Locking::Points, Locking::Ranges] {
        let database = Database::filled(20, locking).expect("the database can be filled");
        database.run(&options, Oltp::WriteOnly, 4, 1).expect("run");
        let rows = entries(&database, &database.table);
        assert_eq!(rows.len(), 20);
        for (number, index) in database.indexes.iter().enumerate() {
            let mut expected: Vec<_> = rows
                .iter()
                .map(|(key, value)| {
                    let id = u64::from_be_bytes(key.as_slice().try_into().expect("eight bytes"));
                    index_key(Columns::decode(value).k[number], id).to_vec()
                })
                .collect();
            expected.sort();
            let found: Vec<_> = entries(&database, index).into_iter().map(|(key, _)| key).collect();
            assert_eq!(found, expected);
        }
    }
}
