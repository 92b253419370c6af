use super::*;
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
    assert_eq!(fs.op_count_of(OpKind::Append), 2);
    assert_eq!(fs.fault_count(), 0);
    for (i, kind) in OpKind::ALL.into_iter().enumerate() {
        assert_eq!(kind as usize, i);
    }
}

#[test]
fn the_nth_operation_of_a_kind_fails_so_many_times() {
    let fs = new_fs();
    fs.add_rule(FaultRule::fail(&[OpKind::Sync, OpKind::DirSync]).nth(1).times(2).retryable(true));
    let mut file = fs.new_writable_file(Path::new("/f")).unwrap();
    let dir = fs.new_directory(Path::new("/")).unwrap();
    file.sync().unwrap();
    let error = dir.fsync().unwrap_err();
    assert_eq!(
        error.to_string(),
        "IO error: injected in operation 3, While dir-sync: /: Input/output error (os error 5)"
    );
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
fn a_full_disk_takes_what_fits_and_recovers() {
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
fn skipped_syncs_claim_success_and_other_results_cannot_be_skipped() {
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
