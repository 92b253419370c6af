//! Damaged tables: `Corruption`, or the right answer; never a panic, never another answer.

use crate::util::*;
use esker_base::{Error, ErrorKind, SequenceNumber, ValueType};
use esker_format::compression::CompressionType;
use esker_format::cursor::{DecodeAhead, DecodedRun, InternalIterator, ScanIterator};
use esker_format::key::{InternalKeyComparator, LookupKey, ParsedInternalKey, internal_key};
use esker_format::properties::IndexType;
use esker_format::trailer::ChecksumType;
use esker_table::{
    BatchVisitor, BlockBasedTableOptions, Missing, TableBuilderOptions, TableIter, TableReadOptions,
    TableReader, TableReaderOptions, TableValue, default_block_cache, read_plans,
};
use std::sync::Arc;

fn small_table(version: u32, checksum: ChecksumType, compression: CompressionType) -> Vec<u8> {
    let table =
        BlockBasedTableOptions { block_size: 300, format_version: version, checksum, ..with_filters() };
    let mut options = builder_options(table);
    options.compression = compression;
    let mut entries = sample_entries(&mut Rng::new(11), 40, 20);
    entries.push((internal_key(b"a", SequenceNumber(9), ValueType::RangeDeletion), b"b".to_vec()));
    write_table(options, entries).unwrap().0
}

/// Everything that can be read from a table, or the error that prevents it.
fn learn(bytes: &[u8]) -> esker_base::Result<(Vec<Entry>, Vec<Entry>, usize)> {
    let reader = open_bytes(bytes, with_filters())?;
    let forwards = scan(&reader)?;
    let backwards = scan_backwards(&reader)?;
    let options = TableReadOptions::default();
    for e in forwards.iter().step_by(7) {
        let mut hit = false;
        let lookup = LookupKey::new(&e.0, SequenceNumber::MAX);
        reader.get(&options, &lookup, &mut |_, _| {
            hit = true;
            false
        })?;
        if !hit {
            return Err(esker_base::Error::not_found("lost"));
        }
        let mut iter = reader.iter(options);
        iter.seek(&ikey_of(e));
        iter.status()?;
        iter.seek_for_prev(&ikey_of(e));
        iter.status()?;
    }
    let dels = reader.range_dels().map_or(0, |d| d.len());
    Ok((forwards, backwards, dels))
}

#[test]
fn a_changed_byte_gives_corruption_or_the_right_answer() {
    for (version, checksum, compression) in [
        (5, ChecksumType::Xxh3, CompressionType::None),
        (5, ChecksumType::Crc32c, CompressionType::Lz4),
        (6, ChecksumType::XxHash, CompressionType::Zstd),
        (2, ChecksumType::XxHash64, CompressionType::Snappy),
    ] {
        let good = small_table(version, checksum, compression);
        let want = learn(&good).unwrap();
        let mut noticed = 0;
        for i in 0..good.len() {
            for change in [0x01, 0x80, 0xFF] {
                let mut bad = good.clone();
                bad[i] ^= change;
                match learn(&bad) {
                    Ok(answer) => assert_eq!(answer, want, "fv{version}: byte {i} of {} changed", good.len()),
                    Err(e) => {
                        noticed += 1;
                        let expected = [ErrorKind::Corruption, ErrorKind::NotSupported];
                        assert!(expected.contains(&e.kind()), "fv{version}: byte {i}: {e}");
                        assert!(e.message().contains("/table.sst"), "the error names the file: {e}");
                    }
                }
            }
        }
        assert!(noticed > good.len() * 2, "{noticed} changes noticed in {} bytes", good.len());
    }
}

#[test]
fn without_checksums_damage_is_at_least_survived() {
    let good = small_table(5, ChecksumType::NoChecksum, CompressionType::None);
    for i in 0..good.len() {
        for change in [0x01, 0x7F, 0x80, 0xFF] {
            let mut bad = good.clone();
            bad[i] ^= change;
            if let Ok(reader) = open_bytes(&bad, with_filters()) {
                let mut iter = reader.iter(TableReadOptions::default());
                let mut steps = 0;
                iter.seek_to_first();
                while iter.valid() && steps < 10_000 {
                    steps += 1;
                    iter.next();
                }
                iter.seek_to_last();
                while iter.valid() && steps < 20_000 {
                    steps += 1;
                    iter.prev();
                }
                assert!(steps < 10_000, "byte {i}: a walk without end");
                let lookup = LookupKey::new(b"key00000010", SequenceNumber::MAX);
                let mut visits = 0;
                let got = reader.get(&TableReadOptions::default(), &lookup, &mut |_, v| {
                    visits += 1;
                    v.bytes().len() < 1000 && visits < 1000
                });
                assert!(got.is_ok() || got.unwrap_err().is_corruption());
                if let Err(e) = reader.verify(&mut |_| true) {
                    assert!(matches!(e.kind(), ErrorKind::Corruption | ErrorKind::NotSupported), "{e}");
                }
            }
        }
    }
}

/// Reads rely on the newest sequence number that the MANIFEST gives for a file. Some reads would
/// miss a newer entry, and others would show it.
#[test]
fn an_entry_newer_than_the_manifest_says_does_not_pass() {
    let table = BlockBasedTableOptions { block_size: 300, ..with_filters() };
    let point = |n: u64| {
        (internal_key(format!("k{n:03}").as_bytes(), SequenceNumber(n), ValueType::Value), vec![b'v'; 30])
    };
    let deletion = |n: u64| (internal_key(b"a", SequenceNumber(n), ValueType::RangeDeletion), b"b".to_vec());
    let external =
        |is_external_file| TableBuilderOptions { is_external_file, ..builder_options(table.clone()) };
    for (options, entries, newest) in [
        (external(false), (1..=60).map(point).collect(), 60),
        (external(false), (1..=60).map(point).chain([deletion(70)]).collect(), 70),
        (external(true), vec![(internal_key(b"k", SequenceNumber(3), ValueType::Value), b"v".to_vec())], 2),
    ] {
        let (bytes, _): (Vec<u8>, _) = write_table(options, entries).unwrap();
        let verified = |largest: Option<u64>| {
            let mut open =
                TableReaderOptions::new(InternalKeyComparator::default(), Arc::default(), bytes.len() as u64);
            open.largest_seqno = largest.map(SequenceNumber);
            TableReader::open(memory_file(&bytes), open).unwrap().verify(&mut |_| true)
        };
        verified(None).unwrap();
        // All entries of an ingested table have one sequence number, and 0 in the file.
        let is_ingested = newest == 2;
        assert_eq!(verified(Some(newest)).is_err(), is_ingested);
        let error = verified(Some(newest - 1)).unwrap_err();
        assert!(error.is_corruption() && error.message().contains("/table.sst"), "{error}");
    }
}

/// A table that passes the check can be read in every way. The check covers parts that a forward
/// scan does not use: restarts, and the paths to partitions.
#[test]
fn a_damaged_table_that_is_found_whole_is_read_in_every_way() {
    let layouts = [
        BlockBasedTableOptions { format_version: 5, ..with_filters() },
        BlockBasedTableOptions { format_version: 7, index_block_restart_interval: 3, ..with_filters() },
        BlockBasedTableOptions { format_version: 8, index_block_restart_interval: 3, ..with_filters() },
        BlockBasedTableOptions {
            index_type: IndexType::TwoLevel,
            metadata_block_size: 40,
            format_version: 8,
            ..with_filters()
        },
        BlockBasedTableOptions {
            index_type: IndexType::TwoLevel,
            metadata_block_size: 40,
            format_version: 3,
            index_block_restart_interval: 2,
            ..with_filters()
        },
    ];
    for layout in layouts {
        let table = BlockBasedTableOptions {
            block_size: 300,
            block_restart_interval: 4,
            checksum: ChecksumType::NoChecksum,
            ..layout
        };
        let mut options = builder_options(table);
        options.compression = CompressionType::None;
        let good = write_table(options, sample_entries(&mut Rng::new(11), 40, 20)).unwrap().0;
        let count = learn(&good).unwrap().0.len();
        let mut noticed = 0;
        for i in 0..good.len() {
            for change in [0x01, 0x06, 0x7F, 0x80, 0xFF] {
                let mut bad = good.clone();
                bad[i] ^= change;
                let Ok(reader) = open_bytes(&bad, with_filters()) else { continue };
                if reader.verify(&mut |_| true).is_err() {
                    noticed += 1;
                    continue;
                }
                let (forwards, backwards, _) = learn(&bad)
                    .unwrap_or_else(|e| panic!("byte {i} of {} changed by {change}: {e}", good.len()));
                assert_eq!(forwards, backwards, "byte {i} changed by {change}");
                assert_eq!(forwards.len(), count, "byte {i} changed by {change}");
            }
        }
        assert!(noticed > 1000, "{noticed} changes noticed in {} bytes", good.len());
    }
}

/// For each key of a batch, whether an entry was met, and the error with which it ended.
#[derive(Default)]
struct Batch {
    met: usize,
    errors: Vec<Error>,
}

impl BatchVisitor for Batch {
    fn entry(&mut self, _i: usize, _entry: ParsedInternalKey<'_>, _value: TableValue<'_>) -> bool {
        self.met += 1;
        false
    }
    fn failed(&mut self, _i: usize, error: Error) {
        self.errors.push(error);
    }
    fn missing(&mut self, i: usize, _missing: Missing) {
        panic!("key {i} is not waited for");
    }
}

#[test]
fn a_batch_survives_what_is_damaged_without_checksums() {
    let good = small_table(5, ChecksumType::NoChecksum, CompressionType::None);
    let mut keys: Vec<Vec<u8>> =
        scan(&open_bytes(&good, with_filters()).unwrap()).unwrap().into_iter().map(|e| e.0).collect();
    keys.dedup();
    let lookups: Vec<_> = keys.iter().map(|key| LookupKey::new(key, SequenceNumber::MAX)).collect();
    let which: Vec<_> = (0..lookups.len() as u32).map(|i| (i, None)).collect();
    let mut failed = 0;
    for i in 0..good.len() {
        // Numbers of several sizes, as handles have them.
        for bytes in [1, 3, 6, 9] {
            let mut bad = good.clone();
            bad[i..].iter_mut().take(bytes).for_each(|byte| *byte |= 0x80);
            let Ok(reader) = open_bytes(&bad, with_filters()) else { continue };
            let (options, mut found) = (TableReadOptions::default(), Batch::default());
            let mut unplanned = Vec::new();
            let plan = reader.plan(&options, &lookups, &which, &mut unplanned);
            let mut plans = [plan];
            read_plans(&mut plans, &options);
            plans.into_iter().for_each(|plan| plan.search(&options, &lookups, &mut found));
            found.errors.extend(unplanned.into_iter().map(|(_, e)| e));
            assert!(found.met + found.errors.len() <= keys.len(), "byte {i}");
            let expected = [ErrorKind::Corruption, ErrorKind::NotSupported];
            assert!(
                found.errors.iter().all(|e| expected.contains(&e.kind())),
                "byte {i}: {:?}",
                found.errors
            );
            failed += found.errors.len();
        }
    }
    assert!(failed > 0);
}

/// The entries that a scan showed, and the error that ended it.
type Walked = (Vec<(Vec<u8>, Vec<u8>)>, Option<String>);

fn start(reader: &Arc<TableReader>, forward: bool) -> TableIter {
    let mut iter = reader.iter(TableReadOptions::default());
    if forward {
        iter.seek_to_first()
    } else {
        iter.seek_to_last()
    }
    iter
}

fn by_steps(reader: &Arc<TableReader>, forward: bool) -> Walked {
    let (mut iter, mut shown) = (start(reader, forward), Vec::new());
    while iter.valid() && shown.len() < 1000 {
        shown.push((iter.key().to_vec(), iter.value().to_vec()));
        if forward { iter.next() } else { iter.prev() }
    }
    (shown, iter.status().err().map(|e| e.to_string()))
}

/// Scans by decoded runs, or by steps without runs.
fn by_runs(reader: &Arc<TableReader>, forward: bool) -> Walked {
    let (mut iter, mut shown, mut run) = (start(reader, forward), Vec::new(), DecodedRun::default());
    let ahead = DecodeAhead { forward, sequence: SequenceNumber::MAX, limit: None };
    if iter.valid() {
        iter.look_ahead(&mut run, &ahead);
    }
    while iter.valid() && shown.len() < 1000 {
        if run.is_empty() {
            shown.push((iter.key().to_vec(), iter.value().to_vec()));
            if forward {
                iter.next()
            } else {
                iter.prev()
            }
            if iter.valid() {
                iter.look_ahead(&mut run, &ahead);
            }
            continue;
        }
        loop {
            shown.push((run.internal_key(run.at()).to_vec(), run.value().to_vec()));
            if !(if forward { run.step_on() } else { run.step_back() }) {
                break;
            }
        }
        iter.pass(&mut run, &ahead);
    }
    (shown, iter.status().err().map(|e| e.to_string()))
}

#[test]
fn runs_of_a_damaged_table_show_what_steps_show() {
    for restarts in [1, 3, 16] {
        let table = BlockBasedTableOptions {
            block_size: 300,
            block_restart_interval: restarts,
            checksum: ChecksumType::NoChecksum,
            ..with_filters()
        };
        let mut options = builder_options(table);
        options.compression = CompressionType::None;
        let good = write_table(options, sample_entries(&mut Rng::new(12), 60, 20)).unwrap().0;
        let mut failed = 0;
        for i in (0..good.len()).step_by(11) {
            for change in [0x01, 0x7F, 0x80, 0xFF] {
                let mut bad = good.clone();
                bad[i] ^= change;
                // Each reader has a cache of its own, so that no block is found under another
                // handle.
                let open = || {
                    let cache = (i % 2 == 0).then(default_block_cache);
                    open_bytes(&bad, BlockBasedTableOptions { block_cache: cache, ..with_filters() })
                };
                if open().is_err() {
                    continue;
                }
                let walked = |walk: fn(&Arc<TableReader>, bool) -> Walked, forward| {
                    let reader = open().unwrap();
                    // The second time blocks are in the cache.
                    [walk(&reader, forward), walk(&reader, forward)]
                };
                let [on, on_again] = walked(by_steps, true);
                let [back, back_again] = walked(by_steps, false);
                failed += usize::from(on.1.is_some()) + usize::from(back.1.is_some());
                let found = walked(by_runs, true);
                assert!(found == [on.clone(), on_again], "restarts {restarts}, byte {i} ^ {change}, forward");
                // A cursor that decodes several intervals together uses few restarts. Like a
                // forward scan, it goes by the ends of entries, not by the restarts.
                for (found, back) in walked(by_runs, false).into_iter().zip([back, back_again]) {
                    let goes_farther = found.0.len() > back.0.len() && found.0.starts_with(&back.0);
                    let is_as_forward = found.1 == on.1;
                    assert!(
                        found == back || (back.1.is_some() && (goes_farther || is_as_forward)),
                        "restarts {restarts}, byte {i} ^ {change}, backward: {:?}, not {:?}",
                        found.1,
                        back.1
                    );
                }
            }
        }
        assert!(failed > 20, "{failed} walks failed");
    }
}

#[test]
fn a_cut_file_is_corruption() {
    let good = small_table(6, ChecksumType::Xxh3, CompressionType::None);
    for n in 0..good.len() {
        let e = open_bytes(&good[..n], with_filters()).map(|_| ()).unwrap_err();
        assert!(matches!(e.kind(), ErrorKind::Corruption | ErrorKind::NotSupported), "cut to {n}: {e}");
    }
}

#[test]
fn blocks_that_changed_places_do_not_pass() {
    // With context checksums a block is bound to its offset.
    let good = small_table(6, ChecksumType::Xxh3, CompressionType::None);
    let reader = open_bytes(&good, BlockBasedTableOptions::default()).unwrap();
    let mut handles = Vec::new();
    reader
        .for_each_data_block(&mut |b| {
            handles.push(b.handle);
            Ok(())
        })
        .unwrap();
    let (mut moved, from) = (good.clone(), handles[0].offset as usize);
    let length = handles[0].size as usize + 5;
    let to = handles.iter().skip(1).find(|h| h.size >= handles[0].size).unwrap().offset as usize;
    moved.copy_within(from..from + length, to);
    assert!(
        scan(&open_bytes(&moved, BlockBasedTableOptions::default()).unwrap()).unwrap_err().is_corruption()
    );
}

#[test]
fn a_mismatch_names_file_offset_and_both_checksums() {
    let mut bad = small_table(5, ChecksumType::Xxh3, CompressionType::None);
    bad[20] ^= 1;
    let reader = open_bytes(&bad, BlockBasedTableOptions::default()).unwrap();
    let e = scan(&reader).unwrap_err();
    let message = e.message();
    assert!(e.is_corruption());
    for part in ["/table.sst", "offset 0", "stored = ", "computed = "] {
        assert!(message.contains(part), "{message}");
    }
    let careless = TableReadOptions { verify_checksums: false, ..Default::default() };
    let mut iter = reader.iter(careless);
    iter.seek_to_first();
    assert!(iter.valid() || iter.status().is_err());
    assert!(reader.verify(&mut |_| true).unwrap_err().is_corruption());
}

#[test]
fn a_timed_value_without_its_time_does_not_pass() {
    for (value, passes) in [(&b"seventy"[..], false), (b"eighteen", true)] {
        let key = internal_key(b"a", SequenceNumber(1), ValueType::ValuePreferredSeqno);
        let options = builder_options(BlockBasedTableOptions::default());
        let (bytes, _) = write_table(options, [(key, value.to_vec())]).unwrap();
        let verified = open_bytes(&bytes, BlockBasedTableOptions::default()).unwrap().verify(&mut |_| true);
        assert_eq!(verified.as_ref().is_err_and(Error::is_corruption), !passes, "{verified:?}");
        assert_eq!(verified.is_ok(), passes);
    }
}
