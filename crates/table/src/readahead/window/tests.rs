use super::*;
use esker_env::{FileSystem, MemFs};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// A file that records its reads.
#[derive(Debug)]
struct Watched {
    inner: Arc<dyn RandomAccessFile>,
    reads: Mutex<Vec<Range<u64>>>,
}

impl RandomAccessFile for Watched {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        if let Some(alignment) = self.inner.alignment() {
            assert!(alignment.fits(offset, buf), "{} bytes at {offset} would be copied", buf.len());
        }
        self.reads.lock().unwrap().push(offset..offset + buf.len() as u64);
        self.inner.read_at(offset, buf)
    }
    fn alignment(&self) -> Option<Alignment> {
        self.inner.alignment()
    }
    fn size(&self) -> Result<u64> {
        self.inner.size()
    }
    fn path(&self) -> &Path {
        self.inner.path()
    }
}

fn watched(bytes: &[u8], is_direct: bool) -> Watched {
    let (fs, path) = (MemFs::new(), Path::new("/f"));
    let mut file = fs.new_writable_file(path).unwrap();
    file.append(bytes).unwrap();
    file.close().unwrap();
    Watched { inner: fs.open_random_access(path, is_direct).unwrap(), reads: Mutex::default() }
}

fn random(bytes: usize) -> Vec<u8> {
    let mut data = vec![0; bytes];
    fastrand::Rng::with_seed(bytes as u64).fill(&mut data);
    data
}

#[test]
fn any_stretches_hold_what_the_file_holds() {
    for (seed, is_direct) in (0..200).map(|seed| (seed, seed % 2 == 0)) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let data = random(rng.usize(1..30_000));
        let (file, mut window) = (watched(&data, is_direct), Window::default());
        for _ in 0..40 {
            let from = rng.usize(..data.len());
            let to = (from + rng.usize(1..6000)).min(data.len());
            window.cover(&file, from as u64..to as u64).unwrap();
            assert_eq!(
                window.get(from as u64, to - from),
                Some(&data[from..to]),
                "seed {seed}: {from}..{to}"
            );
            for _ in 0..5 {
                let at = rng.usize(..data.len());
                let n = rng.usize(..3000).min(data.len() - at);
                let found = window.get(at as u64, n);
                assert!(found.is_none_or(|found| found == &data[at..at + n]), "seed {seed}: {n} at {at}");
            }
            assert_eq!(window.get(data.len() as u64, 1), None);
            assert_eq!(window.get(u64::MAX, 1), None);
        }
    }
}

/// Requests the ranges of a scan. Each begins with a block that lies partly in the last range.
#[test]
fn a_scan_reads_no_byte_twice_in_either_direction() {
    for is_direct in [false, true] {
        for backward in [false, true] {
            let data = random(200_000);
            let (file, mut window) = (watched(&data, is_direct), Window::default());
            let blocks: Vec<Range<u64>> = (0..200_000).step_by(1000).map(|at| at..at + 1000).collect();
            let mut order: Vec<&Range<u64>> = blocks.iter().collect();
            if backward {
                order.reverse();
            }
            for block in order {
                if window.get(block.start, 1000).is_none() {
                    let wanted = if backward {
                        block.start.saturating_sub(7777)..block.end
                    } else {
                        block.start..(block.end + 7777).min(200_000)
                    };
                    window.cover(&file, wanted).unwrap();
                }
                let expected = &data[block.start as usize..block.end as usize];
                assert_eq!(window.get(block.start, 1000), Some(expected));
            }
            let mut reads = file.reads.into_inner().unwrap();
            reads.sort_by_key(|read| read.start);
            for pair in reads.windows(2) {
                assert!(pair[0].end <= pair[1].start, "{pair:?} (direct {is_direct}, backward {backward})");
            }
            assert!(reads.len() > 10);
        }
    }
}

#[test]
fn a_read_that_fails_leaves_nothing() {
    let fs = esker_env::FaultFs::new(Arc::new(MemFs::new()));
    let path = Path::new("/f");
    let mut file = fs.new_writable_file(path).unwrap();
    file.append(&random(20_000)).unwrap();
    file.close().unwrap();
    let file = fs.new_direct_random_access_file(path).unwrap();
    let mut window = Window::default();
    window.cover(&*file, 100..5000).unwrap();
    fs.add_rule(esker_env::FaultRule::fail(&[esker_env::OpKind::Read]));
    assert!(window.cover(&*file, 4000..9000).is_err());
    assert_eq!(window.get(200, 10), None);
    window.cover(&*file, 4000..9000).unwrap();
    assert!(window.get(4000, 5000).is_some_and(|found| found == &random(20_000)[4000..9000]));
}
