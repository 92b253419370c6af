//! Traces: each engine replays those of the other, and both record the same queries.

use esker::trace::{
    BlockAccess, BlockCacheTraceOptions, IoOp, Query, TraceFrame, TraceOptions, new_file_trace_reader,
    new_file_trace_writer, parse_binary_header, parse_query_header,
};
use esker::{ColumnFamilyHandle, Db, Env, Options, ReadOptions, ReplayOptions, Replayer, WriteBatch};
use esker_peer::{FamilySpec, PeerOp, RocksDb, TraceOf, WriteFlags, require};
use esker_testkit::TempDir;
use std::path::Path;

fn is_there() -> bool {
    require("librocksdb 11.8", RocksDb::available()).is_some()
}

fn families() -> [FamilySpec; 2] {
    ["default", "other"].map(|name| FamilySpec::new(name, ""))
}

fn rocksdb(path: &Path) -> RocksDb {
    let options = "create_if_missing=true;create_missing_column_families=true";
    RocksDb::open(path, options, &families()).expect("opens")
}

fn esker(path: &Path) -> (Db, ColumnFamilyHandle) {
    let options = Options::new().create_if_missing(true);
    let db = Db::open(&options, path).expect("opens");
    let family = db.create_column_family("other", &options.cf).expect("made");
    (db, family)
}

/// The queries of a trace, without times; writes without sequence numbers.
fn queries(path: &Path) -> Vec<String> {
    let mut reader = new_file_trace_reader(&Env::default(), path).expect("opens");
    let header = reader.read().expect("whole").expect("a header");
    let version = parse_query_header(&TraceFrame::decode(&header).expect("whole")).expect("a version");
    let mut all = Vec::new();
    while let Some(record) = reader.read().expect("whole") {
        let frame = TraceFrame::decode(&record).expect("whole");
        all.push(match Query::decode(frame.kind, frame.payload, version).expect("whole") {
            Some(Query::Write(batch)) => format!("write {}", batch[8..].escape_ascii()),
            Some(query) => format!("{query:?}"),
            None => format!("kind {}", frame.kind),
        });
    }
    all
}

#[test]
fn rocksdb_replays_what_esker_has_traced() {
    if !is_there() {
        return;
    }
    let dir = TempDir::new("traces-ours");
    let (db, family) = esker(&dir.join("db"));
    let path = dir.join("trace");
    let writer = new_file_trace_writer(&Env::default(), &path).expect("made");
    db.start_trace(&TraceOptions::default(), writer).expect("begins");
    for i in 0..300 {
        let mut batch = WriteBatch::new();
        batch.put_cf(&family, format!("{i:03}"), format!("value {i}")).expect("fits");
        batch.put("last", i.to_string()).expect("fits");
        db.write(&mut batch).expect("written");
        db.get(format!("{i}")).expect("read");
    }
    let keys: Vec<_> = (0..20).map(|i| format!("{i:03}")).collect();
    db.multi_get_opt(&ReadOptions::default(), &family, &keys)
        .into_iter()
        .for_each(|value| drop(value.expect("read")));
    let bounded = ReadOptions::new().lower_bound("010").upper_bound("020");
    let mut iter = db.iter_opt(bounded, &family).expect("there");
    iter.seek("000");
    iter.seek_for_prev("999");
    let mut range = WriteBatch::new();
    range.delete_range_cf(&family, "100", "200").expect("fits");
    db.write(range).expect("written");
    db.end_trace().expect("ends");
    for threads in [1, 3] {
        let peer = rocksdb(&dir.join(format!("rocksdb{threads}")));
        peer.replay(&path, threads).expect("replays");
        for i in 0..300 {
            let key = format!("{i:03}");
            let of_peer = peer.get("other", key.as_bytes(), None).expect("read");
            // Several threads may delete the range before they write into it.
            if threads == 1 || !(100..200).contains(&i) {
                assert_eq!(of_peer, db.get_cf(&family, &key).expect("read"), "{key}, {threads} threads");
            }
        }
    }
}

/// The operations that both engines run.
fn ops() -> Vec<PeerOp> {
    let (family, of_default) = (|| "other".to_owned(), || "default".to_owned());
    (0..100)
        .map(|i| match i % 5 {
            0 => PeerOp::Delete { family: family(), key: format!("{i}").into_bytes() },
            1 => PeerOp::Put { family: of_default(), key: format!("{i}").into_bytes(), value: vec![b'v'; i] },
            _ => PeerOp::Put {
                family: family(),
                key: format!("{}", i / 2).into_bytes(),
                value: vec![b'v'; i * 9],
            },
        })
        .collect()
}

#[test]
fn esker_replays_what_rocksdb_has_traced_and_records_the_same() {
    if !is_there() {
        return;
    }
    let dir = TempDir::new("traces-theirs");
    let (theirs, ours) = (dir.join("theirs"), dir.join("ours"));
    let peer = rocksdb(&dir.join("rocksdb"));
    peer.start_trace(TraceOf::Queries, &theirs).expect("begins");
    for op in ops() {
        peer.write(std::slice::from_ref(&op), WriteFlags::default()).expect("written");
        peer.get(op.family(), b"7", None).expect("read");
    }
    peer.end_trace(TraceOf::Queries).expect("ends");
    let (db, family) = esker(&dir.join("esker"));
    db.start_trace(&TraceOptions::default(), new_file_trace_writer(&Env::default(), &ours).expect("made"))
        .expect("begins");
    let reader = new_file_trace_reader(&Env::default(), &theirs).expect("opens");
    let mut replayer = Replayer::new(&db, std::slice::from_ref(&family), reader);
    replayer.prepare().expect("a header");
    let options = ReplayOptions { fast_forward: 1e6, ..ReplayOptions::default() };
    replayer.replay(&options, |result| assert!(result.answer.is_ok(), "{result:?}")).expect("replays");
    db.end_trace().expect("ends");
    let recorded = queries(&theirs);
    assert_eq!(recorded.len(), 201);
    assert_eq!(queries(&ours), recorded);
    for i in 0..100 {
        let key = format!("{i}");
        assert_eq!(
            db.get_cf(&family, &key).expect("read"),
            peer.get("other", key.as_bytes(), None).expect("read")
        );
    }
}

/// The records of a trace of accesses or I/O, behind its header.
fn binary(path: &Path) -> Vec<Vec<u8>> {
    let mut reader = new_file_trace_reader(&Env::default(), path).expect("opens");
    let header = reader.read().expect("whole").expect("a header");
    let release = parse_binary_header(&TraceFrame::decode(&header).expect("whole")).expect("a header");
    assert_eq!(release, (11, 8));
    std::iter::from_fn(|| reader.read().expect("whole")).collect()
}

/// A dump of one engine's cache is of use to the other, because blocks have the same keys.
#[test]
fn blocks_of_a_table_have_the_same_cache_keys_in_both_engines() {
    if !is_there() {
        return;
    }
    let dir = TempDir::new("traces-cache-keys");
    let (path, theirs, ours) = (dir.join("db"), dir.join("theirs"), dir.join("ours"));
    let keys = || (0..40).map(|i| format!("{:03}", i * 20));
    let peer = rocksdb(&path);
    for i in 0..800 {
        let (key, value) = (format!("{i:03}").into_bytes(), vec![b'v'; 200]);
        peer.write(&[PeerOp::Put { family: "other".to_owned(), key, value }], WriteFlags::default())
            .expect("written");
    }
    peer.flush("other").expect("flushed");
    peer.start_trace(TraceOf::BlockCache, &theirs).expect("begins");
    keys().for_each(|key| assert!(peer.get("other", key.as_bytes(), None).expect("read").is_some()));
    peer.end_trace(TraceOf::BlockCache).expect("ends");
    drop(peer);
    let db = Db::open_cf(&Options::new().db, &path, ["default", "other"]).expect("opens");
    let family = db.column_family("other").expect("there");
    let writer = new_file_trace_writer(&Env::default(), &ours).expect("made");
    db.start_block_cache_trace(&BlockCacheTraceOptions::default(), writer).expect("begins");
    keys().for_each(|key| assert!(db.get_cf(&family, key).expect("read").is_some()));
    db.end_block_cache_trace().expect("ends");
    let blocks = |path: &Path| -> Vec<Vec<u8>> {
        let access = |record: Vec<u8>| {
            let frame = TraceFrame::decode(&record).expect("whole");
            let access = BlockAccess::decode(&frame).expect("whole");
            (access.block_type == 9).then(|| access.block_key.to_vec())
        };
        binary(path).into_iter().filter_map(access).collect()
    };
    let (theirs, ours) = (blocks(&theirs), blocks(&ours));
    assert_eq!(ours, theirs);
    let different = ours.iter().collect::<std::collections::BTreeSet<_>>();
    assert!(ours.len() == 40 && different.len() > 20, "{} blocks", different.len());
}

#[test]
fn both_record_the_same_accesses_to_blocks_and_kinds_of_io() {
    if !is_there() {
        return;
    }
    let dir = TempDir::new("traces-both");
    let (theirs, ours) = (dir.join("theirs"), dir.join("ours"));
    let peer = rocksdb(&dir.join("rocksdb"));
    let (db, family) = esker(&dir.join("esker"));
    for i in 0..50 {
        let (key, value) = (format!("{i:02}").into_bytes(), vec![b'v'; 20]);
        db.put_cf(&family, &key, &value).expect("written");
        let op = PeerOp::Put { family: "other".to_owned(), key, value };
        peer.write(&[op], WriteFlags::default()).expect("written");
    }
    peer.flush("other").expect("flushed");
    db.flush_opt(&esker::FlushOptions::default(), &[&family]).expect("flushed");
    peer.start_trace(TraceOf::BlockCache, &theirs).expect("begins");
    let writer = new_file_trace_writer(&Env::default(), &ours).expect("made");
    db.start_block_cache_trace(&BlockCacheTraceOptions::default(), writer).expect("begins");
    for key in ["07", "07", "077"] {
        peer.get("other", key.as_bytes(), None).expect("read");
        db.get_cf(&family, key).expect("read");
    }
    peer.end_trace(TraceOf::BlockCache).expect("ends");
    db.end_block_cache_trace().expect("ends");
    let facts = |path: &Path| -> Vec<_> {
        let records = binary(path);
        let access = |record: &Vec<u8>| {
            let access = BlockAccess::decode(&TraceFrame::decode(record).expect("whole")).expect("whole");
            let get = access.get.expect("a get's");
            let key = get.referenced_key[..get.referenced_key.len() - 8].to_vec();
            let place =
                (access.block_type, access.cf_id, access.cf_name.to_vec(), access.level, access.caller);
            (place, access.is_cache_hit, key, get.referenced_key_exists, get.from_user_specified_snapshot)
        };
        records.iter().map(access).filter(|access| access.0.0 == 9).collect()
    };
    assert_eq!(facts(&ours), facts(&theirs));

    peer.start_trace(TraceOf::Io, &theirs).expect("begins");
    db.start_io_trace(&TraceOptions::default(), new_file_trace_writer(&Env::default(), &ours).expect("made"))
        .expect("begins");
    let op = PeerOp::Put { family: "other".to_owned(), key: b"a".to_vec(), value: b"1".to_vec() };
    peer.write(&[op], WriteFlags::default()).expect("written");
    db.put_cf(&family, "a", "1").expect("written");
    peer.flush("other").expect("flushed");
    db.flush_opt(&esker::FlushOptions::default(), &[&family]).expect("flushed");
    peer.end_trace(TraceOf::Io).expect("ends");
    db.end_io_trace().expect("ends");
    let kinds = |path: &Path| -> Vec<String> {
        let records = binary(path);
        let ops = records
            .iter()
            .map(|record| IoOp::decode(&TraceFrame::decode(record).expect("whole")).expect("whole"));
        ops.map(|op| {
            let kind = op.file_name.rsplit(|b| *b == b'.').next().unwrap_or_default();
            format!(
                "{} {} {}",
                op.file_operation.escape_ascii(),
                kind.escape_ascii(),
                op.io_status.escape_ascii()
            )
        })
        .collect()
    };
    let (theirs, ours) = (kinds(&theirs), kinds(&ours));
    for kind in ["Append log OK", "Append sst OK", "Close sst OK"] {
        assert!(ours.iter().any(|op| op == kind), "{kind} is not in {ours:?}");
        assert!(theirs.iter().any(|op| op == kind), "{kind} is not in {theirs:?}");
    }
}
