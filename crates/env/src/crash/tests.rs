use super::*;
use esker_base::sync::atomic::{AtomicBool, Ordering};
use std::collections::BTreeSet;

fn p(name: &str) -> PathBuf {
    Path::new("/").join(name)
}

fn file(fs: &CrashFs, name: &str) -> Box<dyn WritableFile> {
    fs.new_writable_file(&p(name)).unwrap()
}

/// A file with these bytes, flushed, not synced.
fn write(fs: &CrashFs, name: &str, data: &[u8]) {
    let mut f = file(fs, name);
    f.append(data).unwrap();
    f.close().unwrap();
}

fn sync_file(fs: &CrashFs, name: &str) {
    fs.reopen_writable_file(&p(name)).unwrap().sync().unwrap();
}

fn sync_dir(fs: &CrashFs, name: &str) {
    fs.new_directory(&p(name)).unwrap().fsync().unwrap();
}

fn read(fs: &CrashFs, name: &str) -> Option<Vec<u8>> {
    let mut f = fs.new_sequential_file(&p(name)).ok()?;
    let mut all = vec![0; fs.file_size(&p(name)).unwrap() as usize + 1];
    let n = f.read(&mut all).unwrap();
    all.truncate(n);
    Some(all)
}

fn names(fs: &CrashFs, dir: &str) -> Vec<String> {
    fs.children(&p(dir)).unwrap()
}

/// All files in "/" and in the directories below it, with their bytes.
fn everything(fs: &CrashFs) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for name in names(fs, "") {
        match read(fs, &name) {
            Some(bytes) => all.push((name, bytes)),
            None => all.extend(names(fs, &name).into_iter().map(|child| {
                let path = format!("{name}/{child}");
                let bytes = read(fs, &path).unwrap();
                (path, bytes)
            })),
        }
    }
    all
}

fn journaled(keep_names: Keep) -> CrashChoices {
    CrashChoices { names: NameDurability::Journaled, keep_names, ..CrashChoices::lose_unsynced() }
}

fn strict(keep_names: Keep, seed: u64) -> CrashChoices {
    CrashChoices { keep_names, seed, ..CrashChoices::lose_unsynced() }
}

#[test]
fn power_loss_keeps_what_was_synced_and_loses_the_rest() {
    let fs = CrashFs::new();
    let mut f = file(&fs, "f");
    f.append(b"safe").unwrap();
    f.sync().unwrap();
    sync_dir(&fs, "");
    f.append(b"flushed").unwrap();
    f.flush().unwrap();
    f.append(b"collected").unwrap();
    assert_eq!(read(&fs, "f").unwrap(), b"safeflushed", "unflushed bytes are not read");
    let crash = |choices| read(&fs.crash_clone(&choices), "f").unwrap();
    assert_eq!(crash(CrashChoices::lose_unsynced()), b"safe");
    assert_eq!(crash(CrashChoices::keep_flushed()), b"safeflushed");
    assert_eq!(crash(CrashChoices::process_kill()), b"safeflushed");
    f.range_sync(0, 100).unwrap();
    assert_eq!(crash(CrashChoices::lose_unsynced()), b"safe", "range_sync promises nothing");
}

#[test]
fn a_synced_file_has_a_name_by_the_rule_chosen() {
    let fs = CrashFs::new();
    write(&fs, "e", b"");
    write(&fs, "f", b"x");
    sync_file(&fs, "f");
    assert_eq!(names(&fs.crash_clone(&CrashChoices::lose_unsynced()), ""), [""; 0]);
    assert_eq!(
        names(&fs.crash_clone(&journaled(Keep::Nothing)), ""),
        ["e", "f"],
        "all earlier names are durable, too"
    );
    assert_eq!(names(&fs.crash_clone(&CrashChoices::process_kill()), ""), ["e", "f"]);
    fs.delete_file(&p("e")).unwrap();
    sync_dir(&fs, "");
    // The sync of a directory covers no later name. The sync of an unchanged file covers nothing.
    write(&fs, "g", b"x");
    sync_file(&fs, "f");
    assert_eq!(names(&fs.crash_clone(&journaled(Keep::Nothing)), ""), ["f"]);
    sync_dir(&fs, "");
    let after = fs.crash_clone(&CrashChoices::lose_unsynced());
    assert_eq!(names(&after, ""), ["f", "g"]);
    assert_eq!((read(&after, "f").unwrap(), read(&after, "g").unwrap()), (b"x".to_vec(), vec![]));
}

#[test]
fn current_is_old_or_new_but_never_gone() {
    let fs = CrashFs::new();
    write(&fs, "CURRENT", b"old");
    sync_file(&fs, "CURRENT");
    sync_dir(&fs, "");
    write(&fs, "tmp", b"new");
    sync_file(&fs, "tmp");
    fs.rename(&p("tmp"), &p("CURRENT")).unwrap();
    let mut seen = BTreeSet::new();
    for seed in 0..50 {
        for names in [NameDurability::Strict, NameDurability::Journaled] {
            let choices = CrashChoices { names, ..strict(Keep::Some, seed) };
            seen.insert(read(&fs.crash_clone(&choices), "CURRENT").unwrap());
        }
    }
    assert_eq!(seen, BTreeSet::from([b"old".to_vec(), b"new".to_vec()]));
    sync_dir(&fs, "");
    let after = fs.crash_clone(&CrashChoices::lose_unsynced());
    assert_eq!(everything(&after), [("CURRENT".to_owned(), b"new".to_vec())]);
}

#[test]
fn deleted_files_come_back_with_their_bytes() {
    let fs = CrashFs::new();
    write(&fs, "f", b"x");
    sync_file(&fs, "f");
    sync_dir(&fs, "");
    fs.delete_file(&p("f")).unwrap();
    assert_eq!(read(&fs.crash_clone(&CrashChoices::lose_unsynced()), "f").unwrap(), b"x");
    sync_dir(&fs, "");
    assert_eq!(read(&fs.crash_clone(&CrashChoices::lose_unsynced()), "f"), None);
}

#[test]
fn names_survive_as_a_prefix_of_what_was_done() {
    let fs = CrashFs::new();
    for name in ["a", "b", "c"] {
        write(&fs, name, b"");
    }
    fs.delete_file(&p("a")).unwrap();
    let possible: Vec<Vec<&str>> =
        vec![vec![], vec!["a"], vec!["a", "b"], vec!["a", "b", "c"], vec!["b", "c"]];
    let mut seen = BTreeSet::new();
    for seed in 0..100 {
        seen.insert(names(&fs.crash_clone(&strict(Keep::Some, seed)), ""));
    }
    assert_eq!(seen, possible.iter().map(|p| p.iter().map(|n| (*n).to_owned()).collect()).collect());
}

#[test]
fn strict_directories_lose_names_independently_and_journals_in_one_order() {
    let fs = CrashFs::new();
    fs.create_dir_if_missing(&p("d")).unwrap();
    fs.create_dir_if_missing(&p("e")).unwrap();
    write(&fs, "d/1", b"");
    write(&fs, "e/2", b"");
    let mut seen = [BTreeSet::new(), BTreeSet::new()];
    for seed in 0..100 {
        for (i, names) in [NameDurability::Strict, NameDurability::Journaled].into_iter().enumerate() {
            let after = fs.crash_clone(&CrashChoices { names, ..strict(Keep::Some, seed) });
            seen[i]
                .insert(everything(&after).into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(" "));
        }
    }
    assert_eq!(seen[0], ["", "d/1", "d/1 e/2", "e/2"].map(str::to_owned).into());
    assert_eq!(seen[1], ["", "d/1", "d/1 e/2"].map(str::to_owned).into());
    // Without a journal, a sync of one directory leaves the names of another directory unsafe.
    sync_dir(&fs, "e");
    assert_eq!(names(&fs.crash_clone(&CrashChoices::lose_unsynced()), "d"), [""; 0]);
    assert_eq!(names(&fs.crash_clone(&CrashChoices::lose_unsynced()), "e"), ["2"]);
    assert_eq!(names(&fs.crash_clone(&journaled(Keep::Nothing)), "d"), ["1"]);
}

#[test]
fn a_file_moved_between_directories_is_in_one_of_them() {
    let fs = CrashFs::new();
    fs.create_dir_if_missing(&p("archive")).unwrap();
    write(&fs, "3.log", b"x");
    sync_file(&fs, "3.log");
    sync_dir(&fs, "");
    fs.rename(&p("3.log"), &p("archive/3.log")).unwrap();
    let mut seen = BTreeSet::new();
    for seed in 0..50 {
        let after = everything(&fs.crash_clone(&strict(Keep::Some, seed)));
        assert_eq!(after.len(), 1, "{after:?}");
        seen.insert(after[0].0.clone());
    }
    assert_eq!(seen, ["3.log".to_owned(), "archive/3.log".to_owned()].into());
    // The creation of a new file and its move keep their order, whichever directory is synced.
    for dir in ["", "archive"] {
        write(&fs, "4.log", b"");
        fs.rename(&p("4.log"), &p("archive/4.log")).unwrap();
        sync_dir(&fs, dir);
        let after = fs.crash_clone(&CrashChoices::lose_unsynced());
        assert_eq!(names(&after, ""), ["archive"], "synced {dir:?}");
        assert_eq!(names(&after, "archive"), ["3.log", "4.log"]);
        fs.delete_file(&p("archive/4.log")).unwrap();
    }
}

#[test]
fn directories_are_safe_at_once_but_their_renames_are_not() {
    let fs = CrashFs::new();
    fs.create_dir_if_missing(&p("tmp")).unwrap();
    write(&fs, "tmp/f", b"x");
    sync_file(&fs, "tmp/f");
    sync_dir(&fs, "tmp");
    fs.rename(&p("tmp"), &p("checkpoint")).unwrap();
    let before = everything(&fs.crash_clone(&CrashChoices::lose_unsynced()));
    assert_eq!(before, [("tmp/f".to_owned(), b"x".to_vec())]);
    sync_dir(&fs, "");
    let after = everything(&fs.crash_clone(&CrashChoices::lose_unsynced()));
    assert_eq!(after, [("checkpoint/f".to_owned(), b"x".to_vec())]);
    // Removes a directory and makes it again under the same name.
    fs.delete_file(&p("checkpoint/f")).unwrap();
    fs.delete_dir(&p("checkpoint")).unwrap();
    fs.create_dir_if_missing(&p("checkpoint")).unwrap();
    assert_eq!(names(&fs.crash_clone(&CrashChoices::keep_flushed()), "checkpoint"), [""; 0]);
    sync_dir(&fs, "");
    assert_eq!(names(&fs.crash_clone(&CrashChoices::lose_unsynced()), "checkpoint"), [""; 0]);
}

/// A file with 10 synced bytes and three unsynced appends of 10: 0x01.., 0x02.., 0x03..
fn three_appends(fs: &CrashFs) -> Vec<u8> {
    let mut f = file(fs, "f");
    f.append(&[0xAA; 10]).unwrap();
    f.sync().unwrap();
    sync_dir(fs, "");
    for i in 1..4 {
        f.append(&[i; 10]).unwrap();
    }
    f.close().unwrap();
    read(fs, "f").unwrap()
}

#[test]
fn bytes_survive_as_a_prefix_of_appends_maybe_torn() {
    let fs = CrashFs::new();
    let live = three_appends(&fs);
    let mut lengths = [BTreeSet::new(), BTreeSet::new()];
    for seed in 0..300 {
        for tear in [false, true] {
            let choices = CrashChoices { keep_data: Keep::Some, tear, seed, ..CrashChoices::lose_unsynced() };
            let found = read(&fs.crash_clone(&choices), "f").unwrap();
            assert!(live.starts_with(&found), "{choices:?}");
            lengths[usize::from(tear)].insert(found.len());
        }
    }
    assert_eq!(lengths[0], [10, 20, 30, 40].into());
    assert_eq!(lengths[1], (10..=40).collect());
}

#[test]
fn tails_of_zeros_garbage_and_lost_pages() {
    let fs = CrashFs::new();
    let live = three_appends(&fs);
    let mut longest = 0;
    for seed in 0..200 {
        for tail in [Tail::Zeros, Tail::Garbage, Tail::Pages] {
            let keep_data = if seed % 2 == 0 { Keep::Some } else { Keep::Nothing };
            let choices = CrashChoices { keep_data, tail, seed, ..CrashChoices::lose_unsynced() };
            let found = read(&fs.crash_clone(&choices), "f").unwrap();
            let same = found.iter().zip(&live).take_while(|(a, b)| a == b).count();
            assert!((10..=40).contains(&found.len()) && same >= 10, "{choices:?}");
            if tail == Tail::Zeros {
                assert!(found[same..].iter().all(|&b| b == 0));
            }
            longest = longest.max(found.len() - same);
        }
    }
    assert!(longest > 20, "{longest}");
}

#[test]
fn pages_are_written_back_in_any_order() {
    let fs = CrashFs::new();
    write(&fs, "f", b"");
    sync_dir(&fs, "");
    let live: Vec<u8> = (0..50_000u32).map(|i| (i % 251) as u8 + 1).collect();
    write(&fs, "f", &live);
    let mut kept_behind_lost = 0;
    for seed in 0..50 {
        let choices = CrashChoices { tail: Tail::Pages, seed, ..CrashChoices::lose_unsynced() };
        let found = read(&fs.crash_clone(&choices), "f").unwrap();
        let mut lost = false;
        for (page, expected) in found.chunks(4096).zip(live.chunks(4096)) {
            let kept = page == &expected[..page.len()];
            assert!(kept || page.iter().all(|&b| b == 0), "{choices:?}");
            kept_behind_lost += usize::from(kept && lost);
            lost |= !kept;
        }
    }
    assert!(kept_behind_lost > 20, "{kept_behind_lost}");
}

/// Also checks sectors of older bytes that were overwritten.
#[test]
fn sectors_are_written_in_any_order() {
    let fs = CrashFs::new();
    write(&fs, "old", &[7; 10_000]);
    sync_file(&fs, "old");
    sync_dir(&fs, "");
    let mut f = fs.reuse_writable_file(&p("f"), &p("old")).unwrap();
    sync_dir(&fs, "");
    let live: Vec<u8> = (0..15_000_u32).map(|i| (i % 251) as u8 + 1).collect();
    live.chunks(900).for_each(|piece| f.append(piece).unwrap());
    f.flush().unwrap();
    let (mut kept_behind_lost, mut old_behind_new) = (0, 0);
    for seed in 0..50 {
        let keep_data = if seed % 2 == 0 { Keep::Some } else { Keep::Nothing };
        let choices = CrashChoices { keep_data, tail: Tail::Sectors, seed, ..CrashChoices::lose_unsynced() };
        let found = read(&fs.crash_clone(&choices), "f").unwrap();
        assert!((10_000..=15_000).contains(&found.len()));
        let mut lost = false;
        for (sector, expected) in found.chunks(512).zip(live.chunks(512)) {
            let kept = sector == &expected[..sector.len()];
            kept_behind_lost += usize::from(kept && lost);
            old_behind_new += usize::from(!kept && sector.iter().all(|b| *b == 7));
            lost |= !kept;
        }
    }
    assert!(kept_behind_lost > 20 && old_behind_new > 20, "{kept_behind_lost} {old_behind_new}");
}

#[test]
fn a_recycled_file_shows_old_bytes_behind_what_survived() {
    let fs = CrashFs::new();
    write(&fs, "old", &[0x0F; 100]);
    sync_file(&fs, "old");
    sync_dir(&fs, "");
    let mut f = fs.reuse_writable_file(&p("new"), &p("old")).unwrap();
    sync_dir(&fs, "");
    f.append(&[1; 30]).unwrap();
    f.sync().unwrap();
    f.append(&[2; 30]).unwrap();
    f.flush().unwrap();
    let after = read(&fs.crash_clone(&CrashChoices::lose_unsynced()), "new").unwrap();
    assert_eq!(after, [vec![1; 30], vec![0x0F; 70]].concat());
}

#[test]
fn clones_share_nothing_and_start_safe() {
    let fs = CrashFs::new();
    write(&fs, "f", b"before");
    let lock = fs.lock_file(&p("LOCK")).unwrap();
    let clone = fs.crash_clone(&CrashChoices::keep_flushed());
    drop(clone.lock_file(&p("LOCK")).unwrap());
    drop(lock);
    write(&fs, "f", b"after");
    write(&clone, "g", b"");
    assert_eq!(read(&clone, "f").unwrap(), b"before");
    assert!(!fs.file_exists(&p("g")).unwrap());
    let again = clone.crash_clone(&CrashChoices::lose_unsynced());
    assert_eq!(names(&again, ""), ["LOCK", "f"]);
    assert_eq!(read(&again, "f").unwrap(), b"before", "bytes that survived the first crash survive the next");
    // Two names of one file remain two names of one file.
    fs.link_file(&p("f"), &p("h")).unwrap();
    let clone = fs.crash_clone(&CrashChoices::keep_flushed());
    clone.reopen_writable_file(&p("h")).unwrap().append(b"!").unwrap();
    assert_eq!(read(&clone, "f").unwrap(), b"after!");
}

#[test]
fn a_power_loss_may_take_bytes_that_a_killed_process_had_not_synced() {
    let fs = CrashFs::new();
    write(&fs, "f", b"safe");
    sync_file(&fs, "f");
    write(&fs, "gone", b"x");
    sync_file(&fs, "gone");
    sync_dir(&fs, "");
    fs.reopen_writable_file(&p("f")).unwrap().append(b", not safe").unwrap();
    write(&fs, "new", b"x");
    fs.delete_file(&p("gone")).unwrap();
    let killed = fs.crash_clone(&CrashChoices::process_kill());
    assert_eq!(names(&killed, ""), ["f", "new"]);
    assert_eq!(read(&killed, "f").unwrap(), b"safe, not safe");
    // Operations on a file system do not change a clone of it.
    sync_file(&fs, "f");
    sync_dir(&fs, "");
    let after = killed.crash_clone(&CrashChoices::lose_unsynced());
    assert_eq!(names(&after, ""), ["f", "gone"]);
    assert_eq!(read(&after, "f").unwrap(), b"safe");
    sync_file(&killed, "f");
    sync_dir(&killed, "");
    let after = killed.crash_clone(&CrashChoices::lose_unsynced());
    assert_eq!(names(&after, ""), ["f", "new"]);
    assert_eq!(read(&after, "f").unwrap(), b"safe, not safe");
}

/// One random operation on a few names in two directories.
fn random_operation(fs: &CrashFs, rng: &mut fastrand::Rng) {
    let name = |rng: &mut fastrand::Rng| p(["a", "b", "d/a", "d/b"][rng.usize(..4)]);
    let (one, two) = (name(rng), name(rng));
    let outcome = match rng.u8(..9) {
        0 | 1 => fs.new_writable_file(&one).and_then(|mut f| f.append(&vec![rng.u8(..); rng.usize(..9000)])),
        2 | 3 => fs.reopen_writable_file(&one).and_then(|mut f| {
            f.append(&[rng.u8(..); 10])?;
            if rng.bool() { f.sync() } else { Ok(()) }
        }),
        4 => fs.rename(&one, &two),
        5 => fs.delete_file(&one),
        6 => fs.link_file(&one, &two),
        7 => fs.new_directory(&p(["", "d"][rng.usize(..2)])).and_then(|d| d.fsync()),
        _ => fs.truncate(&one, rng.u64(..5000)),
    };
    match outcome {
        Ok(()) | Err(_) => {}
    }
}

#[test]
fn nothing_is_lost_that_is_kept_or_synced_and_seeds_repeat() {
    for seed in 0..300 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let fs = CrashFs::new();
        fs.create_dir_if_missing(&p("d")).unwrap();
        for _ in 0..60 {
            random_operation(&fs, &mut rng);
        }
        let live = everything(&fs);
        for names in [NameDurability::Strict, NameDurability::Journaled] {
            let keep = CrashChoices { names, ..CrashChoices::keep_flushed() };
            assert_eq!(everything(&fs.crash_clone(&keep)), live, "seed {seed}");
        }
        let crash = || everything(&fs.crash_clone(&CrashChoices::random(seed)));
        assert_eq!(crash(), crash(), "seed {seed}");
        for (name, _) in &live {
            sync_file(&fs, name);
        }
        sync_dir(&fs, "");
        sync_dir(&fs, "d");
        assert_eq!(everything(&fs.crash_clone(&CrashChoices::lose_unsynced())), live, "seed {seed}");
    }
}

/// One thread writes two files in turn: a reader that sees the second file's bytes must see the
/// first's.
#[test]
fn a_clone_taken_amid_writes_is_one_read_point() {
    let fs = CrashFs::new();
    let (mut first, mut second) = (file(&fs, "1"), file(&fs, "2"));
    // A clone visits files by name. These 300 names lie between the first and the second file, so
    // that the clone takes long from one to the other.
    (0..300).for_each(|i| write(&fs, &format!("1-{i}"), b""));
    sync_dir(&fs, "");
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let writer = std::thread::spawn(move || {
        for round in 0.. {
            if stopped.load(Ordering::SeqCst) {
                break;
            }
            for f in [&mut first, &mut second] {
                f.append(b"x").unwrap();
                // A clone copies the list of unsynced operations; the sync keeps it short.
                if round % 64 == 0 { f.sync().unwrap() } else { f.flush().unwrap() }
            }
        }
    });
    let mut clones = 0;
    while clones < 1500 || fs.file_size(&p("2")).unwrap() < 20_000 {
        clones += 1;
        let clone = fs.crash_clone(&CrashChoices::process_kill());
        let sizes = [clone.file_size(&p("1")).unwrap(), clone.file_size(&p("2")).unwrap()];
        assert!(sizes[0] == sizes[1] || sizes[0] == sizes[1] + 1, "{sizes:?}");
    }
    stop.store(true, Ordering::SeqCst);
    writer.join().unwrap();
}

/// Uses the sizes of a crash suite, with 300 crash points instead of 10,000.
#[test]
fn clones_are_cheap() {
    let fs = CrashFs::new();
    for i in 0..30 {
        write(&fs, &format!("{i}.sst"), &vec![1; 200_000]);
        sync_file(&fs, &format!("{i}.sst"));
    }
    sync_dir(&fs, "");
    let mut wal = file(&fs, "31.log");
    for i in 0..300 {
        wal.append(&[i as u8; 500]).unwrap();
        wal.flush().unwrap();
        if i % 10 == 0 {
            wal.sync().unwrap();
        }
        let clone = fs.crash_clone(&CrashChoices::random(i));
        assert!(clone.file_size(&p("7.sst")).unwrap() == 200_000);
    }
}

#[test]
fn a_log_that_is_appended_to_in_place_ends_with_zeros_or_an_unfinished_append() {
    const BLOCK: u64 = 4096;
    let fs = CrashFs::new();
    let path = Path::new("/log");
    let mut file = fs.new_writable_file(path).unwrap();
    file.append_in_place(BLOCK).unwrap();
    let found = |choices: CrashChoices| {
        let crashed = fs.crash_clone(&choices);
        let mut found = vec![0xEE; 3 * BLOCK as usize];
        let n = crashed.new_sequential_file(path).unwrap().read(&mut found).unwrap();
        found.truncate(n);
        found
    };
    assert_eq!(found(CrashChoices::process_kill()), b"");
    file.append(&[1; 100]).unwrap();
    let mut junk = 0;
    for seed in 0..20 {
        let killed = found(CrashChoices { seed, ..CrashChoices::process_kill() });
        assert_eq!(killed.len() as u64, BLOCK, "unflushed appends survive a kill, too");
        assert!(killed[..100] == [1; 100] && killed[100..108] == [0; 8]);
        junk += usize::from(killed[108..].iter().any(|b| *b != 0));
    }
    assert!(junk > 10);
    file.sync().unwrap();
    FileSystem::new_directory(&fs, Path::new("/")).unwrap().fsync().unwrap();
    let lost = found(CrashChoices::lose_unsynced());
    assert!(lost.len() as u64 == BLOCK && lost[..100] == [1; 100] && lost[100..].iter().all(|b| *b == 0));
    file.close().unwrap();
    assert_eq!(found(CrashChoices::process_kill()), [1; 100]);
}
