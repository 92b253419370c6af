//! Writers whose file system below refuses an operation.

use super::support::{encrypted, pattern, read};
use esker_env::fault::{FaultFs, FaultRule, OpKind};
use esker_env::{FileSystem, MemFs};
use std::path::Path;
use std::sync::Arc;

/// Bytes of content of a full page.
const PAGE: usize = esker_format::encryption::MOST_CONTENT;

/// The next calls after the failure.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Then {
    TruncatesAgain,
    Appends,
    Syncs,
}

/// Truncates a file to `size` bytes while the file system refuses the `nth` operation of a kind.
/// Then makes the call of `then`, and checks the content. Returns whether the truncation failed.
fn truncate(path: &Path, size: usize, (kind, nth): (OpKind, u64), then: Then) -> bool {
    let (content, tail) = (pattern(40 * PAGE + 700, 1), pattern(900, 2));
    let disk = FaultFs::new(Arc::new(MemFs::new()));
    let fs = encrypted(disk.clone());
    let mut file = fs.new_writable_file(path).unwrap();
    file.append(&content).unwrap();
    file.flush().unwrap();
    disk.add_rule(FaultRule::fail(&[kind]).nth(nth));
    let failed = file.truncate(size as u64).is_err();
    disk.clear_rules();
    let is_cut = file.file_size() == size as u64;
    assert!(is_cut || failed && file.file_size() == content.len() as u64);
    let mut wanted = content[..if is_cut { size } else { content.len() }].to_vec();
    match then {
        Then::TruncatesAgain => {
            file.truncate(size as u64).unwrap();
            wanted.truncate(size);
        }
        Then::Appends => {
            file.append(&tail).unwrap();
            wanted.extend_from_slice(&tail);
        }
        Then::Syncs => file.sync().unwrap(),
    }
    file.close().unwrap();
    assert!(read(&fs, path).unwrap() == wanted, "{}, {size} bytes, {kind:?} {nth}, {then:?}", path.display());
    failed
}

/// If the truncation fails, the size of the file says whether it is cut, and all later calls agree.
#[test]
fn a_failed_truncation_cuts_completely_or_not_at_all() {
    for path in ["/000004.log", "/MANIFEST-000005", "/000012.sst"].map(Path::new) {
        for size in [0, 1, PAGE, PAGE + 1, 20 * PAGE - 3, 40 * PAGE + 699, 40 * PAGE + 700] {
            for then in [Then::TruncatesAgain, Then::Appends, Then::Syncs] {
                for kind in [OpKind::Truncate, OpKind::Append, OpKind::Open, OpKind::Read, OpKind::Flush] {
                    let failures = (0..3).filter(|&nth| truncate(path, size, (kind, nth), then)).count();
                    assert!(failures > 0 || kind != OpKind::Truncate, "{}: {size} bytes", path.display());
                }
            }
        }
    }
}
