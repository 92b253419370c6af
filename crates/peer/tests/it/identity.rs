//! The database's id stays the same whoever opens the directory.

use esker::{Db, Options};
use esker_peer::{FamilySpec, RocksDb, Tools, require};
use esker_testkit::{TempDir, seed};

#[test]
fn a_database_has_one_id_with_every_opener() {
    let Some(()) = require("RocksDB", RocksDb::available()) else { return };
    let Some(tools) = require("ldb", Tools::find()) else { return };
    seed::for_each_seed("identity", 8, |_, mut rng| {
        let dir = TempDir::new("identity");
        let mut id = None;
        for step in 0..8 {
            // At least one place keeps it.
            let (manifest, file) = *rng.choice([&(true, true), &(true, false), &(false, true)]).unwrap();
            let found = match rng.u8(..3) {
                0 => {
                    let mut options = Options::new().create_if_missing(true);
                    (options.db.write_dbid_to_manifest, options.db.write_identity_file) = (manifest, file);
                    Db::open(&options, dir.path()).unwrap().db_identity().to_owned()
                }
                1 => {
                    let text = format!(
                        "create_if_missing=true;write_dbid_to_manifest={manifest};write_identity_file={file}"
                    );
                    RocksDb::open(
                        dir.path(),
                        &text,
                        &[FamilySpec::new("default", "block_based_table_factory={format_version=5}")],
                    )
                    .unwrap()
                    .identity()
                }
                // 7.8 keeps it in the file, whatever the MANIFEST said.
                _ if step == 0 => continue,
                _ => {
                    let Some(known) = &id else { continue };
                    tools.ldb(dir.path(), ["--ignore_unknown_options", "put", "k", "v"]).unwrap();
                    let in_file = std::fs::read_to_string(dir.path().join("IDENTITY")).unwrap();
                    assert_eq!(in_file.trim_end(), known, "the id after RocksDB 7.8");
                    continue;
                }
            };
            assert_eq!(*id.get_or_insert_with(|| found.clone()), found, "step {step}");
            assert_eq!(dir.path().join("IDENTITY").exists(), file, "step {step}");
        }
    });
}
