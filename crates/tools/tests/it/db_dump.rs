//! `rocksdb_dump` and `rocksdb_undump`: a database as one file.

use crate::run::{esker, ldb, sample};
use esker_testkit::TempDir;

#[test]
fn a_database_goes_through_a_file_of_rocksdbs_form() {
    let temp = TempDir::new("db-dump");
    let db = sample(&temp);
    let (dump, copy) = (temp.join("dump"), temp.join("copy"));
    let at = |flag: &str, path: &std::path::Path| format!("--{flag}={}", path.display());
    let (location, from) = (at("dump_location", &dump), at("db_path", &db));
    esker(&["rocksdb_dump", &from, &location, "--anonymous"]).ok();
    let anonymous = std::fs::read(&dump).unwrap();
    // The head, and the first entry of the sample.
    let head = b"ROCKDUMP\0\0\0\0\0\0\0\x01\x02\0\0\0{}\x02\0\0\0a1\x03\0\0\0one";
    assert!(anonymous.starts_with(head), "{}", anonymous.escape_ascii());

    esker(&["rocksdb_dump", &from, &location]).ok();
    let named = std::fs::read(&dump).unwrap();
    let text = named.escape_ascii().to_string();
    let path = std::fs::canonicalize(&db).unwrap();
    assert!(text.contains(&format!("{{ \\\"database-path\\\": \\\"{}\\\", ", path.display())), "{text}");
    assert!(text.contains("\\\"creation-time\\\": 1"), "{text}");
    assert!(named.ends_with(&anonymous[22..]), "the entries are the same");

    let to = at("db_path", &copy);
    esker(&["rocksdb_undump", &location, &to, "--compact", "--db_options=write_buffer_size=1m"]).ok();
    assert_eq!(ldb(&copy, &["scan"]).ok(), ldb(&db, &["scan"]).ok());
    // A second dump of the copy is the same, byte for byte.
    esker(&["rocksdb_dump", &to, &location, "--anonymous"]).ok();
    assert_eq!(std::fs::read(&dump).unwrap(), anonymous);

    // Entries before the damage stay; the end of an entry is the only end of a dump.
    for end in [anonymous.len() - 1, anonymous.len() - 3, 22 + 3, 22 + 5, 22 + 4 + 2 + 2, 20] {
        std::fs::write(&dump, &anonymous[..end]).unwrap();
        let refused = esker(&["rocksdb_undump", &location, &to]).failed();
        assert!(refused.contains("insufficient data"), "{end}: {refused}");
    }
    std::fs::write(&dump, &anonymous[..22]).unwrap();
    esker(&["rocksdb_undump", &location, &to]).ok();
    for (bytes, why) in
        [(&b"ROCKDUMB"[..], "is not a recognizable"), (b"ROCKDUMP\0\0\0\0\0\0\0\x02", "version")]
    {
        std::fs::write(&dump, bytes).unwrap();
        assert!(esker(&["rocksdb_undump", &location, &to]).failed().contains(why));
    }
    assert!(
        esker(&["rocksdb_dump", &at("db_path", &temp.join("none")), &location])
            .failed()
            .contains("Unable to open")
    );
    let wrong = esker(&["rocksdb_dump", &from, &location, "--db_options=no_such_option=1"]).failed();
    assert!(wrong.contains("Cannot parse provided db_options"), "{wrong}");
}
