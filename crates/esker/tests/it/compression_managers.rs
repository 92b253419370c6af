//! Codecs by user code: tables whose blocks a program compresses.

use esker::internals::env::mem::MemFs;
use esker::options::{
    BUILT_IN_COMPRESSION, CodecOptions, CompressionManager, CompressionManagerRef, CompressionType,
    CustomCompressor, CustomDecompressor, FilterBuildingContext, FilterPolicy, OptionStruct, TargetVersion,
    auto_skip_compression_manager, cost_aware_compression_manager,
};
use esker::{Db, Env, Error, ErrorKind, Options, Result, SstFileReader, SstFileWriter, repair_db};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The families, levels and codecs that a manager is asked about.
type Asked = Arc<Mutex<Vec<(String, Option<i32>, CompressionType)>>>;

/// Runs of equal bytes as (count, byte), behind the size of the contents. One byte of the contents
/// chooses the code: 0x8A, or 0xFE with every byte inverted.
#[derive(Clone, Default)]
struct Runs {
    compatibility_name: &'static str,
    /// A name whose tables this manager reads, too.
    also_reads: Option<&'static str>,
    /// The code of all blocks.
    code: Option<u8>,
    /// Whether contents are changed.
    is_faulty: bool,
    asked: Asked,
}

fn runs(compatibility_name: &'static str) -> Runs {
    Runs { compatibility_name, ..Runs::default() }
}

impl CompressionManager for Runs {
    fn name(&self) -> &str {
        "test.Runs"
    }
    fn compatibility_name(&self) -> &str {
        self.compatibility_name
    }
    fn find_compatible(&self, compatibility_name: &str) -> Option<CompressionManagerRef> {
        (self.also_reads == Some(compatibility_name)).then(|| Arc::new(self.clone()) as CompressionManagerRef)
    }
    fn compressor_for_sst(
        &self,
        context: &FilterBuildingContext<'_>,
        options: &CodecOptions,
        preferred: CompressionType,
    ) -> Result<Option<Box<dyn CustomCompressor>>> {
        assert_eq!(options.level, 3);
        let asked = (context.column_family_name.to_owned(), context.level, preferred);
        self.asked.lock().unwrap().push(asked);
        if preferred == CompressionType::Snappy {
            return Err(Error::invalid_argument("no Snappy here"));
        }
        Ok((preferred != CompressionType::None).then(|| Box::new(self.clone()) as Box<dyn CustomCompressor>))
    }
    fn decompressor(&self) -> Arc<dyn CustomDecompressor> {
        Arc::new(self.clone())
    }
}

impl CustomCompressor for Runs {
    fn id(&self) -> String {
        "runs".to_owned()
    }
    fn compress_block(&mut self, contents: &[u8], out: &mut Vec<u8>) -> Result<Option<u8>> {
        assert!(out.is_empty());
        let code =
            self.code.unwrap_or(if contents[contents.len() / 3].is_multiple_of(2) { 0x8A } else { 0xFE });
        let size = u32::try_from(contents.len()).unwrap();
        // A varint32 of five bytes at most.
        let mut rest = size;
        while rest >= 128 {
            out.push((rest & 127) as u8 | 128);
            rest >>= 7;
        }
        out.push(rest as u8);
        for run in contents.chunk_by(|a, b| a == b) {
            for part in run.chunks(255) {
                out.extend([part.len() as u8, if code == 0xFE { !part[0] } else { part[0] }]);
            }
        }
        if self.is_faulty {
            let last = out.len() - 1;
            out[last] ^= 1;
        }
        Ok(Some(code))
    }
}

impl CustomDecompressor for Runs {
    fn decompress_block(&self, code: u8, data: &[u8], out: &mut [u8]) -> Result<()> {
        let invert = match code {
            0x8A => 0,
            0xFE => 0xFF,
            _ => return Err(Error::corruption(format!("code {code:#04x}"))),
        };
        let mut filled = 0;
        for pair in data.chunks_exact(2) {
            let end = filled + usize::from(pair[0]);
            let part = out.get_mut(filled..end).ok_or_else(|| Error::corruption("too many bytes"))?;
            part.fill(pair[1] ^ invert);
            filled = end;
        }
        if filled == out.len() { Ok(()) } else { Err(Error::corruption("too few bytes")) }
    }
}

fn options(fs: &Arc<MemFs>, manager: Option<Runs>) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(fs.clone());
    options.db.compatible_with = TargetVersion::V11;
    options.cf.disable_auto_compactions = true;
    options.cf.table.format_version = 7;
    options.cf.table.block_size = 512;
    options.cf.table.filter_policy = Some(FilterPolicy::bloom(10.0));
    options.cf.compression = CompressionType::Zstd;
    options.cf.compression_opts.level = 3;
    // Without effect: user code has no dictionary.
    options.cf.compression_opts.max_dict_bytes = 4096;
    options.cf.compression_manager = manager.map(|manager| Arc::new(manager) as CompressionManagerRef);
    options
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Values of one byte, repeated, and some that do not shrink.
fn fill(db: &Db, seed: u64) -> Model {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut model = Model::new();
    for i in 0..300 {
        let (key, byte) = (format!("{i:04}").into_bytes(), rng.u8(..));
        let random = (100..140).contains(&i);
        let value: Vec<u8> =
            (0..rng.usize(50..300)).map(|_| if random { rng.u8(..) } else { byte }).collect();
        db.put(&key, &value).unwrap();
        model.insert(key, value);
    }
    db.flush().unwrap();
    model
}

fn check(db: &Db, model: &Model) {
    let mut iter = db.iter().unwrap();
    iter.seek_to_first();
    for (key, value) in model {
        assert_eq!(iter.item(), Some((&key[..], &value[..])));
        assert_eq!(db.get(key).unwrap().as_deref(), Some(&value[..]));
        iter.next();
    }
    assert!(!iter.valid());
    iter.status().unwrap();
}

fn properties(db: &Db) -> Vec<esker::TableProperties> {
    db.properties_of_all_tables(&db.default_column_family()).unwrap().into_values().collect()
}

#[test]
fn blocks_of_a_manager_of_the_program_are_written_and_read() {
    for (no_cache, verify) in [(false, true), (true, false)] {
        let (fs, manager) = (Arc::new(MemFs::new()), runs("TestRuns"));
        let mut options = options(&fs, Some(manager.clone()));
        options.cf.table.no_block_cache = no_cache;
        options.cf.table.verify_compression = verify;
        let db = Db::open(&options, "/db").unwrap();
        let model = fill(&db, 7);
        check(&db, &model);
        let tables = properties(&db);
        let [table] = &tables[..] else { panic!("one table") };
        assert_eq!(table.compression_name, "TestRuns;8AFE;");
        let described = "_compression_manager=test.Runs; _compressor=runs; ";
        assert!(table.compression_options.ends_with(described), "{}", table.compression_options);
        assert!(table.num_data_blocks_compression_rejected > 3);
        assert!(table.num_data_blocks > 2 * table.num_data_blocks_compression_rejected);
        assert!(table.data_size < table.raw_value_size / 2, "{} bytes", table.data_size);
        db.compact_range(None, None).unwrap();
        fill(&db, 7);
        db.compact_range(None, None).unwrap();
        check(&db, &model);
        let asked = std::mem::take(&mut *manager.asked.lock().unwrap());
        let of = |level| ("default".to_owned(), Some(level), CompressionType::Zstd);
        assert_eq!(asked, [of(0), of(0), of(6)], "the first compaction moves its table");
        db.close().unwrap();
        drop(db);

        // Without the manager the database opens, and its tables are refused.
        let without = self::options(&fs, None);
        let refused = |options: &Options| {
            let read = Db::open(options, "/db").and_then(|db| db.get("0001").map(drop));
            let error = read.expect_err("no manager");
            assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
            assert!(error.message().contains("TestRuns"), "{error}");
        };
        refused(&without);
        refused(&self::options(&fs, Some(runs("Other"))));
        // A manager that knows one that reads them.
        let finds = Runs { also_reads: Some("TestRuns"), ..runs("Other") };
        let db = Db::open(&self::options(&fs, Some(finds)), "/db").unwrap();
        check(&db, &model);
        db.close().unwrap();
    }
}

#[test]
fn tables_of_managers_over_the_built_in_codecs_need_no_manager() {
    let managers = [
        (auto_skip_compression_manager(None), CompressionType::Lz4, "04"),
        (cost_aware_compression_manager(), CompressionType::Lz4, "07"),
        (auto_skip_compression_manager(Some(Arc::new(runs("TestRuns")))), CompressionType::Zstd, "8AFE"),
    ];
    for (n, (manager, compression, codes)) in managers.into_iter().enumerate() {
        let fs = Arc::new(MemFs::new());
        let mut options = options(&fs, None);
        options.cf.compression = compression;
        options.cf.table.verify_compression = true;
        let plain = options.clone();
        options.cf.compression_manager = Some(manager);
        let db = Db::open(&options, "/db").unwrap();
        let model = fill(&db, 7);
        check(&db, &model);
        let tables = properties(&db);
        let codes_used = tables[0].compression_name.split(';').nth(1).unwrap();
        assert_eq!(codes_used, codes);
        db.close().unwrap();
        drop(db);
        let read = Db::open(&plain, "/db").and_then(|db| db.get("0001").map(|_| check(&db, &model)));
        assert_eq!(read.is_ok(), n < 2, "the third has codes of its own");
    }
}

#[test]
fn a_manager_may_leave_tables_uncompressed_and_may_fail_them() {
    let fs = Arc::new(MemFs::new());
    let write = |options: &Options| {
        let mut writer = SstFileWriter::new(options);
        writer.open("/table")?;
        (0..20).try_for_each(|i| writer.put(format!("{i:02}"), vec![b'v'; 100]))?;
        writer.finish()?;
        let reader = SstFileReader::open(options, "/table")?;
        reader.verify_checksum()?;
        Ok::<_, Error>(reader.table_properties().clone())
    };
    let mut plain = options(&fs, Some(runs("TestRuns")));
    plain.cf.compression = CompressionType::None;
    let properties = write(&plain).unwrap();
    assert_eq!(properties.compression_name, ";;", "readers need no manager");
    assert_eq!(properties.num_data_blocks_compression_bypassed, properties.num_data_blocks);
    write(&options(&fs, None)).unwrap();

    let mut fails = options(&fs, Some(runs("TestRuns")));
    fails.cf.compression = CompressionType::Snappy;
    assert!(write(&fails).unwrap_err().message().contains("no Snappy here"));
    let faulty = |manager: Runs, verify: bool| {
        let mut options = options(&fs, Some(manager));
        options.cf.table.verify_compression = verify;
        write(&options).unwrap_err()
    };
    let error = faulty(Runs { is_faulty: true, ..runs("TestRuns") }, true);
    assert!(error.message().contains("does not decompress to what was compressed"), "{error}");
    // 0x7F is no built-in codec, and 0x8A means nothing to readers of built-in codecs.
    let error = faulty(Runs { code: Some(0x7F), ..runs("TestRuns") }, false);
    assert!(error.message().contains("0x7f"), "{error}");
    let error = faulty(Runs { code: Some(0x8A), ..runs(BUILT_IN_COMPRESSION) }, false);
    assert!(error.message().contains("0x8a"), "{error}");
}

#[test]
fn a_damaged_block_of_a_manager_is_corrupt() {
    let fs = Arc::new(MemFs::new());
    let mut options = options(&fs, Some(Runs { is_faulty: true, ..runs("TestRuns") }));
    options.cf.compression_opts.max_dict_bytes = 0;
    options.cf.table.enable_index_compression = false;
    let mut writer = SstFileWriter::new(&options);
    writer.open("/table").unwrap();
    (0..50).for_each(|i| writer.put(format!("{i:02}"), vec![b'v'; 100]).unwrap());
    writer.finish().unwrap();
    let reader = SstFileReader::open(&options, "/table").unwrap();
    let mut iter = reader.iter(&esker::ReadOptions::default()).unwrap();
    iter.seek_to_first();
    while iter.valid() {
        iter.next();
    }
    assert_eq!(iter.status().unwrap_err().kind(), ErrorKind::Corruption);
}

#[test]
fn a_manager_of_its_own_codes_needs_a_table_format_that_names_it() {
    let fs = Arc::new(MemFs::new());
    let mut options = options(&fs, Some(runs("TestRuns")));
    options.cf.table.format_version = 6;
    let error = Db::open(&options, "/db").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(error.message().contains("compression_manager"), "{error}");
    options.cf.compression_manager = None;
    options.cf.set_text("compression_manager", "BuiltinV2").unwrap();
    assert!(options.cf.compression_manager.is_none());
    let error = options.cf.set_text("compression_manager", "NoSuchManager").unwrap_err();
    assert!(error.message().contains("NoSuchManager"), "{error}");
    Db::open(&options, "/db").unwrap();
}

#[test]
fn a_repair_without_the_manager_stops_and_with_it_keeps_the_tables() {
    let fs = Arc::new(MemFs::new());
    let options = options(&fs, Some(runs("TestRuns")));
    let db = Db::open(&options, "/db").unwrap();
    let model = fill(&db, 3);
    db.close().unwrap();
    drop(db);
    let error = repair_db(&self::options(&fs, None), "/db", &[]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(error.message().contains("TestRuns"), "{error}");
    let summary = repair_db(&options, "/db", &[]).unwrap();
    assert_eq!((summary.tables_kept.len(), summary.tables_lost.len()), (1, 0));
    check(&Db::open(&options, "/db").unwrap(), &model);
}

#[test]
fn names_that_tables_cannot_store_and_aligned_blocks_are_refused_at_open() {
    for name in ["", "My;Codec", "Mein Codec"] {
        let fs = Arc::new(MemFs::new());
        let error = Db::open(&options(&fs, Some(runs(name))), "/db").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.message().contains("compatibility_name"), "{error}");
    }
    let fs = Arc::new(MemFs::new());
    let mut options = options(&fs, Some(runs("TestRuns")));
    options.cf.compression = CompressionType::None;
    options.cf.table.block_align = true;
    assert!(Db::open(&options, "/db").unwrap_err().message().contains("block_align"));
}
