//! Range deletions over each other, under snapshots: RocksDB 7.8.3 and 11.8.1 read the tables that
//! flushes and compactions write of them.

use crate::peer_process::{check_all, check_open_esker, open_esker, small_files};
use esker::WriteOptions;
use esker::options::{CompactRangeOptions, CompressionType};
use esker_peer::ModelOps;
use esker_peer::model_ops::{PeerOp, write_to_esker};
use esker_testkit::TempDir;

const KEYS: u32 = 400;

fn key(i: u32) -> Vec<u8> {
    format!("key{i:06}").into_bytes()
}

/// The range of deletion `i` of `n`.
type Shape = fn(u32, u32) -> (u32, u32);

const SHAPES: [(&str, Shape); 4] = [
    ("the log up to here", |i, _| (0, i + 1)),
    ("nested", |i, n| (i, 2 * n - i)),
    ("a staircase", |i, n| (i, i + n / 4)),
    ("without any order", |i, n| (i * 7919 % n, n + i * 104_729 % n)),
];

#[test]
fn overlapping_range_deletions_under_snapshots_are_read_by_all() {
    for (name, shape) in SHAPES {
        let dir = TempDir::new("range-deletions");
        let options = small_files(CompressionType::Lz4);
        let mut model = ModelOps::new(&[]);
        let db = open_esker(dir.path(), &model, &options).expect("opens");
        let families: Vec<String> = model.families.iter().map(|family| family.name.clone()).collect();
        let write = |model: &mut ModelOps, ops: Vec<PeerOp>| {
            ops.iter().for_each(|op| model.apply(op));
            write_to_esker(&db, &ops, &WriteOptions::default()).expect("written");
        };
        let mut snapshots = Vec::new();
        for family in &families {
            let put = |i| PeerOp::Put { family: family.clone(), key: key(i), value: vec![b'v'; 40] };
            write(&mut model, (0..KEYS).map(put).collect());
        }
        for i in 0..KEYS / 2 {
            let (begin, end) = shape(i, KEYS / 2);
            for family in &families {
                let (begin, end) = (key(begin), key(end));
                let delete = PeerOp::DeleteRange { family: family.clone(), begin, end };
                let put = PeerOp::Put { family: family.clone(), key: key(i / 2), value: vec![b'w'; 10] };
                write(&mut model, if i % 7 == 0 { vec![delete, put] } else { vec![delete] });
            }
            if i % 20 == 3 {
                snapshots.push(db.snapshot());
            }
        }
        for compacted in [false, true] {
            let what = format!("{name}, compacted: {compacted}");
            for family in &families {
                let handle = db.column_family(family).expect("open");
                db.flush_opt(&Default::default(), &[&handle]).expect("flushed");
                if compacted {
                    db.compact_range_opt(&CompactRangeOptions::default(), &handle, None, None)
                        .expect("compacts");
                }
            }
            check_open_esker(&db, &model, &what);
            let copy = TempDir::new("range-deletions-copy");
            db.create_checkpoint(copy.path().join("copy"), 0).expect("copied");
            check_all(&copy.path().join("copy"), &model, &options, &what);
        }
    }
}
