use super::*;
use crate::FileSystem;
use crate::posix::PosixFileSystem;
use crate::read_many::read_many;

#[test]
fn resident_ranges_are_read_and_ranges_behind_the_end_are_left() {
    let path = std::env::temp_dir().join(format!("esker-resident-{}", std::process::id()));
    let bytes: Vec<u8> = (0..10_000).map(|i| (i % 251) as u8).collect();
    std::fs::write(&path, &bytes).unwrap();
    let file = PosixFileSystem.new_random_access_file(&path).unwrap();
    let (mut a, mut b, mut c, mut d) = ([0; 100], [0; 50], [0; 300], [0; 100]);
    let mut requests = vec![
        ReadRequest::new(&*file, 1000, vec![&mut a[..], &mut b[..]]),
        ReadRequest::new(&*file, 9000, vec![&mut c[..]]),
        ReadRequest::new(&*file, 9950, vec![&mut d[..]]),
    ];
    let mut done = vec![0; 3];
    read_resident(&mut requests, &mut done);
    // Whether the kernel has it in memory still, and whether it says so, is up to it.
    assert!([0, 150].contains(&done[0]) && [0, 300].contains(&done[1]), "{done:?}");
    assert_eq!(done[2], 0, "the read ends in the middle");
    if file.never_waits() {
        assert_eq!(done, [0; 3], "file systems in memory do not support the flag");
    }
    read_many(&mut requests);
    let read: Vec<usize> = requests.into_iter().map(|request| request.result.unwrap()).collect();
    assert_eq!(read, [150, 300, 50]);
    assert_eq!((&a[..], &b[..]), (&bytes[1000..1100], &bytes[1100..1150]));
    assert_eq!((&c[..], &d[..50]), (&bytes[9000..9300], &bytes[9950..]));
    std::fs::remove_file(&path).unwrap();
}
