//! Ingestions of files about which the caller gives the facts: no file is opened to learn them.

use super::{contents, options};
use esker::builtin;
use esker::comparator::ReverseBytewiseComparator;
use esker::observe::Temperature;
use esker::options::FileChecksumGenCrc32cFactory;
use esker::{
    Db, ErrorKind, ExternalSstFileInfo, IngestExternalFileArg, IngestExternalFileOptions, Options,
    ReadOptions, SstFileReader, SstFileWriter,
};
use std::sync::Arc;

/// Writes a file with a point, a deletion and a range deletion that ends behind both.
fn written(options: &Options, path: &str) -> ExternalSstFileInfo {
    let mut writer = SstFileWriter::new(options);
    writer.open(path).unwrap();
    writer.put("b", "new").unwrap();
    writer.delete("c").unwrap();
    writer.delete_range("d", "f").unwrap();
    writer.finish().unwrap()
}

/// Replaces the file by one of the same size that is no table.
fn damage(options: &Options, path: &str) {
    let fs = &options.db.env.fs;
    let size = fs.file_size(path.as_ref()).unwrap();
    fs.delete_file(path.as_ref()).unwrap();
    let mut file = fs.new_writable_file(path.as_ref()).unwrap();
    file.append(&vec![7; usize::try_from(size).unwrap()]).unwrap();
    file.close().unwrap();
}

#[test]
fn the_facts_of_the_writer_spare_a_look_into_the_file() {
    let options = options();
    let db = Db::open(&options, "/db").unwrap();
    for key in ["a", "b", "c", "d", "e", "f"] {
        db.put(key, "old").unwrap();
    }
    let info = written(&options, "/file");
    let family = db.default_column_family();
    let arg = || IngestExternalFileArg {
        file_infos: info.prepared_file_info.iter().cloned().collect(),
        ..IngestExternalFileArg::new(&family, vec!["/file".into()])
    };
    db.ingest_external_files(&IngestExternalFileOptions::default(), &[arg()]).unwrap();
    let expected = [("a", "old"), ("b", "new"), ("f", "old")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    assert_eq!(contents(&db, &ReadOptions::default(), "default"), expected.into());

    // Only the call without facts, or with checks of blocks, opens the file.
    damage(&options, "/file");
    let plain = IngestExternalFileOptions::default();
    db.prepare_file_ingestion(&plain, &[arg()]).unwrap().abort().unwrap();
    let opened = IngestExternalFileArg::new(&family, vec!["/file".into()]);
    let refused = db.prepare_file_ingestion(&plain, &[opened]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corruption);
    let checked = IngestExternalFileOptions::default().verify_checksums_before_ingest(true);
    assert_eq!(db.prepare_file_ingestion(&checked, &[arg()]).unwrap_err().kind(), ErrorKind::Corruption);

    let mut two = arg();
    two.external_files.push("/other".into());
    let refused = db.ingest_external_files(&plain, &[two]).unwrap_err();
    assert!(refused.to_string().contains("file_infos[0] size must match"), "{refused}");
}

#[test]
fn the_facts_of_a_live_table_let_another_database_have_it() {
    let options = options();
    let (from, to) = (Db::open(&options, "/from").unwrap(), Db::open(&options, "/to").unwrap());
    (0..100).try_for_each(|i| from.put(format!("key{i:03}"), format!("{i}"))).unwrap();
    from.delete_range("key050", "key060").unwrap();
    from.flush().unwrap();
    let file = from.live_files()[0].file.clone();
    let path = file.directory.join(file.relative_filename.trim_start_matches('/'));
    let info = from.prepared_file_info(&path).unwrap();
    assert_eq!(from.prepared_file_info("/from/000099.sst").unwrap_err().kind(), ErrorKind::NotFound);
    let family = to.default_column_family();
    let mut arg = IngestExternalFileArg::new(&family, vec![path]);
    arg.file_infos = vec![info];
    let refused = to.ingest_external_files(&IngestExternalFileOptions::default(), &[arg.clone()]);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    let own = IngestExternalFileOptions::default().allow_db_generated_files(true);
    to.ingest_external_files(&own, &[arg]).unwrap();
    let all = ReadOptions::default();
    assert_eq!(contents(&to, &all, "default"), contents(&from, &all, "default"));
    let ingested = &to.live_files()[0].file;
    assert_eq!((ingested.smallest_seqno, ingested.largest_seqno), (file.smallest_seqno, file.largest_seqno));
    assert_eq!((&ingested.smallest, &ingested.largest), (&file.smallest, &file.largest));
}

#[test]
fn a_linked_file_keeps_its_temperature_and_a_copy_gets_one() {
    let mut options = options();
    options.cf.default_write_temperature = Temperature::Hot;
    options.cf.disable_auto_compactions = true;
    let db = Db::open(&options, "/db").unwrap();
    let family = db.default_column_family();
    for (path, link_files) in [("/copied", false), ("/linked", true)] {
        written(&options, path);
        let mut arg = IngestExternalFileArg::new(&family, vec![path.into()]);
        arg.file_temperature = Temperature::Cold;
        let how = IngestExternalFileOptions::default().link_files(link_files);
        db.ingest_external_files(&how, &[arg]).unwrap();
    }
    let mut files = db.live_files();
    files.sort_by_key(|file| file.file.file_number);
    let temperatures: Vec<_> = files.iter().map(|file| file.file.temperature).collect();
    assert_eq!(temperatures, [Temperature::Hot, Temperature::Cold]);
}

#[test]
fn a_writer_gives_the_checksum_that_the_database_would_make() {
    let mut options = options();
    assert_eq!(written(&options, "/plain").file_checksum_func_name, "Unknown");
    options.db.file_checksum_gen_factory = Some(Arc::new(FileChecksumGenCrc32cFactory));
    let info = written(&options, "/file");
    let db = Db::open(&options, "/db").unwrap();
    db.ingest_external_file(&["/file"]).unwrap();
    let made = db.live_files()[0].file.file_checksum.clone();
    assert_eq!(made, Some((info.file_checksum, info.file_checksum_func_name)));
}

#[test]
fn the_properties_say_whether_a_writer_made_the_table() {
    let options = options();
    let db = Db::open(&options, "/db").unwrap();
    db.put("a", "1").unwrap();
    db.flush().unwrap();
    written(&options, "/file");
    let file = &db.live_files()[0].file;
    let own = file.directory.join(file.relative_filename.trim_start_matches('/'));
    let is_written = |path: &std::path::Path| {
        let reader = SstFileReader::open(&options, path).unwrap();
        SstFileWriter::created_by_sst_file_writer(reader.table_properties())
    };
    assert!(is_written("/file".as_ref()) && !is_written(&own));
}

#[test]
fn a_file_that_the_family_cannot_read_is_refused_by_its_facts() {
    let other_order = || {
        let mut options = options();
        options.cf.comparator = Arc::new(ReverseBytewiseComparator);
        options
    };
    let other_operator = || {
        let mut options = options();
        options.cf.merge_operator = Some(builtin::uint64_add());
        options
    };
    for (case, of_writer) in [("comparator", other_order()), ("merge operator", other_operator())] {
        let mut of_db = options();
        of_db.cf.merge_operator = Some(builtin::string_append(","));
        let db = Db::open(&of_db, "/db").unwrap();
        let mut of_writer = of_writer;
        of_writer.db.env = of_db.db.env.clone();
        let mut writer = SstFileWriter::new(&of_writer);
        writer.open("/file").unwrap();
        if case == "comparator" { writer.put("a", "1") } else { writer.merge("a", 1u64.to_le_bytes()) }
            .unwrap();
        let info = writer.finish().unwrap();
        let family = db.default_column_family();
        let arg = IngestExternalFileArg {
            file_infos: info.prepared_file_info.iter().cloned().collect(),
            ..IngestExternalFileArg::new(&family, vec!["/file".into()])
        };
        let refused = db.ingest_external_files(&IngestExternalFileOptions::default(), &[arg]).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{case}: {refused}");
        assert!(db.get("a").unwrap().is_none(), "{case}");
        drop(family);
        db.close().unwrap();
        drop(db);
        Db::open(&of_db, "/db").unwrap();
    }
}
