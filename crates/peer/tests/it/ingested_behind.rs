//! Files behind all data: both engines show the same, and take over each other's databases.

use crate::peer_process::{open_esker, small_files};
use esker::options::{CompactionStyle, CompressionType};
use esker::{Db, IngestExternalFileOptions, ReadOptions};
use esker_peer::contents::Contents;
use esker_peer::model_ops::{FamilyMerge, FamilyOrder, Kinds, write_to_esker};
use esker_peer::{ModelOps, PeerOp, RocksDb, WriteFlags, require, write_sst_file};
use esker_testkit::{TempDir, seed};
use std::path::{Path, PathBuf};

const CREATE: &str = "create_if_missing=true;create_missing_column_families=true";
const UNIVERSAL: &str = "write_buffer_size=65536;compaction_style=kCompactionStyleUniversal;num_levels=4;\
                         target_file_size_base=32768;cf_allow_ingest_behind=true;\
                         block_based_table_factory={format_version=5};";
const FAMILIES: [&str; 2] = ["default", "other"];

/// Both databases, with the same operations.
struct Pair {
    ours: Db,
    theirs: RocksDb,
    model: ModelOps,
}

impl Pair {
    fn open(ours: &Path, theirs: &Path, model: ModelOps, options: &esker::ColumnFamilyOptions) -> Pair {
        let theirs = RocksDb::open(theirs, CREATE, &model.specs(UNIVERSAL)).expect("opens");
        Pair { ours: open_esker(ours, &model, options).expect("opens"), theirs, model }
    }

    fn write(&mut self, rng: &mut fastrand::Rng) {
        let mut ops = self.model.random_ops(rng, 20, Kinds::ALL);
        // When a value and its single deletion have met, a value from behind may show. RocksDB's
        // compactions drop range tombstones, and values from behind show where these were.
        ops.retain(|op| !matches!(op, PeerOp::SingleDelete { .. } | PeerOp::DeleteRange { .. }));
        write_to_esker(&self.ours, &ops, &Default::default()).expect("written");
        self.theirs.write(&ops, WriteFlags::default()).expect("written");
    }

    fn flush_and_compact(&self, compacts: bool) {
        for name in FAMILIES {
            let family = self.ours.column_family(name).expect("there");
            self.ours.flush_opt(&Default::default(), &[&family]).expect("flushes");
            self.theirs.flush(name).expect("flushes");
            if compacts {
                self.ours.compact_range_opt(&Default::default(), &family, None, None).expect("compacts");
                self.theirs.compact(name);
            }
        }
    }

    /// Ingests a file of values for present and absent keys. Both engines take it, or both refuse.
    fn ingest(&mut self, rng: &mut fastrand::Rng, path: PathBuf) -> bool {
        let name = FAMILIES[rng.usize(..2)];
        let ops = self.model.clone().random_ops(rng, 40, Kinds::PLAIN);
        let mut keys: Vec<Vec<u8>> =
            ops.iter().filter(|op| op.family() == name).map(|op| op.key().to_vec()).collect();
        keys.push(format!("new{:04}", rng.u32(..10_000)).into_bytes());
        keys.sort();
        keys.dedup();
        if name == "other" {
            keys.reverse();
        }
        let put = |key: Vec<u8>| PeerOp::Put { family: name.to_owned(), key, value: b"behind".to_vec() };
        let ops: Vec<PeerOp> = keys.into_iter().map(put).collect();
        let spec = self.model.specs("").into_iter().find(|spec| spec.name == name).expect("there");
        write_sst_file(&path, &spec.options, &ops).expect("written");
        let family = self.ours.column_family(name).expect("there");
        let behind = IngestExternalFileOptions::default().ingest_behind(true);
        let by_us = self.ours.ingest_external_file_opt(&behind, &family, &[&path]);
        let by_them = self.theirs.ingest_behind(name, &[path]);
        assert_eq!(by_us.is_ok(), by_them.is_ok(), "{by_us:?}, {by_them:?}");
        by_us.is_ok()
    }

    fn check(&self, when: &str) {
        for name in FAMILIES {
            let ours = contents(&self.ours, name);
            ours.assert_same(&self.theirs.contents(name, None).expect("reads"), &format!("{when}: '{name}'"));
        }
    }
}

fn contents(db: &Db, name: &str) -> Contents {
    let family = db.column_family(name).expect("there");
    Contents::of(db, &family, &ReadOptions::default()).expect("reads")
}

#[test]
fn both_engines_show_the_same_of_files_behind_all_data() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    let mut taken = 0;
    seed::for_each_seed("ingested behind", 4, |round, mut rng| {
        let dir = TempDir::new("ingested-behind");
        let [ours, theirs] = ["ours", "theirs"].map(|name| dir.path().join(name));
        let mut options = small_files(CompressionType::Lz4);
        options.compaction_style = CompactionStyle::Universal;
        options.num_levels = 4;
        options.cf_allow_ingest_behind = true;
        let model = ModelOps::new(&[("other", FamilyOrder::Reverse, FamilyMerge::StringAppend)]);
        let mut pair = Pair::open(&ours, &theirs, model, &options);
        for step in 0..40 {
            pair.write(&mut rng);
            if rng.u8(..4) == 0 {
                pair.flush_and_compact(rng.bool());
            }
            if step % 10 == 9 {
                taken += usize::from(pair.ingest(&mut rng, dir.path().join(format!("{step}.sst"))));
                pair.check(&format!("round {round}, step {step}"));
            }
        }
        pair.flush_and_compact(true);
        pair.check(&format!("round {round}, compacted"));
        // Each engine takes over the other's database, and compacts it without the option.
        let Pair { ours: left, theirs: right, model } = pair;
        let expected = FAMILIES.map(|name| contents(&left, name));
        left.close().expect("closes");
        drop(right);
        let mut pair = Pair::open(&theirs, &ours, model, &options);
        pair.check(&format!("round {round}, changed over"));
        pair.write(&mut rng);
        pair.flush_and_compact(true);
        pair.check(&format!("round {round}, changed over and written"));
        assert!(expected.iter().any(|contents| !contents.0.is_empty()));
    });
    assert!(taken > 4, "only {taken} files were taken");
}
