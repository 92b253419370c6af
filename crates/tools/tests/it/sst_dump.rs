//! Tests `esker sst_dump` without RocksDB's tool.

use crate::run::{copy, esker, files, flip, golden, sample};
use esker_testkit::TempDir;

#[test]
fn a_table_is_shown() {
    let temp = TempDir::new("sst-dump");
    let db = sample(&temp);
    let all = esker(&["sst_dump", &format!("--file={}", db.display()), "--command=scan"]).ok();
    assert!(all.contains("'a1' seq:") && all.contains("type:1 => one\n"), "{all}");
    let table = files(&db, ".sst").remove(0);
    let file = format!("--file={}", table.display());
    let checked = esker(&["sst_dump", &file, "--show_properties"]).ok();
    assert!(checked.contains("\nfrom [] to []\n") && checked.contains("\n  # entries: "), "{checked}");
    assert!(esker(&["sst_dump", &file, "--command=verify"]).ok().ends_with("The file is ok\n"));
    assert!(esker(&["sst_dump", &file, "--command=identify"]).ok().ends_with(" is a valid SST file\n"));
    let dumped = esker(&["sst_dump", &file, "--command=raw"]).ok();
    let text = files(&db, "_dump.txt").remove(0);
    assert!(dumped.ends_with(&format!("raw dump written to file {}\n", text.display())));
    assert!(std::fs::read_to_string(text).unwrap().starts_with("Footer Details:\n"));
}

#[test]
fn damage_and_foreign_files_are_reported() {
    let temp = TempDir::new("sst-dump-damage");
    let db = sample(&temp);
    let table = files(&db, ".sst").remove(0);
    flip(&table, 5);
    let file = format!("--file={}", table.display());
    for command in ["check", "scan", "verify"] {
        let dump_text = esker(&["sst_dump", &file, &format!("--command={command}")]).failed();
        assert!(dump_text.contains("checksum mismatch") && dump_text.contains("offset 0"), "{dump_text}");
    }
    let current = format!("--file={}", db.join("CURRENT").display());
    assert!(esker(&["sst_dump", &current]).failed().contains("CURRENT is not a valid SST file"));
    assert!(esker(&["sst_dump", "--file=/nowhere"]).failed().contains("/nowhere"));
}

#[test]
fn the_first_of_several_damaged_files_is_reported() {
    let temp = TempDir::new("sst-dump-damages");
    let db = sample(&temp);
    let tables = files(&db, ".sst");
    assert!(tables.len() > 1);
    tables.iter().for_each(|table| flip(table, 5));
    let dump_text = esker(&["sst_dump", &format!("--file={}", db.display())]).failed();
    assert!(dump_text.contains(tables[0].to_str().unwrap()), "{dump_text}");
}

#[test]
fn raw_dumps_hold_range_deletions_dictionaries_and_first_keys() {
    let temp = TempDir::new("sst-dump-raw");
    let dump = |name: &str, table: &str| {
        let db = temp.join(name);
        copy(&golden(name), &db);
        esker(&["sst_dump", &format!("--file={}/{table}.sst", db.display()), "--command=raw"]).ok();
        std::fs::read(db.join(format!("{table}_dump.txt")))
            .unwrap()
            .escape_ascii()
            .to_string()
            .replace("\\n", "\n")
    };
    let raw_of = |name: &str, flags: &[&str]| {
        let db = temp.join("typed");
        copy(&golden(name), &db);
        let table = files(&db, ".sst").pop().unwrap();
        let file = format!("--file={}", table.display());
        esker(&[&["sst_dump", &file, "--command=raw"], flags].concat()).ok();
        let text = std::fs::read(files(&db, "_dump.txt").remove(0)).unwrap();
        std::fs::remove_dir_all(db).unwrap();
        text.escape_ascii().to_string().replace("\\n", "\n")
    };
    let flag = ["--show_sequence_number_type"];
    let (plain, typed) = (raw_of("v7_8_range_del", &[]), raw_of("v7_8_range_del", &flag));
    assert!(!plain.contains("  seq: ") && typed.contains("  type: 1 : "), "{typed}");
    let deletions = raw_of("v7_8_range_del_only_sst", &flag);
    assert!(deletions.contains("  type: 15 : "), "a range deletion: {deletions}");
    let without: Vec<String> = typed
        .lines()
        .map(|line| match (line.split_once("  seq: "), line.split_once(" : ")) {
            (Some((key, _)), Some((_, value))) => format!("{key}: {value}"),
            _ => line.to_owned(),
        })
        .collect();
    assert_eq!(without, plain.lines().collect::<Vec<_>>());
    let deletions = dump("v7_8_range_del_only_sst", "000011");
    let expected = "\nRange deletions:\n--------------------------------------\n  HEX    6B6579303030303130: \
                    6B6579303030303230\n  ASCII  k e y 0 0 0 0 1 0 : k e y 0 0 0 0 2 0 \n  ------\n";
    assert!(deletions.contains(expected) && !deletions.contains("Data Block Summary"), "{deletions}");
    let dictionary = dump("v7_8_dict_zstd_trained", "000010");
    assert!(
        dictionary.contains("\nCompression Dictionary:\n")
            && dictionary.contains("  size (bytes): 4096\n\n  HEX    37A430EC")
    );
    let index = dump("v7_8_index_first_key", "000009");
    assert!(
        index.contains("  HEX    6B6579303030303137: 00C402116B65793030303030300101000000000000\n"),
        "{index}"
    );
}

#[test]
fn scans_begin_and_end_at_keys_without_timestamps() {
    let file = format!("--file={}", golden("v7_8_udt_u64").join("000009.sst").display());
    let scan = |from: &str, to: &str| {
        let scanned = esker(&["sst_dump", &file, "--command=scan", from, to]).ok();
        let mut keys: Vec<String> =
            scanned.lines().filter(|l| l.starts_with("'key")).map(|l| l[1..10].to_owned()).collect();
        keys.dedup();
        keys
    };
    assert_eq!(scan("--from=key000011", "--to=key000013"), ["key000011", "key000012"]);
    assert_eq!(scan("--from=key000038", "--to=key5"), ["key000038", "key000039"]);
}

#[test]
fn properties_of_external_tables_are_shown() {
    let file = format!("--file={}", golden("v7_8_ingest").join("000010.sst").display());
    let shown = esker(&["sst_dump", &file, "--command=none", "--show_properties"]).ok();
    assert!(shown.contains("  # rocksdb.external_sst_file.version: 0x02000000\n"), "{shown}");
}

#[test]
fn tables_of_11_12_tell_their_level_at_creation() {
    let table = files(&golden("v11_12_fv8"), ".sst").remove(0);
    let shown = esker(&["sst_dump", &format!("--file={}", table.display()), "--show_properties"]).ok();
    assert!(
        shown.contains("\n  level at creation: ") && shown.contains("\n  bottommost at creation: "),
        "{shown}"
    );
}

#[test]
fn flags_of_a_recompression_are_checked() {
    let temp = TempDir::new("sst-dump-recompress");
    let table = files(&sample(&temp), ".sst").remove(0);
    let file = format!("--file={}", table.display());
    let run = |more: &[&str]| esker(&[&["sst_dump", &file], more].concat());
    let levels = ["--compression_level_from=1", "--compression_level_to=3"];
    let all =
        ["--command=recompress", "--compression_types=kZSTD", "--set_block_size=1000", levels[0], levels[1]];
    let dump_text = run(&all).ok();
    assert_eq!(
        dump_text.lines().filter(|line| line.starts_with("Compression level: ")).count(),
        3,
        "{dump_text}"
    );
    assert!(dump_text.contains("\nBlock Size: 1000\nCompression: kZSTD"), "{dump_text}");
    for (flags, named) in [
        (&["--command=recompress", "--compression_types=kBest"][..], "kBest"),
        (&["--command=recompress", levels[0], levels[1]], "--compression_types"),
        (&["--command=recompress", "--set_block_size=0"], "--set_block_size"),
        (&["--compression_types=kZSTD"], "--compression_types"),
    ] {
        let dump_text = run(flags).failed();
        assert!(dump_text.contains(named), "{dump_text}");
    }
    assert_eq!(run(&["--command=recompress", levels[0]]).code, Some(2));
    // The flags of 11.8. Index blocks of blocks of few bytes take most of the file.
    let size = |more: &[&str]| {
        let flags = ["--command=recompress", "--compression_types=kZSTD", "--block_size=1"];
        let text = run(&[&flags[..], more].concat()).ok();
        let line = text.lines().find(|line| line.starts_with("Compression level: ")).unwrap().to_owned();
        line.split_whitespace().nth(4).unwrap().parse::<u64>().unwrap()
    };
    let compressed = size(&["--compression_parallel_threads=4", "--verify_compression=true"]);
    assert_eq!(compressed, size(&["--compression_use_zstd_finalize_dict", "--enable_index_compression=1"]));
    assert!(compressed <= size(&["--enable_index_compression=false"]));
    assert!(run(&all[..3]).ok().contains("Compression level: 32767"));
    let one = [&all[..3], &["--compression_level=2"]].concat();
    assert!(run(&one).ok().contains("Compression level: 2 "), "one level");
    for flag in ["--compression_parallel_threads=101", "--verify_compression=maybe", "--compression_level=x"]
    {
        assert_eq!(run(&["--command=recompress", flag]).code, Some(2), "{flag}");
    }
    assert!(run(&["--verify_compression=1"]).failed().contains("--command=recompress"));
}

#[test]
fn blocks_of_the_meta_index_are_listed() {
    let table = files(&golden("v7_8_range_del_only_sst"), ".sst").pop().unwrap();
    let flag = table.to_str().unwrap();
    let listed = esker(&["sst_dump", flag, "--list_meta_blocks"]).ok();
    let (_, blocks) = listed.split_once("Meta Blocks:\n------------------------------\n").expect(&listed);
    let blocks: Vec<Vec<&str>> = blocks.lines().map(|line| line.split_whitespace().collect()).collect();
    let named = |name: &str| blocks.iter().find(|block| block[0] == name).expect(name);
    let size = std::fs::metadata(&table).unwrap().len();
    for name in ["rocksdb.properties:", "rocksdb.range_del:"] {
        let [offset, bytes]: [u64; 2] = [1, 2].map(|at| named(name)[at].parse().unwrap());
        assert!(bytes > 0 && offset + bytes < size, "{name} {offset} {bytes} of {size}");
    }
    // RocksDB 11 lists them with these commands only.
    for command in ["raw", "verify", "recompress"] {
        let temp = TempDir::new("sst-dump-listed");
        std::fs::copy(&table, temp.join("1.sst")).unwrap();
        let file = temp.join("1.sst").to_str().unwrap().to_owned();
        let command = format!("--command={command}");
        assert!(!esker(&["sst_dump", &file, "--list_meta_blocks", &command]).ok().contains("Meta Blocks"));
    }
}

#[test]
fn tables_are_chosen_by_their_properties() {
    let temp = TempDir::new("sst-dump-chosen");
    let db = sample(&temp);
    let dir = db.to_str().unwrap();
    let run = |flags: &[&str]| esker(&[&["sst_dump", "--command=identify", dir], flags].concat());
    let valid = |done: &str| -> usize {
        let (_, count) = done.split_once("Number of valid SST files: ").unwrap_or(("", "0"));
        count.trim().parse().unwrap()
    };
    let all = valid(&run(&[]).ok());
    let of_cf1 = run(&["--require_property_regex=column family name: cf[0-9]|column family ID: 7"]);
    assert!(of_cf1.err.contains(".sst: skipping because properties string doesn't match required regex\n"));
    let others = run(&["--exclude_property_regex", "family name: cf1"]);
    assert!(others.err.contains(".sst: skipping because properties string matches excluded regex\n"));
    let counts = (valid(&of_cf1.ok()), valid(&others.ok()));
    assert!(counts.0 > 0 && counts.1 > 0 && counts.0 + counts.1 == all, "{counts:?} of {all}");
    assert!(run(&["--require_property_regex=("]).failed().contains("--require_property_regex: "));
}

#[test]
fn several_files_are_named_with_and_without_the_flag() {
    let temp = TempDir::new("sst-dump-several");
    let db = sample(&temp);
    let tables = files(&db, ".sst");
    let (first, second) = (tables[0].to_str().unwrap(), tables[1].to_str().unwrap());
    let both = esker(&["sst_dump", "--file", first, second, "--command=identify"]).ok();
    let end = format!("List of valid SST files:\n{first}\n{second}\nNumber of valid SST files: 2\n");
    assert!(both.ends_with(&end), "{both}");
    assert_eq!(esker(&["sst_dump"]).code, Some(2));
}

#[test]
fn an_internal_key_is_shown_in_words() {
    let show = |key: &str| esker(&["sst_dump", &format!("--parse_internal_key={key}")]);
    // The user key "a1", sequence number 5, a value.
    assert_eq!(show("0x61310105000000000000").ok(), "key='6131' seq:5, type:1\n");
    assert_eq!(show("0x0105000000000000").ok(), "key='' seq:5, type:1\n");
    for wrong in ["6131", "0x6131", "0x61", "0x61310505000000000000"] {
        assert_ne!(show(wrong).failed(), "", "{wrong}");
    }
}
