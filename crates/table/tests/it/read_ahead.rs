//! Counts the reads of opening, scanning and verifying a table.

use crate::util::*;
use esker_base::{SequenceNumber, ValueType};
use esker_env::RandomAccessFile;
use esker_format::cursor::{InternalIterator, ScanIterator};
use esker_format::key::{InternalKeyComparator, internal_key};
use esker_table::{BlockBasedTableOptions, TableReadOptions, TableReader, TableReaderOptions};
use std::path::Path;
use std::sync::Arc;

/// A file that records its reads.
#[derive(Debug)]
struct Counting(Arc<dyn RandomAccessFile>, std::sync::Mutex<Vec<(u64, usize)>>);

impl RandomAccessFile for Counting {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> esker_base::Result<usize> {
        self.1.lock().unwrap().push((offset, buf.len()));
        self.0.read_at(offset, buf)
    }
    fn read_vectored_at(&self, offset: u64, bufs: &mut [&mut [u8]]) -> esker_base::Result<usize> {
        self.1.lock().unwrap().push((offset, bufs.iter().map(|buf| buf.len()).sum()));
        self.0.read_vectored_at(offset, bufs)
    }
    fn size(&self) -> esker_base::Result<u64> {
        self.0.size()
    }
    fn path(&self) -> &Path {
        self.0.path()
    }
}

#[test]
fn opening_takes_one_read_and_scanning_reads_ahead() {
    let entries = sample_entries(&mut Rng::new(4), 60_000, 60);
    let (bytes, info) = write_table(builder_options(with_filters()), entries).unwrap();
    let file = Arc::new(Counting(memory_file(&bytes), Default::default()));
    let mut options = TableReaderOptions::new(
        InternalKeyComparator::default(),
        Arc::new(with_filters()),
        bytes.len() as u64,
    );
    options.tail_size = info.tail_size;
    options.expected_unique_id = info.unique_id;
    let reader = TableReader::open(file.clone(), options.clone()).unwrap();
    assert_eq!(file.1.lock().unwrap().len(), 1, "one read opens a table");
    let reads_of = |readahead_size, backward: bool| {
        file.1.lock().unwrap().clear();
        let mut iter = reader.iter(TableReadOptions { readahead_size, ..Default::default() });
        if backward {
            iter.seek_to_last()
        } else {
            iter.seek_to_first()
        }
        while iter.valid() {
            if backward { iter.prev() } else { iter.next() }
        }
        iter.status().unwrap();
        std::mem::take(&mut *file.1.lock().unwrap())
    };
    for backward in [false, true] {
        let auto = reads_of(0, backward);
        let blocks = reader.properties().num_data_blocks as usize;
        assert!(auto.len() < blocks / 20, "{} reads for {blocks} blocks", auto.len());
        assert!(
            auto[0].1 < 8192 && auto.iter().any(|r| r.1 >= 256 * 1024),
            "readahead starts small and grows"
        );
        assert!(auto.iter().all(|r| r.1 < 300 * 1024));
        let total: usize = auto.iter().map(|r| r.1).sum();
        assert!(total <= bytes.len(), "{total} bytes read of {}", bytes.len());
        let explicit = reads_of(1 << 20, backward);
        assert!(explicit.len() <= bytes.len() / (1 << 20) + 3, "{explicit:?}");
    }

    file.1.lock().unwrap().clear();
    reader.verify(&mut |_| true).unwrap();
    let reads = file.1.lock().unwrap().len();
    assert!(reads < bytes.len() / (256 << 10) + 10, "{reads} reads verify {} bytes", bytes.len());

    options.expected_unique_id = Some([1, 2]);
    let e = TableReader::open(file, options).unwrap_err();
    assert!(e.is_corruption() && e.message().contains("unique id"), "{e}");
}

#[test]
fn scans_as_long_as_those_before_them_take_one_read() {
    let entries = sample_entries(&mut Rng::new(4), 60_000, 60);
    let (bytes, _) = write_table(builder_options(with_filters()), entries.clone()).unwrap();
    let file = Arc::new(Counting(memory_file(&bytes), Default::default()));
    let table = BlockBasedTableOptions { no_block_cache: true, ..with_filters() };
    let options =
        TableReaderOptions::new(InternalKeyComparator::default(), Arc::new(table), bytes.len() as u64);
    let reader = TableReader::open(file.clone(), options).unwrap();
    let rows_of_a_block = entries.len() / reader.properties().num_data_blocks as usize;
    let mut places = Rng::new(5);
    // Number of reads, and their bytes, for a seek and steps over `blocks` blocks.
    let mut reads_of = |blocks: usize, forward: bool| {
        let mut iter = reader.iter(TableReadOptions::default());
        file.1.lock().unwrap().clear();
        let mut place = places.below(50_000) + 5_000;
        iter.seek(&entries[place].0);
        for _ in 0..blocks * rows_of_a_block {
            if forward {
                iter.next()
            } else {
                iter.prev()
            }
            if forward {
                place += 1
            } else {
                place -= 1
            }
            assert_eq!((iter.key(), iter.value()), (&*entries[place].0, &*entries[place].1));
        }
        iter.status().unwrap();
        let reads = std::mem::take(&mut *file.1.lock().unwrap());
        (reads.len(), reads.iter().map(|read| read.1).sum::<usize>())
    };
    let (first, _) = reads_of(4, true);
    assert!(first >= 3, "the length of scans is not known yet: {first} reads");
    (0..30).for_each(|_| _ = reads_of(4, true));
    let later: Vec<_> = (0..20).map(|_| reads_of(4, true)).collect();
    assert!(later.iter().filter(|(reads, _)| *reads == 1).count() >= 12, "{later:?}");
    assert!(later.iter().all(|(_, bytes)| *bytes < 8 * 4300), "{later:?}");
    // After ten short scans, a scan reads no more than it needs.
    (0..10).for_each(|_| _ = reads_of(0, true));
    assert!((0..10).map(|_| reads_of(0, true)).all(|(reads, bytes)| reads == 1 && bytes < 4300));
}

/// A file that cannot be read beyond the offset that the test sets.
#[derive(Debug)]
struct BadFrom(Arc<dyn RandomAccessFile>, std::sync::atomic::AtomicU64);

impl RandomAccessFile for BadFrom {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> esker_base::Result<usize> {
        if offset + buf.len() as u64 > self.1.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(esker_base::Error::io("a bad sector"));
        }
        self.0.read_at(offset, buf)
    }
    fn size(&self) -> esker_base::Result<u64> {
        self.0.size()
    }
    fn path(&self) -> &Path {
        self.0.path()
    }
}

#[test]
fn failed_readahead_fails_no_scan_that_ends_before_it() {
    let entries = sample_entries(&mut Rng::new(4), 5000, 60);
    let (bytes, _) = write_table(builder_options(with_filters()), entries.clone()).unwrap();
    let file = Arc::new(BadFrom(memory_file(&bytes), u64::MAX.into()));
    let table = BlockBasedTableOptions { no_block_cache: true, ..with_filters() };
    let options =
        TableReaderOptions::new(InternalKeyComparator::default(), Arc::new(table), bytes.len() as u64);
    let reader = TableReader::open(file.clone(), options).unwrap();
    let rows = entries.len() / reader.properties().num_data_blocks as usize;
    let scan = |blocks: usize, readahead_size| {
        let mut iter = reader.iter(TableReadOptions { readahead_size, ..Default::default() });
        iter.seek(&entries[0].0);
        for _ in 0..blocks * rows {
            if iter.valid() {
                iter.next();
            }
        }
        iter.status()
    };
    (0..30).for_each(|_| scan(8, 0).unwrap());
    // About the first five blocks can be read.
    file.1.store(5 * 4096, std::sync::atomic::Ordering::Relaxed);
    for readahead_size in [0, 1 << 20] {
        scan(2, readahead_size).unwrap();
        assert!(scan(8, readahead_size).is_err());
    }
}

#[test]
fn a_seek_beyond_the_bounds_looks_at_no_block() {
    let entries = sample_entries(&mut Rng::new(4), 500, 60);
    let (bytes, info) = write_table(builder_options(with_filters()), entries.clone()).unwrap();
    let file = Arc::new(Counting(memory_file(&bytes), Default::default()));
    let mut options = TableReaderOptions::new(
        InternalKeyComparator::default(),
        Arc::new(with_filters()),
        bytes.len() as u64,
    );
    options.smallest_key = Some(entries[0].0.as_slice().into());
    options.largest_key = Some(info.largest.into());
    let reader = TableReader::open(file.clone(), options).unwrap();
    file.1.lock().unwrap().clear();
    let mut iter = reader.iter(TableReadOptions::default());
    let last = &entries.last().unwrap().0;
    let behind = [&last[..last.len() - 8], b"x", &last[last.len() - 8..]].concat();
    iter.seek(&behind);
    assert!(!iter.valid());
    let before = internal_key(b"a", SequenceNumber(1), ValueType::SEEK);
    iter.seek_for_prev(&before);
    assert!(!iter.valid());
    iter.status().unwrap();
    assert_eq!(*file.1.lock().unwrap(), [], "no byte is read");
    iter.seek(last);
    assert_eq!(iter.key(), last);
    iter.seek(&behind);
    assert!(!iter.valid());
    iter.seek_for_prev(&behind);
    assert_eq!(iter.key(), last);
    iter.seek_for_prev(&before);
    assert!(!iter.valid());
    iter.seek(&before);
    assert_eq!(iter.key(), entries[0].0);
}

#[test]
fn an_upper_bound_ends_a_scan_at_the_end_of_its_block() {
    let entries = sample_entries(&mut Rng::new(5), 5000, 60);
    let (bytes, _) = write_table(builder_options(with_filters()), entries.clone()).unwrap();
    let file = Arc::new(Counting(memory_file(&bytes), Default::default()));
    let options = TableReaderOptions::new(
        InternalKeyComparator::default(),
        Arc::new(with_filters()),
        bytes.len() as u64,
    );
    let reader = TableReader::open(file.clone(), options).unwrap();
    let bound = entries[100].0[..11].to_vec();
    let mut iter = reader.iter(TableReadOptions::default());
    iter.set_upper_bound(Some(&bound));
    iter.seek_to_first();
    let mut n = 0;
    while iter.valid() {
        n += 1;
        iter.next();
    }
    iter.status().unwrap();
    assert!((100..300).contains(&n), "{n} entries until the bound of entry 100");
    let last = entries.last().unwrap();
    iter.seek_for_prev(&last.0);
    assert_eq!(iter.key(), last.0, "the bound is a hint for going forwards");
}
