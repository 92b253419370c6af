use super::*;
use std::os::unix::fs::MetadataExt;

/// 512-byte blocks that the file holds on the medium.
fn blocks(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().blocks()
}

#[test]
fn reserved_space_is_given_back_at_close() {
    let path = std::env::temp_dir().join(format!("esker-preallocate-{}", std::process::id()));
    let mut file = PosixFileSystem.new_writable_file(&path).unwrap();
    file.preallocate(0, 8 << 20).unwrap();
    file.append(b"x").unwrap();
    file.sync().unwrap();
    let reserved = blocks(&path);
    file.close().unwrap();
    let kept = blocks(&path);
    std::fs::remove_file(&path).unwrap();
    if reserved < 1000 {
        return println!("this file system reserves nothing: skipped");
    }
    // A block or two, of whatever size the file system has.
    assert!(kept < reserved / 10, "{reserved} blocks reserved, {kept} kept");
}

#[test]
fn errors_name_operation_path_and_offset() {
    let e = failed_at("pread", Path::new("/db/000012.sst"), 4096, Errno::IO);
    // The words for an error number are the C library's.
    let words = std::io::Error::from(Errno::IO);
    assert_eq!(e.message(), format!("While pread: /db/000012.sst at offset 4096: {words}"));
    let e = PosixFileSystem.rename(Path::new("/no/a"), Path::new("/no/b")).unwrap_err();
    assert_eq!(e.message(), "While rename: /no/a to /no/b: No such file or directory (os error 2)");
    // A directory opens as a file but does not read.
    let file = PosixFileSystem.new_random_access_file(Path::new("/tmp")).unwrap();
    assert!(
        file.read_at(7, &mut [0; 3]).unwrap_err().message().starts_with("While pread: /tmp at offset 7: ")
    );
}

#[test]
fn links_to_other_file_systems_are_not_supported() {
    let e = PosixFileSystem
        .link_file(Path::new("/proc/self/status"), Path::new("/tmp/esker-no-link"))
        .unwrap_err();
    assert_eq!(e.kind(), esker_base::ErrorKind::NotSupported, "{e}");
}

#[cfg(target_os = "linux")]
#[test]
fn reads_go_to_the_kernel_together_or_not_at_all() {
    use crate::read_many::ReadRequest;
    let path = std::env::temp_dir().join(format!("esker-ring-{}", std::process::id()));
    std::fs::write(&path, [7; 10_000]).unwrap();
    let file = PosixFileSystem.new_random_access_file(&path).unwrap();
    let mut bufs = vec![[0; 64]; 300];
    let mut requests: Vec<_> =
        bufs.iter_mut().map(|buf| ReadRequest::new(&*file, 9968, vec![&mut buf[..]])).collect();
    let mut done = vec![0; requests.len()];
    super::ring::read_many(&mut requests, &mut done);
    std::fs::remove_file(&path).unwrap();
    if done.iter().all(|&n| n == 0) {
        return println!("this kernel gives no ring: skipped");
    }
    assert_eq!(done, vec![32; 300], "the read returns the bytes within the file");
    assert!(bufs.iter().all(|buf| buf[..32] == [7; 32] && buf[32..] == [0; 32]));
}

#[test]
fn errors_say_that_a_path_is_no_directory() {
    let base = std::env::temp_dir().join(format!("esker-no-directory-{}", std::process::id()));
    std::fs::create_dir_all(&base).unwrap();
    let (file, link) = (base.join("file"), base.join("link"));
    std::fs::write(&file, b"x").unwrap();
    std::os::unix::fs::symlink("/nowhere/at/all", &link).unwrap();
    let of_file = PosixFileSystem.create_dir_if_missing(&file).unwrap_err();
    let of_link = PosixFileSystem.create_dir_if_missing(&link).unwrap_err();
    std::fs::remove_dir_all(&base).unwrap();
    let words = format!("While mkdir: {}: Not a directory", file.display());
    assert!(of_file.message().starts_with(&words), "{of_file}");
    assert!(of_link.message().contains("the link leads to /nowhere/at/all, which is not there"), "{of_link}");
}
