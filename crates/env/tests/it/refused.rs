//! Kernels, security rules and file systems that refuse optional system calls. A filter of
//! system calls (seccomp) stands for them; it applies to one thread.

use esker_env::{FileSystem, PosixFileSystem, RandomAccessFile, ReadRequest, read_many};
use std::path::Path;

/// Makes this thread's optional system calls fail with `errno` from now on.
#[expect(clippy::cast_possible_truncation, reason = "numbers of system calls and errors are small")]
fn refuse_optional_calls(errno: i32) {
    let refused = [
        libc::SYS_fallocate,
        libc::SYS_fadvise64,
        libc::SYS_sync_file_range,
        libc::SYS_madvise,
        libc::SYS_preadv2,
        libc::SYS_io_uring_setup,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
    ];
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let mut program = vec![statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0)];
    for (i, call) in refused.iter().enumerate() {
        let to_refusal = (refused.len() - i) as u8;
        let code = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
        program.push(libc::sock_filter { code, jt: to_refusal, jf: 0, k: *call as u32 });
    }
    program.push(statement(libc::BPF_RET, libc::SECCOMP_RET_ALLOW));
    program.push(statement(libc::BPF_RET, libc::SECCOMP_RET_ERRNO | errno as u32));
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: sets a flag of this thread.
    let set = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    assert_eq!(set, 0, "the process may get no new privileges");
    // SAFETY: the program and its statements live until the call returns. The kernel has then
    // copied them.
    let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    assert_eq!(set, 0, "the filter cannot be set: {}", std::io::Error::last_os_error());
}

fn write_and_read_back(path: &Path) {
    let fs = PosixFileSystem;
    let mut file = fs.new_writable_file(path).unwrap();
    file.preallocate(0, 1 << 20).unwrap();
    file.append(&[7; 5000]).unwrap();
    file.range_sync(0, 4096).unwrap();
    file.append_in_place(32 << 10).unwrap();
    for _ in 0..100 {
        file.append(&[7; 1000]).unwrap();
    }
    file.sync().unwrap();
    file.close().unwrap();
    assert_eq!(fs.file_size(path).unwrap(), 105_000);
    fs.new_directory(path.parent().unwrap()).unwrap().fsync().unwrap();
    let file = fs.new_random_access_file(path).unwrap();
    file.prefetch(0, 4096);
    file.read_anew(0, 4096);
    let mut bufs = vec![[0; 64]; 20];
    let request = |buf| ReadRequest::new(&*file as &dyn RandomAccessFile, 104_936, vec![buf]);
    let mut requests: Vec<_> = bufs.iter_mut().map(|buf| request(&mut buf[..])).collect();
    read_many(&mut requests);
    drop(requests);
    assert!(bufs.iter().all(|buf| *buf == [7; 64]));
    // If the device does not report the alignment of its blocks, a page is used.
    if let Ok(file) = fs.new_direct_random_access_file(path) {
        let mut buf = [0; 100];
        assert_eq!(file.read_at(5, &mut buf).unwrap(), 100);
        assert_eq!(buf, [7; 100]);
    }
}

#[test]
fn files_are_written_and_read_where_the_kernel_refuses_all_optional_calls() {
    for errno in [libc::ENOSYS, libc::EPERM, libc::EOPNOTSUPP, libc::EINVAL, libc::EACCES] {
        let path = std::env::temp_dir().join(format!("esker-refused-{}-{errno}", std::process::id()));
        let theirs = path.clone();
        let thread = std::thread::spawn(move || {
            refuse_optional_calls(errno);
            write_and_read_back(&theirs);
        });
        let outcome = thread.join();
        std::fs::remove_file(&path).unwrap();
        outcome.unwrap_or_else(|_| panic!("with {}", std::io::Error::from_raw_os_error(errno)));
    }
}

#[test]
fn a_directory_that_its_file_system_does_not_sync_is_no_error() {
    // procfs answers `EINVAL`, as network file systems do.
    PosixFileSystem.new_directory(Path::new("/proc")).unwrap().fsync().unwrap();
    assert!(esker_env::system::unsynced_directory().is_some());
}
