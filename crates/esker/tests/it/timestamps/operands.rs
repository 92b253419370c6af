//! Operands of keys with timestamps, with and without a value below them.

use super::{NAMES, at, options, ts, versions};
use esker::{Db, ErrorKind, SstFileReader, SstFileWriter, WriteOptions};

/// An operand cannot be shown by itself.
#[test]
fn entries_hidden_by_a_newer_one_with_the_same_timestamp_hinder_no_direction() {
    let db = Db::open(&options(NAMES[0]), "/db").unwrap();
    let (write, family) = (WriteOptions::default(), db.default_column_family());
    db.put_with_ts(&write, &family, "a", &ts(5), "before").unwrap();
    db.merge_with_ts(&write, &family, "k", &ts(10), "operand").unwrap();
    db.put_with_ts(&write, &family, "k", &ts(10), "value").unwrap();
    db.put_with_ts(&write, &family, "z", &ts(5), "behind").unwrap();
    let expected = [("a", 5, "before"), ("k", 10, "value"), ("z", 5, "behind")];
    let expected = expected.map(|(key, time, value)| (key.to_owned(), time, Some(value.to_owned())));
    for flushed in [false, true] {
        if flushed {
            db.flush().unwrap();
        }
        assert_eq!(versions(&db, 0, 20), expected);
    }
}

#[test]
fn operands_of_a_table_alone_wait_for_what_they_apply_to() {
    let options = options(NAMES[0]);
    let mut writer = SstFileWriter::new(&options);
    writer.open("/file.sst").unwrap();
    writer.merge([&b"based"[..], &ts(5)].concat(), "operand").unwrap();
    writer.put([&b"based"[..], &ts(3)].concat(), "value").unwrap();
    writer.merge([&b"deleted"[..], &ts(5)].concat(), "operand").unwrap();
    writer.delete([&b"deleted"[..], &ts(3)].concat()).unwrap();
    writer.merge([&b"waits"[..], &ts(5)].concat(), "operand").unwrap();
    writer.finish().unwrap();
    let reader = SstFileReader::open(&options, "/file.sst").unwrap();
    let text = |key| reader.get(&at(9), key).map(|value| value.map(|v| v.to_vec()));
    assert_eq!(text("based").unwrap().as_deref(), Some(&b"value,operand"[..]));
    assert_eq!(text("deleted").unwrap().as_deref(), Some(&b"operand"[..]));
    assert_eq!(text("waits").unwrap_err().kind(), ErrorKind::MergeInProgress);
    assert_eq!(reader.get(&at(4), "waits").unwrap(), None);
    assert_eq!(
        reader.multi_get(&at(9), &["waits"])[0].as_ref().unwrap_err().kind(),
        ErrorKind::MergeInProgress
    );
}
