use super::*;
use proptest::prelude::*;

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

#[test]
fn made_names_are_parsed() {
    let dir = Path::new("/db");
    type Make = fn(&Path, FileNumber) -> PathBuf;
    let makers: [(Make, FileType, &str); 9] = [
        (wal_file_name, FileType::Wal, "/db/000123.log"),
        (archived_wal_file_name, FileType::Wal, "/db/archive/000123.log"),
        (table_file_name, FileType::Table, "/db/000123.sst"),
        (leveldb_table_file_name, FileType::Table, "/db/000123.ldb"),
        (blob_file_name, FileType::Blob, "/db/000123.blob"),
        (temp_file_name, FileType::Temp, "/db/000123.dbtmp"),
        (descriptor_file_name, FileType::Descriptor, "/db/MANIFEST-000123"),
        (options_file_name, FileType::Options, "/db/OPTIONS-000123"),
        (temp_options_file_name, FileType::Temp, "/db/OPTIONS-000123.dbtmp"),
    ];
    for (make, file_type, expected) in makers {
        assert_eq!(make(dir, FileNumber(123)), Path::new(expected));
        for number in [0, 999_999, 1_000_000, u64::MAX] {
            let path = make(dir, FileNumber(number));
            assert_eq!(
                parse_file_name(name(&path)),
                Some((file_type, FileNumber(number))),
                "{}",
                path.display()
            );
        }
    }
    for (path, file_type) in [
        (current_file_name(dir), FileType::Current),
        (lock_file_name(dir), FileType::DbLock),
        (identity_file_name(dir), FileType::Identity),
        (info_log_file_name(dir), FileType::InfoLog),
    ] {
        assert_eq!(parse_file_name(name(&path)), Some((file_type, FileNumber(0))));
    }
    let old_log = old_info_log_file_name(dir, 1_700_000_000_000_000);
    assert_eq!(parse_file_name(name(&old_log)), Some((FileType::InfoLog, FileNumber(1_700_000_000_000_000))));
}

#[test]
fn logs_elsewhere_are_called_as_their_database() {
    for (path, expected) in [
        ("/data/db", "data_db_LOG"),
        ("/data/my-db_1.x/", "data_my-db_1.x__LOG"),
        ("/a b/\u{e9}", "a_b____LOG"),
        ("db", "db_LOG"),
    ] {
        assert_eq!(info_log_name_elsewhere(Path::new(path)), expected);
    }
    let long = info_log_name_elsewhere(Path::new(&format!("/{}/db", "a".repeat(400))));
    assert!(long.ends_with("a_db_LOG") && long.len() + ".old.1700000000000000".len() <= 255);
}

#[test]
fn other_names_are_none() {
    for name in [
        "",
        ".",
        "..",
        ".log",
        "log",
        "1",
        "000001",
        "000001.",
        "000001.txt",
        "000001.log.bak",
        "x000001.log",
        "+00001.log",
        "-1.sst",
        " 1.sst",
        "1 .sst",
        "MANIFEST",
        "MANIFEST-",
        "MANIFEST-x",
        "MANIFEST-1.dbtmp",
        "OPTIONS-",
        "OPTIONS-1.tmp",
        "LOG.old.",
        "LOG.old.x",
        "CURRENT.bak",
        "current",
        "18446744073709551616.log",
        "archive",
        "METADB-",
    ] {
        // A number is required: RocksDB takes no empty one.
        assert_eq!(parse_file_name(name), None, "{name}");
    }
}

#[test]
fn current_names_a_manifest_and_ends_with_a_newline() {
    assert_eq!(current_contents(FileNumber(7)), "MANIFEST-000007\n");
    assert_eq!(parse_current(b"MANIFEST-000007\n").unwrap(), FileNumber(7));
    for bad in [
        &b""[..],
        b"\n",
        b"MANIFEST-000007",
        b"MANIFEST-\n",
        b"000007.log\n",
        b"../MANIFEST-000007\n",
        b"\xFF\n",
        b"MANIFEST-000007\n\n",
    ] {
        assert!(parse_current(bad).unwrap_err().is_corruption(), "{}", bad.escape_ascii());
    }
}

proptest! {
    #[test]
    fn current_round_trips(number: u64) {
        prop_assert_eq!(parse_current(current_contents(FileNumber(number)).as_bytes()).unwrap(), FileNumber(number));
    }

    #[test]
    fn arbitrary_names_are_no_problem(name in ".{0,40}") {
        parse_file_name(&name);
    }
}

#[test]
fn a_path_id_names_a_directory_and_one_beyond_the_list_the_last_one() {
    let paths = FilePaths::new(["/a".into(), "/b".into()], Path::new("/db"));
    assert_eq!(paths.table(0, FileNumber(7)), Path::new("/a/000007.sst"));
    for path_id in [1, 2, 3, u32::MAX] {
        assert_eq!(paths.table(path_id, FileNumber(7)), Path::new("/b/000007.sst"));
        assert_eq!(paths.listed(path_id), 1);
    }
    assert_eq!(paths.blob(FileNumber(7)), Path::new("/a/000007.blob"));
    assert_eq!((paths.id_of(Path::new("/b")), paths.id_of(Path::new("/db"))), (Some(1), None));
    let alone = FilePaths::new([], Path::new("/db"));
    assert_eq!(alone.table(1, FileNumber(7)), Path::new("/db/000007.sst"));
}
