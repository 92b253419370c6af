//! The conformance suite of file systems. Each case gets an empty directory.

use esker_base::{Error, ErrorKind, Result, SubCode};
use esker_env::{FileSystem, RandomAccessFile, ReadRequest, WritableFile, read_many};
use std::path::{Path, PathBuf};

pub(crate) type Fs<'a> = &'a dyn FileSystem;

/// Applies a macro to the named cases and to the cases about contents of files. The latter must
/// also hold with direct I/O.
macro_rules! with_cases_of_files {
    ($then:ident $(, $other:ident)* $(,)?) => {
        $then!(
            appended_bytes_are_read,
            appends_of_all_sizes_keep_their_order,
            new_empties_and_reopen_continues,
            reuse_overwrites_in_place,
            overwriting_changes_no_other_bytes,
            sequential_reads_and_skips,
            random_reads_and_their_ends,
            truncation_by_handle_and_by_name,
            preallocation_does_not_change_the_size,
            closed_files_refuse,
            links_share_the_bytes,
            deleted_files_stay_readable_while_open,
            missing_things_are_named,
            $($other,)*
        );
    };
}
pub(crate) use with_cases_of_files;

/// Applies a macro to all cases.
macro_rules! with_all_cases {
    ($then:ident) => {
        with_cases_of_files!(
            $then,
            appends_in_place_are_there_at_once,
            names_come_and_go,
            renames_replace,
            directories,
            renamed_directories_keep_their_files,
            sizes_times_and_space,
            locks_exclude,
            directory_syncs_work,
            random_operations_agree_with_a_model,
        );
    };
}
pub(crate) use with_all_cases;

fn write(fs: Fs<'_>, path: &Path, data: &[u8]) {
    let mut file = fs.new_writable_file(path).unwrap();
    file.append(data).unwrap();
    file.close().unwrap();
}

fn read(fs: Fs<'_>, path: &Path) -> Vec<u8> {
    let mut file = fs.new_sequential_file(path).unwrap();
    let mut all = Vec::new();
    let mut buf = [0; 1000];
    loop {
        let n = file.read(&mut buf).unwrap();
        all.extend_from_slice(&buf[..n]);
        if n < buf.len() {
            return all;
        }
    }
}

fn pattern(n: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; n];
    fastrand::Rng::with_seed(seed).fill(&mut bytes);
    bytes
}

fn failed<T>(result: Result<T>) -> Error {
    result.err().expect("the call should have failed")
}

fn is_missing<T>(result: Result<T>, path: &Path) {
    let e = failed(result);
    assert_eq!((e.kind(), e.subcode()), (ErrorKind::IoError, SubCode::PathNotFound), "{e}");
    assert!(e.message().contains(path.to_str().unwrap()), "{e}");
}

pub(crate) fn appended_bytes_are_read(fs: Fs<'_>, dir: &Path) {
    let path = dir.join("f");
    let mut file = fs.new_writable_file(&path).unwrap();
    assert!(fs.file_exists(&path).unwrap());
    assert_eq!(file.file_size(), 0);
    file.append(b"hello ").unwrap();
    file.append(b"").unwrap();
    assert_eq!(file.file_size(), 6);
    file.flush().unwrap();
    assert_eq!(read(fs, &path), b"hello ");
    file.append(b"world").unwrap();
    file.sync().unwrap();
    assert_eq!(read(fs, &path), b"hello world");
    file.append(b"!").unwrap();
    file.fsync().unwrap();
    file.range_sync(0, 12).unwrap();
    file.append(b"?").unwrap();
    drop(file);
    assert_eq!(read(fs, &path), b"hello world!?", "dropping closes");
}

pub(crate) fn appends_of_all_sizes_keep_their_order(fs: Fs<'_>, dir: &Path) {
    let mut file = fs.new_writable_file(&dir.join("f")).unwrap();
    let mut expected = Vec::new();
    for (i, n) in
        [1, 100_000, 31_072, 0, 128 << 10, 3, (128 << 10) - 1, 1, 1_000_000, 5].into_iter().enumerate()
    {
        let data = pattern(n, i as u64);
        file.append(&data).unwrap();
        expected.extend_from_slice(&data);
        assert_eq!(file.file_size(), expected.len() as u64);
    }
    file.close().unwrap();
    assert!(read(fs, &dir.join("f")) == expected);
}

pub(crate) fn new_empties_and_reopen_continues(fs: Fs<'_>, dir: &Path) {
    let path = dir.join("f");
    write(fs, &path, b"old content");
    write(fs, &path, b"new");
    assert_eq!(read(fs, &path), b"new");
    let mut file = fs.reopen_writable_file(&path).unwrap();
    assert_eq!(file.file_size(), 3);
    file.append(b"er").unwrap();
    file.close().unwrap();
    assert_eq!(read(fs, &path), b"newer");
    let mut file = fs.reopen_writable_file(&dir.join("fresh")).unwrap();
    file.append(b"x").unwrap();
    file.close().unwrap();
    assert_eq!(read(fs, &dir.join("fresh")), b"x");
}

/// Checks a reused file: it still has the old bytes behind the new ones, or was emptied.
fn overwrites(there: &[u8], new: &[u8], old: &[u8]) {
    let behind = there.strip_prefix(new).expect("begins with the new bytes");
    assert!(behind.is_empty() || *behind == old[new.len().min(old.len())..]);
}

pub(crate) fn reuse_overwrites_in_place(fs: Fs<'_>, dir: &Path) {
    let (old, new) = (dir.join("old"), dir.join("new"));
    write(fs, &old, b"0123456789");
    let mut file = fs.reuse_writable_file(&new, &old).unwrap();
    assert_eq!(file.file_size(), 0);
    file.append(b"abc").unwrap();
    file.flush().unwrap();
    overwrites(&read(fs, &new), b"abc", b"0123456789");
    assert!(!fs.file_exists(&old).unwrap());
    file.append(b"def").unwrap();
    file.close().unwrap();
    overwrites(&read(fs, &new), b"abcdef", b"0123456789");
    is_missing(fs.reuse_writable_file(&new, &old), &old);
}

pub(crate) fn overwriting_changes_no_other_bytes(fs: Fs<'_>, dir: &Path) {
    let (path, missing) = (dir.join("f"), dir.join("missing"));
    write(fs, &path, b"0123456789");
    let mut file = match fs.overwrite_file(&path, 4) {
        Ok(file) => file,
        Err(e) => {
            assert_eq!(e.kind(), ErrorKind::NotSupported);
            assert_eq!(read(fs, &path), b"0123456789");
            return;
        }
    };
    assert_eq!(file.file_size(), 4);
    file.append(b"ab").unwrap();
    file.flush().unwrap();
    assert_eq!(read(fs, &path), b"0123ab6789");
    file.append(b"c").unwrap();
    file.close().unwrap();
    assert_eq!(read(fs, &path), b"0123abc789");
    is_missing(fs.overwrite_file(&missing, 0), &missing);
    assert!(!fs.file_exists(&missing).unwrap());
}

pub(crate) fn sequential_reads_and_skips(fs: Fs<'_>, dir: &Path) {
    let path = dir.join("f");
    let data = pattern(10_000, 1);
    write(fs, &path, &data);
    let mut file = fs.new_sequential_file(&path).unwrap();
    let mut buf = [0; 4000];
    assert_eq!(file.read(&mut buf).unwrap(), 4000);
    assert!(buf == data[..4000]);
    file.skip(3000).unwrap();
    assert_eq!(file.read(&mut buf[..10]).unwrap(), 10);
    assert_eq!(buf[..10], data[7000..7010]);
    assert_eq!(file.read(&mut []).unwrap(), 0);
    assert_eq!(file.read(&mut buf).unwrap(), 2990);
    assert_eq!(file.read(&mut buf).unwrap(), 0);
    file.skip(1 << 40).unwrap();
    assert_eq!(file.read(&mut buf).unwrap(), 0);
}

pub(crate) fn random_reads_and_their_ends(fs: Fs<'_>, dir: &Path) {
    let path = dir.join("f");
    let data = pattern(50_000, 2);
    write(fs, &path, &data);
    let file = fs.new_random_access_file(&path).unwrap();
    assert_eq!((file.size().unwrap(), file.path()), (50_000, path.as_path()));
    let mut rng = fastrand::Rng::with_seed(3);
    for _ in 0..200 {
        let (from, n) = (rng.usize(0..60_000), rng.usize(0..20_000));
        let mut buf = vec![0xEE; n];
        let expected = &data[from.min(data.len())..(from + n).min(data.len())];
        assert_eq!(file.read_at(from as u64, &mut buf).unwrap(), expected.len());
        assert!(buf[..expected.len()] == *expected);
        assert!(buf[expected.len()..].iter().all(|&b| b == 0xEE), "bytes behind the end are left alone");
    }
    file.prefetch(0, 10_000);
    for (from, n) in [(0, 10_000), (4097, 1), (49_000, 10_000), (70_000, 5), (u64::MAX - 3, 9)] {
        file.read_anew(from, n);
        let mut buf = vec![0; data.len()];
        assert_eq!(file.read_at(0, &mut buf).unwrap(), data.len());
        assert!(buf == data);
    }
    several_reads_at_once(&*file, &data);
    let all = std::thread::scope(|s| {
        let reads: Vec<_> = (0..4)
            .map(|_| {
                s.spawn(|| {
                    let mut buf = vec![0; 50_000];
                    file.read_at(0, &mut buf).unwrap();
                    buf
                })
            })
            .collect();
        reads.into_iter().map(|r| r.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(all.iter().all(|buf| *buf == data));
}

fn several_reads_at_once(file: &dyn RandomAccessFile, data: &[u8]) {
    let (mut a, mut b, mut c, mut d) = ([0; 10], [0; 10], [0; 10], [0; 3]);
    let mut requests = [
        ReadRequest::new(file, 49_995, vec![&mut a[..]]),
        ReadRequest::new(file, 7, vec![&mut b[..], &mut d[..]]),
        ReadRequest::new(file, 1 << 40, vec![&mut c[..]]),
    ];
    read_many(&mut requests);
    let counts: Vec<usize> = requests.iter().map(|r| *r.result.as_ref().unwrap()).collect();
    assert_eq!(counts, [5, 13, 0]);
    assert_eq!((&a[..5], &b[..], &d[..]), (&data[49_995..], &data[7..17], &data[17..20]));
    // More requests than one batch of a ring holds. Some reads end in the middle of a buffer.
    let mut rng = fastrand::Rng::with_seed(5);
    let wanted: Vec<(usize, Vec<usize>)> = (0..700)
        .map(|_| (rng.usize(..50_000), (0..rng.usize(1..4)).map(|_| rng.usize(1..3000)).collect()))
        .collect();
    let mut bufs: Vec<Vec<Vec<u8>>> =
        wanted.iter().map(|(_, lengths)| lengths.iter().map(|&n| vec![0; n]).collect()).collect();
    let mut requests: Vec<_> = (wanted.iter().zip(&mut bufs))
        .map(|((from, _), bufs)| {
            ReadRequest::new(file, *from as u64, bufs.iter_mut().map(Vec::as_mut_slice).collect())
        })
        .collect();
    read_many(&mut requests);
    let counts: Vec<usize> = requests.iter().map(|r| *r.result.as_ref().unwrap()).collect();
    for (((from, lengths), bufs), count) in wanted.iter().zip(&bufs).zip(counts) {
        let end = (from + lengths.iter().sum::<usize>()).min(data.len());
        assert_eq!(count, end - from);
        assert!(bufs.concat()[..count] == data[*from..end]);
    }
}

pub(crate) fn truncation_by_handle_and_by_name(fs: Fs<'_>, dir: &Path) {
    let path = dir.join("f");
    let mut file = fs.new_writable_file(&path).unwrap();
    file.append(b"0123456789").unwrap();
    file.truncate(4).unwrap();
    assert_eq!(file.file_size(), 4);
    file.append(b"ab").unwrap();
    file.truncate(8).unwrap();
    file.append(b"z").unwrap();
    file.close().unwrap();
    assert_eq!(read(fs, &path), b"0123ab\0\0z");
    fs.truncate(&path, 5).unwrap();
    assert_eq!(read(fs, &path), b"0123a");
    fs.truncate(&path, 7).unwrap();
    assert_eq!(read(fs, &path), b"0123a\0\0");
    is_missing(fs.truncate(&dir.join("no"), 1), &dir.join("no"));
}

pub(crate) fn preallocation_does_not_change_the_size(fs: Fs<'_>, dir: &Path) {
    let path = dir.join("f");
    let mut file = fs.new_writable_file(&path).unwrap();
    file.preallocate(0, 4 << 20).unwrap();
    file.preallocate(0, 0).unwrap();
    file.append(b"x").unwrap();
    file.sync().unwrap();
    assert_eq!((file.file_size(), fs.file_size(&path).unwrap()), (1, 1));
    file.close().unwrap();
    assert_eq!(read(fs, &path), b"x");
}

pub(crate) fn appends_in_place_are_there_at_once(fs: Fs<'_>, dir: &Path) {
    let path = dir.join("log");
    let mut file = fs.new_writable_file(&path).unwrap();
    file.append_in_place(32 << 10).unwrap();
    let mut expected = Vec::new();
    for i in 0..600 {
        let data = vec![i as u8 | 1; 1 + i * 37 % 400];
        file.append(&data).unwrap();
        expected.extend_from_slice(&data);
        assert_eq!(file.file_size(), expected.len() as u64);
        if i % 50 == 0 {
            let there = read(fs, &path);
            assert!(there.starts_with(&expected), "append {i}");
            assert!(there[expected.len()..].iter().all(|b| *b == 0), "append {i}");
        }
    }
    file.sync().unwrap();
    file.close().unwrap();
    assert_eq!(read(fs, &path), expected);
    assert_eq!(fs.file_size(&path).unwrap(), expected.len() as u64);
}

pub(crate) fn closed_files_refuse(fs: Fs<'_>, dir: &Path) {
    let mut file = fs.new_writable_file(&dir.join("f")).unwrap();
    file.append(b"x").unwrap();
    file.close().unwrap();
    let calls: [fn(&mut dyn WritableFile) -> Result<()>; 5] =
        [|f| f.append(b"y"), |f| f.flush(), |f| f.sync(), |f| f.truncate(0), |f| f.close()];
    for call in calls {
        let e = failed(call(&mut *file));
        assert!(e.message().contains("closed"), "{e}");
    }
    assert_eq!(file.file_size(), 1);
    drop(file);
    assert_eq!(read(fs, &dir.join("f")), b"x");
}

fn sorted(fs: Fs<'_>, dir: &Path) -> Vec<String> {
    let mut names = fs.children(dir).unwrap();
    names.sort();
    names
}

pub(crate) fn names_come_and_go(fs: Fs<'_>, dir: &Path) {
    assert!(sorted(fs, dir).is_empty());
    for name in ["b", "a", "c"] {
        write(fs, &dir.join(name), name.as_bytes());
    }
    fs.create_dir_if_missing(&dir.join("d")).unwrap();
    assert_eq!(sorted(fs, dir), ["a", "b", "c", "d"]);
    fs.delete_file(&dir.join("b")).unwrap();
    assert_eq!(sorted(fs, dir), ["a", "c", "d"]);
    assert!(!fs.file_exists(&dir.join("b")).unwrap());
    assert!(fs.file_exists(&dir.join("d")).unwrap());
    assert!(fs.file_exists(dir).unwrap());
}

pub(crate) fn renames_replace(fs: Fs<'_>, dir: &Path) {
    let (tmp, current) = (dir.join("tmp"), dir.join("CURRENT"));
    write(fs, &current, b"old");
    write(fs, &tmp, b"new");
    fs.rename(&tmp, &current).unwrap();
    assert_eq!(read(fs, &current), b"new");
    assert_eq!(sorted(fs, dir), ["CURRENT"]);
    fs.rename(&current, &current).unwrap();
    assert_eq!(sorted(fs, dir), ["CURRENT"]);
    fs.create_dir_if_missing(&dir.join("archive")).unwrap();
    fs.rename(&current, &dir.join("archive/CURRENT")).unwrap();
    assert_eq!(read(fs, &dir.join("archive/CURRENT")), b"new");
    is_missing(fs.rename(&tmp, &current), &tmp);
    is_missing(fs.rename(&dir.join("archive/CURRENT"), &dir.join("no/CURRENT")), &dir.join("no/CURRENT"));
    write(fs, &tmp, b"x");
    failed(fs.rename(&tmp, &dir.join("archive")));
    // A directory cannot move into itself.
    failed(fs.rename(&dir.join("archive"), &dir.join("archive/deeper")));
}

fn is_unknown(count: Result<u64>) -> bool {
    count.is_err_and(|e| e.kind() == ErrorKind::NotSupported)
}

pub(crate) fn links_share_the_bytes(fs: Fs<'_>, dir: &Path) {
    let (one, two) = (dir.join("one"), dir.join("two"));
    write(fs, &one, b"shared");
    fs.link_file(&one, &two).unwrap();
    assert_eq!(read(fs, &two), b"shared");
    assert!(fs.link_count(&one).is_ok_and(|n| n == 2) || is_unknown(fs.link_count(&one)));
    failed(fs.link_file(&one, &two));
    let mut file = fs.reopen_writable_file(&one).unwrap();
    file.append(b" bytes").unwrap();
    file.close().unwrap();
    assert_eq!(read(fs, &two), b"shared bytes");
    fs.delete_file(&one).unwrap();
    assert_eq!(read(fs, &two), b"shared bytes");
    is_missing(fs.link_file(&one, &dir.join("three")), &one);
}

pub(crate) fn deleted_files_stay_readable_while_open(fs: Fs<'_>, dir: &Path) {
    let path = dir.join("f");
    write(fs, &path, b"ghost");
    let file = fs.new_random_access_file(&path).unwrap();
    fs.delete_file(&path).unwrap();
    write(fs, &path, b"other");
    let mut buf = [0; 5];
    assert_eq!(file.read_at(0, &mut buf).unwrap(), 5);
    assert_eq!(&buf, b"ghost");
    let mut writer = fs.new_writable_file(&dir.join("w")).unwrap();
    fs.delete_file(&dir.join("w")).unwrap();
    writer.append(b"nobody will see this").unwrap();
    writer.sync().unwrap();
    writer.close().unwrap();
    assert!(!fs.file_exists(&dir.join("w")).unwrap());
}

pub(crate) fn directories(fs: Fs<'_>, dir: &Path) {
    let deep = dir.join("a/b/c");
    fs.create_dir_if_missing(&deep).unwrap();
    fs.create_dir_if_missing(&deep).unwrap();
    write(fs, &deep.join("f"), b"x");
    assert_eq!(sorted(fs, &dir.join("a")), ["b"]);
    assert_eq!(read(fs, &dir.join("a/./b/../b/c/f")), b"x");
    failed(fs.delete_dir(&deep));
    failed(fs.delete_file(&deep));
    failed(fs.create_dir_if_missing(&deep.join("f")));
    failed(fs.new_writable_file(&deep));
    failed(fs.children(&deep.join("f")));
    failed(fs.new_directory(&deep.join("f")));
    fs.delete_file(&deep.join("f")).unwrap();
    fs.delete_dir(&deep).unwrap();
    assert!(!fs.file_exists(&deep).unwrap());
    assert!(sorted(fs, &dir.join("a/b")).is_empty());
    failed(fs.new_writable_file(&deep.join("f")));
}

pub(crate) fn renamed_directories_keep_their_files(fs: Fs<'_>, dir: &Path) {
    let (tmp, checkpoint) = (dir.join("checkpoint.tmp"), dir.join("checkpoint"));
    fs.create_dir_if_missing(&tmp).unwrap();
    let mut file = fs.new_writable_file(&tmp.join("f")).unwrap();
    fs.rename(&tmp, &checkpoint).unwrap();
    file.append(b"x").unwrap();
    file.close().unwrap();
    assert_eq!(read(fs, &checkpoint.join("f")), b"x");
    assert!(!fs.file_exists(&tmp).unwrap());
    assert_eq!(sorted(fs, dir), ["checkpoint"]);
}

pub(crate) fn missing_things_are_named(fs: Fs<'_>, dir: &Path) {
    let path = &dir.join("missing");
    is_missing(fs.new_sequential_file(path), path);
    is_missing(fs.new_random_access_file(path), path);
    is_missing(fs.new_writable_file(&path.join("f")), path);
    is_missing(fs.new_directory(path), path);
    is_missing(fs.children(path), path);
    is_missing(fs.delete_file(path), path);
    is_missing(fs.delete_dir(path), path);
    is_missing(fs.file_size(path), path);
    is_missing(fs.modification_time(path), path);
    is_missing(fs.lock_file(&path.join("LOCK")), path);
    assert!(!fs.file_exists(path).unwrap());
}

pub(crate) fn sizes_times_and_space(fs: Fs<'_>, dir: &Path) {
    let path = dir.join("f");
    let now = || std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let before = now();
    write(fs, &path, &[7; 12345]);
    assert_eq!(fs.file_size(&path).unwrap(), 12345);
    let changed = fs.modification_time(&path).unwrap();
    assert!((before.saturating_sub(2)..=now()).contains(&changed), "{changed}");
    assert!(fs.free_space(dir).unwrap() > 0);
    assert_eq!(fs.absolute_path(&path).unwrap(), path);
    assert!(fs.absolute_path(Path::new("relative")).unwrap().is_absolute());
}

pub(crate) fn locks_exclude(fs: Fs<'_>, dir: &Path) {
    let path = dir.join("LOCK");
    let lock = fs.lock_file(&path).unwrap();
    assert!(fs.file_exists(&path).unwrap());
    let e = failed(fs.lock_file(&path));
    assert_eq!((e.kind(), e.is_retryable()), (ErrorKind::IoError, true));
    assert!(e.message().contains("lock hold by current process"), "{e}");
    assert!(e.message().contains(path.to_str().unwrap()), "{e}");
    failed(fs.lock_file(&dir.join("../").join(dir.file_name().unwrap()).join("LOCK")));
    let other = fs.lock_file(&dir.join("OTHER")).unwrap();
    drop(lock);
    drop(fs.lock_file(&path).unwrap());
    drop(other);
}

pub(crate) fn directory_syncs_work(fs: Fs<'_>, dir: &Path) {
    let directory = fs.new_directory(dir).unwrap();
    write(fs, &dir.join("f"), b"x");
    directory.fsync().unwrap();
    directory.fsync().unwrap();
}

/// Few names and many operations, so that operations often meet the same name.
pub(crate) fn random_operations_agree_with_a_model(fs: Fs<'_>, dir: &Path) {
    for seed in 0..20 {
        let dir = dir.join(seed.to_string());
        fs.create_dir_if_missing(&dir).unwrap();
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut model = std::collections::BTreeMap::<String, Vec<u8>>::new();
        for step in 0..150 {
            let name = ["a", "b", "c", "d"][rng.usize(..4)].to_owned();
            let other = ["a", "b", "c", "d"][rng.usize(..4)].to_owned();
            let (path, other_path): (PathBuf, PathBuf) = (dir.join(&name), dir.join(&other));
            let data = pattern(rng.usize(..20_000), rng.u64(..));
            match rng.u8(..7) {
                0 => {
                    write(fs, &path, &data);
                    model.insert(name, data);
                }
                1 => {
                    let mut file = fs.reopen_writable_file(&path).unwrap();
                    file.append(&data).unwrap();
                    file.close().unwrap();
                    model.entry(name).or_default().extend_from_slice(&data);
                }
                2 => assert_eq!(fs.delete_file(&path).is_ok(), model.remove(&name).is_some()),
                3 => {
                    assert_eq!(fs.rename(&path, &other_path).is_ok(), model.contains_key(&name));
                    if let Some(moved) = model.remove(&name) {
                        model.insert(other, moved);
                    }
                }
                4 => {
                    if let Some(bytes) = model.get_mut(&name) {
                        let size = rng.usize(..30_000);
                        fs.truncate(&path, size as u64).unwrap();
                        bytes.resize(size, 0);
                    }
                }
                5 if name != other => {
                    if let Some(old) = model.remove(&other) {
                        let mut file = fs.reuse_writable_file(&path, &other_path).unwrap();
                        file.append(&data).unwrap();
                        file.close().unwrap();
                        let there = read(fs, &path);
                        overwrites(&there, &data, &old);
                        model.insert(name, there);
                    }
                }
                _ => {
                    if let Some(bytes) = model.get(&name) {
                        assert!(read(fs, &path) == *bytes, "seed {seed}, step {step}");
                    }
                }
            }
            assert_eq!(
                sorted(fs, &dir),
                model.keys().cloned().collect::<Vec<_>>(),
                "seed {seed}, step {step}"
            );
        }
        for (name, bytes) in &model {
            assert!(read(fs, &dir.join(name)) == *bytes, "seed {seed}");
        }
    }
}
