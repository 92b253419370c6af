use super::*;
use crate::FileSystem;
use crate::posix::PosixFileSystem;

#[test]
fn a_failed_submission_costs_this_call_its_ring_and_no_other() {
    // A ring that is not enabled takes nothing.
    let Ok(disabled) = IoUring::builder().setup_r_disabled().build(ENTRIES as u32) else {
        return println!("this kernel gives no ring: skipped");
    };
    let path = std::env::temp_dir().join(format!("esker-failed-ring-{}", std::process::id()));
    std::fs::write(&path, [7; 1000]).unwrap();
    let file = PosixFileSystem.new_random_access_file(&path).unwrap();
    let mut bufs = vec![[0; 64]; 3];
    let mut requests: Vec<_> =
        bufs.iter_mut().map(|buf| ReadRequest::new(&*file, 0, vec![&mut buf[..]])).collect();
    let mut ring = Ring(Some((Box::new(disabled), ProcessOwner::here())));
    let mut done = vec![0; 3];
    let failed = ring.read(&mut requests, &mut done);
    assert_eq!(Errno::from_io_error(&failed.unwrap_err()), Some(Errno::BADFD));
    assert_eq!(done, [0; 3]);
    assert!(ring.0.is_none(), "the pushed reads were dropped with the ring");
    assert!(!IS_REFUSED.load(Ordering::Relaxed));
    ring.read(&mut requests, &mut done).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(done, [64; 3]);
    assert_eq!(bufs, [[7; 64]; 3]);
}

#[test]
fn rings_are_given_up_only_where_they_are_forbidden() {
    let error = |errno: Errno| io::Error::from_raw_os_error(errno.raw_os_error());
    assert!([Errno::NOSYS, Errno::PERM].map(error).iter().all(is_forbidden));
    assert!(![Errno::NOMEM, Errno::AGAIN, Errno::BUSY, Errno::MFILE].map(error).iter().any(is_forbidden));
}
