use super::*;
use crate::clock::Clock;
use crate::mem::MemFs;
use esker_base::sync::atomic::{AtomicU64, Ordering};
use esker_base::{ErrorKind, SubCode};

fn new_fs() -> FaultFs {
    FaultFs::new(Arc::new(MemFs::new()))
}

fn content(fs: &dyn FileSystem, path: &str) -> Vec<u8> {
    let mut buf = vec![0; 1 << 16];
    let n = fs.new_sequential_file(Path::new(path)).unwrap().read(&mut buf).unwrap();
    buf.truncate(n);
    buf
}

#[test]
fn operations_are_listed_and_counted() {
    let fs = new_fs();
    fs.list_ops(true);
    let mut file = fs.new_writable_file(Path::new("/000004.log")).unwrap();
    file.append(b"first").unwrap();
    file.append(b"second").unwrap();
    file.sync().unwrap();
    file.close().unwrap();
    fs.rename(Path::new("/000004.log"), Path::new("/000005.log")).unwrap();
    fs.new_directory(Path::new("/")).unwrap().fsync().unwrap();
    let mut buf = [0; 4];
    fs.new_random_access_file(Path::new("/000005.log")).unwrap().read_at(2, &mut buf).unwrap();
    let lines: Vec<String> = fs.take_ops().iter().map(ToString::to_string).collect();
    let expected = "create 000004.log
append 000004.log 0+5
append 000004.log 5+6
sync 000004.log
close 000004.log
rename 000005.log
open /
dir-sync /
open 000005.log
read 000005.log 2+4";
    assert_eq!(lines.join("\n"), expected);
    assert_eq!(fs.op_count(), 10);
    assert_eq!(fs.byte_count(), 5 + 6 + 4, "appended and read bytes count");
    assert_eq!(fs.op_count_of(OpKind::Append), 2);
    assert_eq!(fs.fault_count(), 0);
    for (i, kind) in OpKind::ALL.into_iter().enumerate() {
        assert_eq!(kind as usize, i);
    }
}

#[test]
fn the_nth_operation_of_a_kind_fails_a_given_number_of_times() {
    let fs = new_fs();
    fs.add_rule(FaultRule::fail(&[OpKind::Sync, OpKind::DirSync]).nth(1).times(2).retryable(true));
    let mut file = fs.new_writable_file(Path::new("/f")).unwrap();
    let dir = fs.new_directory(Path::new("/")).unwrap();
    file.sync().unwrap();
    let error = dir.fsync().unwrap_err();
    // The words for an error number are the C library's.
    let words = std::io::Error::from_raw_os_error(libc::EIO);
    assert_eq!(error.to_string(), format!("IO error: injected in operation 3, While dir-sync: /: {words}"));
    assert!(error.is_retryable());
    file.append(b"x").unwrap();
    assert!(file.fsync().is_err());
    file.sync().unwrap();
    dir.fsync().unwrap();
    assert_eq!(fs.fault_count(), 2);
}

#[test]
fn rules_choose_files_by_name() {
    let fs = new_fs();
    fs.add_rule(FaultRule::fail_any().on_name(".sst").forever().error_kind(ErrorKind::Corruption));
    fs.new_writable_file(Path::new("/1.log")).unwrap();
    for _ in 0..3 {
        assert!(fs.new_writable_file(Path::new("/1.sst")).err().unwrap().is_corruption());
    }
    fs.clear_rules();
    fs.new_writable_file(Path::new("/1.sst")).unwrap();
}

#[test]
fn a_short_write_leaves_its_part() {
    let fs = new_fs();
    let mut file = fs.new_writable_file(Path::new("/f")).unwrap();
    file.append(b"whole").unwrap();
    fs.add_rule(FaultRule::short_write(Some(3)));
    assert!(file.append(b"broken").is_err());
    assert_eq!(file.file_size(), 8);
    assert_eq!(content(&fs, "/f"), b"wholebro");
    fs.add_rule(FaultRule::short_write(None));
    assert!(file.append(b"0123456789").is_err());
    assert!((8..18).contains(&file.file_size()));
}

#[test]
fn a_read_has_exactly_one_bit_flipped() {
    let fs = new_fs();
    fs.new_writable_file(Path::new("/f")).unwrap().append(&[0; 1000]).unwrap();
    fs.add_rule(FaultRule::bit_flip().nth(1));
    assert_eq!(content(&fs, "/f"), [0; 1000]);
    assert_eq!(content(&fs, "/f").iter().map(|b| b.count_ones()).sum::<u32>(), 1);
    assert_eq!(content(&fs, "/f"), [0; 1000]);
}

#[test]
fn a_full_disk_takes_the_bytes_that_fit_and_recovers() {
    let fs = new_fs();
    let mut file = fs.new_writable_file(Path::new("/f")).unwrap();
    fs.no_space_after(Some(7));
    assert_eq!(fs.free_space(Path::new("/")).unwrap(), 7);
    file.append(b"01234").unwrap();
    let error = file.append(b"56789").unwrap_err();
    assert_eq!((error.subcode(), error.is_retryable()), (SubCode::NoSpace, true));
    assert_eq!(content(&fs, "/f"), b"0123456");
    assert!(file.append(b"x").is_err());
    file.append(b"").unwrap();
    fs.no_space_after(None);
    file.append(b"x").unwrap();
    assert_eq!(content(&fs, "/f"), b"0123456x");
}

#[test]
fn a_skipped_sync_claims_success_and_a_skipped_open_fails() {
    let crash = crate::crash::CrashFs::new();
    let fs = FaultFs::new(Arc::new(crash.clone()));
    let mut file = fs.new_writable_file(Path::new("/f")).unwrap();
    fs.new_directory(Path::new("/")).unwrap().fsync().unwrap();
    file.append(b"gone").unwrap();
    fs.add_rule(FaultRule::skip(&[OpKind::Sync]));
    file.sync().unwrap();
    let after = crash.crash_clone(&crate::crash::CrashChoices::lose_unsynced());
    assert_eq!(content(&after, "/f"), b"");
    file.sync().unwrap();
    let after = crash.crash_clone(&crate::crash::CrashChoices::lose_unsynced());
    assert_eq!(content(&after, "/f"), b"gone");
    fs.add_rule(FaultRule::skip(&[OpKind::Open]));
    assert_eq!(fs.new_sequential_file(Path::new("/f")).err().unwrap().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn the_hook_sees_each_operation_and_may_use_the_file_system_below() {
    let fs = new_fs();
    let seen = Arc::new(AtomicU64::new(0));
    let (count, below) = (Arc::clone(&seen), Arc::clone(fs.inner()));
    fs.on_op(move |op| {
        assert_eq!(op.index, count.fetch_add(1, Ordering::SeqCst));
        assert_eq!(below.file_exists(Path::new("/f")).unwrap(), op.index > 0);
    });
    let mut file = fs.new_writable_file(Path::new("/f")).unwrap();
    file.append(b"x").unwrap();
    fs.clear_hook();
    file.append(b"x").unwrap();
    assert_eq!(seen.load(Ordering::SeqCst), 2);
    assert_eq!(fs.op_count(), 3);
}

/// A clock that only sleeps advance. A thread that sleeps on it continues at once.
#[derive(Debug, Default)]
struct Counting(AtomicU64);

impl Clock for Counting {
    fn now_micros(&self) -> u64 {
        self.monotonic_nanos() / 1_000
    }
    fn monotonic_nanos(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
    fn sleep(&self, duration: std::time::Duration) {
        self.0.fetch_add(duration.as_nanos() as u64, Ordering::SeqCst);
    }
}

/// The outcomes of operations on 60 files under a schedule, and the nanoseconds slept.
fn under_schedule(seed: u64, make: fn(u64, Arc<dyn Clock>) -> FaultSchedule) -> (Vec<String>, u64) {
    let clock = Arc::new(Counting::default());
    let fs = new_fs();
    fs.set_schedule(make(seed, clock.clone()));
    fs.list_ops(true);
    let mut described = Vec::new();
    for number in 0..60 {
        let path = format!("/{number:06}.sst");
        let made = (|| {
            let mut file = fs.new_writable_file(Path::new(&path))?;
            (0..4_u8).try_for_each(|n| file.append(&[n; 700]))?;
            file.sync()?;
            file.close()?;
            let mut buf = [0; 2800];
            fs.new_random_access_file(Path::new(&path))?.read_at(0, &mut buf)?;
            fs.delete_file(Path::new(&path))?;
            Ok(buf.to_vec())
        })();
        described.push(made.map_or_else(
            |e: Error| e.to_string(),
            |bytes| format!("{:?}", esker_base::crc32c::value(&bytes)),
        ));
    }
    described.extend(fs.take_ops().iter().map(ToString::to_string));
    (described, clock.monotonic_nanos())
}

#[test]
fn the_same_seed_gives_the_same_faults_and_other_seeds_others() {
    let (mut failed, mut slow, mut spoilt, mut full) = (0, 0, 0, 0);
    let right = under_schedule(1, FaultSchedule::slow).0[0].clone();
    for seed in 0..100 {
        for make in [FaultSchedule::bad, FaultSchedule::slow, FaultSchedule::bad_reads] {
            assert_eq!(under_schedule(seed, make), under_schedule(seed, make));
        }
        let (described, nanos) = under_schedule(seed, FaultSchedule::bad);
        slow += u64::from(nanos > 0);
        failed += u64::from(described[..60].iter().any(|t| t.contains("injected")));
        full += u64::from(described[..60].iter().any(|t| t.contains("No space left")));
        spoilt += u64::from(described[..60].iter().any(|t| !t.contains("injected") && *t != right));
        assert!(under_schedule(seed, FaultSchedule::slow).0[..60].iter().all(|t| *t == right));
        let reads_only = under_schedule(seed, FaultSchedule::bad_reads).0;
        assert!(reads_only[..60].iter().all(|t| !t.contains("injected")));
    }
    assert!(failed > 30 && slow > 60 && spoilt > 15 && full > 3, "{failed} {slow} {spoilt} {full}");
}

/// Permanent damage shows at each read, transient damage at one read. The disk below has neither.
#[test]
fn damaged_reads_are_whole_when_the_schedule_is_cleared() {
    let (mut for_good, mut in_passing) = (0, 0);
    for seed in 0..200 {
        let fs = new_fs();
        let path = Path::new("/000007.sst");
        let bytes: Vec<u8> = (0..20_000_u32).map(|n| (n / 7 % 251) as u8).collect();
        let mut file = fs.new_writable_file(path).unwrap();
        file.append(&bytes).unwrap();
        file.close().unwrap();
        fs.set_schedule(FaultSchedule::bad_reads(seed, Arc::<Counting>::default()));
        let file = fs.new_random_access_file(path).unwrap();
        let read = || {
            let mut read = vec![0; bytes.len()];
            assert_eq!(file.read_at(0, &mut read).unwrap(), bytes.len());
            read
        };
        let reads: Vec<_> = (0..6).map(|_| read()).collect();
        for_good += usize::from(reads.windows(2).any(|two| two[0] != bytes && two[0] == two[1]));
        in_passing += usize::from(reads.windows(2).any(|two| two[0] != bytes && two[1] == bytes));
        fs.clear_rules();
        assert_eq!(read(), bytes);
    }
    assert!(for_good > 10 && in_passing > 10, "{for_good} {in_passing}");
}
