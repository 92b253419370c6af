use super::Checks;
use crate::record::Record;
use crate::tree::TreeRun;
use crate::{MemTable, MemTableOptions};
use esker_base::entry_checksum::EntryChecksum;
use esker_base::sync::Arc;
use esker_base::{ErrorKind, SequenceNumber, ValueType};
use esker_format::cursor::InternalIterator;
use esker_format::key::{InternalKeyComparator, LookupKey};

const KEYS: u64 = 300;

fn memtable(checks: Checks) -> Arc<MemTable> {
    let options = MemTableOptions { checks, use_huge_pages: false, ..MemTableOptions::default() };
    let mem = MemTable::new(InternalKeyComparator::default(), options);
    for n in 0..KEYS {
        mem.add(SequenceNumber(n + 1), ValueType::Value, &key(n), &value(n)).unwrap();
    }
    mem
}

fn key(n: u64) -> Vec<u8> {
    format!("key{n:05}").into_bytes()
}

fn value(n: u64) -> Vec<u8> {
    format!("value {n}").into_bytes()
}

fn get(mem: &Arc<MemTable>, n: u64) -> Result<Option<Vec<u8>>, ErrorKind> {
    let mut found = None;
    mem.get(&LookupKey::new(&key(n), SequenceNumber::MAX), |_, _, value| {
        found = Some(value.to_vec());
        false
    })
    .map_err(|e| e.kind())?;
    Ok(found)
}

/// Flips a bit of the n-th record, `back` bytes before the end of its value; its checksum lies
/// behind that.
fn flip(mem: &MemTable, n: u64, back: isize) {
    let mut run = TreeRun::new();
    let target = LookupKey::new(&key(n), SequenceNumber::MAX);
    let at = mem.tree.load_from(&crate::record::Target::new(target.internal_key()), &mut run).unwrap();
    // SAFETY: the run was copied from this tree.
    let record: Record<'_> = unsafe { run.record(at) };
    let end = record.key_value().1.as_ptr_range().end as isize - record.as_ptr() as isize;
    // SAFETY: within the record and its checksum.
    let byte = unsafe { record.as_ptr().offset(end - back) };
    // SAFETY: no other thread reads the record now.
    unsafe { *byte ^= 0x10 };
}

fn scan(mem: &Arc<MemTable>, forward: bool) -> (u64, Result<(), ErrorKind>) {
    let mut iter = mem.iter();
    let mut rows = 0;
    if forward {
        iter.seek_to_first()
    } else {
        iter.seek_to_last()
    }
    while iter.valid() {
        rows += 1;
        if forward { iter.next() } else { iter.prev() }
    }
    (rows, iter.status().map_err(|e| e.kind()))
}

#[test]
fn a_flipped_bit_of_an_entry_is_corruption_in_every_read() {
    for bytes in [1, 2, 4, 8] {
        // In the checksum, the value, the sequence number and the type.
        for back in [0, 1, 10, 11, 16, 17] {
            let checks = Checks { protection_bytes: bytes, ..Checks::default() };
            let mem = memtable(checks);
            assert_eq!(scan(&mem, true), (KEYS, Ok(())));
            assert_eq!(scan(&mem, false), (KEYS, Ok(())));
            flip(&mem, 170, back);
            assert_eq!(get(&mem, 170), Err(ErrorKind::Corruption), "{bytes} {back}");
            for forward in [true, false] {
                let (rows, status) = scan(&mem, forward);
                let before = if forward { 170 } else { KEYS - 171 };
                assert_eq!((rows, status), (before, Err(ErrorKind::Corruption)));
            }
            assert_eq!(get(&mem, 169), Ok(Some(value(169))), "other entries are intact");
        }
    }
}

#[test]
fn with_checks_on_seek_neighbours_tell_too_even_of_a_key_that_cannot_be_found() {
    let checks = Checks { protection_bytes: 8, on_seek: true, order: false };
    let mem = memtable(checks);
    flip(&mem, 170, 20);
    assert_eq!(get(&mem, 170), Err(ErrorKind::Corruption));
    assert_eq!(get(&mem, 169), Err(ErrorKind::Corruption));
    let mut iter = mem.iter();
    iter.seek(LookupKey::new(&key(168), SequenceNumber::MAX).internal_key());
    assert!(!iter.valid() && iter.status().is_err());
    iter.seek(LookupKey::new(&key(1), SequenceNumber::MAX).internal_key());
    assert!(iter.valid() && iter.status().is_ok(), "another leaf is intact");
}

#[test]
fn keys_out_of_order_are_corruption_with_paranoid_checks_though_there_are_no_checksums() {
    let mem = memtable(Checks { order: true, ..Checks::default() });
    assert_eq!(scan(&mem, true), (KEYS, Ok(())));
    assert_eq!(scan(&mem, false), (KEYS, Ok(())));
    // Changes the hundreds digit of key 170 to `!`, so that the key is out of order.
    flip(&mem, 170, 20);
    assert!(scan(&mem, true).1.is_err() && scan(&mem, false).1.is_err());
    assert!(get(&mem, 171).is_err());
}

#[test]
fn an_entry_that_is_not_what_its_checksum_says_is_not_added() {
    for protection_bytes in [0, 4] {
        let mem = memtable(Checks { protection_bytes, ..Checks::default() });
        let add = |kind, value: &[u8], checksum| {
            mem.add_checked(SequenceNumber(1000), kind, b"new", value, checksum).map_err(|e| e.kind())
        };
        for kind in [ValueType::Value, ValueType::RangeDeletion] {
            let checksum = EntryChecksum::of(kind, b"new", b"value");
            assert_eq!(add(kind, b"valuf", checksum), Err(ErrorKind::Corruption));
            assert_eq!(add(ValueType::Merge, b"value", checksum), Err(ErrorKind::Corruption));
        }
        assert_eq!(mem.num_entries(), KEYS);
        assert_eq!(
            add(ValueType::Value, b"value", EntryChecksum::of(ValueType::Value, b"new", b"value")),
            Ok(())
        );
        assert_eq!(scan(&mem, true), (KEYS + 1, Ok(())));
    }
}

#[test]
fn many_threads_add_checked_entries() {
    let checks = Checks { protection_bytes: 2, on_seek: true, order: true };
    let mem = memtable(checks);
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let mem = &mem;
            scope.spawn(move || {
                for n in 0..500 {
                    let (sequence, key) = (SequenceNumber(1000 + n * 4 + thread), key(n % 90 * 7 + thread));
                    mem.add(sequence, ValueType::Value, &key, &value(n)).unwrap();
                    get(mem, n % KEYS).unwrap();
                }
            });
        }
    });
    assert_eq!(scan(&mem, true), (KEYS + 2000, Ok(())));
}
