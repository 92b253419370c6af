use super::*;
use crate::fs::{RandomAccessFile, SequentialFile, WritableFile};
use crate::read_many::{ReadRequest, read_many};
use esker_base::{Error, Result};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// A medium that counts the reads of each of its blocks, and has bad blocks.
#[derive(Debug)]
struct Medium {
    bytes: Vec<u8>,
    alignment: Alignment,
    bad: Range<u64>,
    reads: Mutex<Vec<Range<u64>>>,
}

impl Medium {
    fn new(bytes: usize, alignment: Alignment) -> Medium {
        let mut content = vec![0; bytes];
        fastrand::Rng::with_seed(bytes as u64).fill(&mut content);
        Medium { bytes: content, alignment, bad: 0..0, reads: Mutex::default() }
    }

    /// The largest number of reads of one block since the last call.
    fn most_reads(&self) -> usize {
        let mut count = BTreeMap::<u64, usize>::new();
        for read in self.reads.lock().unwrap().drain(..) {
            for block in (read.start..read.end).step_by(self.alignment.block()) {
                *count.entry(block).or_default() += 1;
            }
        }
        count.into_values().max().unwrap_or(0)
    }
}

impl DirectSource for Arc<Medium> {
    fn alignment(&self) -> Alignment {
        self.alignment
    }
    fn read(&self, offset: u64, blocks: &mut [u8]) -> Result<usize> {
        assert!(self.alignment.fits(offset, blocks), "{} bytes at {offset}", blocks.len());
        let end = offset + blocks.len() as u64;
        self.reads.lock().unwrap().push(offset..end);
        if offset < self.bad.end && self.bad.start < end {
            return Err(Error::io(format!("a bad block between {offset} and {end}")));
        }
        let there = self.bytes.get(offset as usize..).unwrap_or_default();
        let n = there.len().min(blocks.len());
        blocks[..n].copy_from_slice(&there[..n]);
        Ok(n)
    }
    fn size(&self) -> Result<u64> {
        Ok(self.bytes.len() as u64)
    }
    fn path(&self) -> &Path {
        Path::new("/medium")
    }
}

/// Media of every kind: sectors, pages, large blocks with small alignment in memory. Some end with
/// a whole block, some within one.
fn media() -> Vec<Arc<Medium>> {
    let alignments = [(512, 512), (4096, 4096), (4096, 4), (512, 1), (16 << 10, 512)];
    let sizes = [0, 1, 511, 512, 40_000, 3 * 4096, 1_100_000];
    let of = |(block, memory)| sizes.map(|n| Arc::new(Medium::new(n, Alignment::new(block, memory))));
    alignments.into_iter().flat_map(of).collect()
}

#[test]
fn alignments_round_and_recognize() {
    let a = Alignment::new(4096, 512);
    assert_eq!((a.down(0), a.down(4095), a.down(4096), a.down(u64::MAX)), (0, 0, 4096, u64::MAX - 4095));
    assert_eq!((a.up(0), a.up(1), a.up(4096), a.up(4097)), (0, 4096, 4096, 8192));
    assert_eq!(
        Alignment::new(512, 4096).block(),
        4096,
        "a block of aligned memory is followed by aligned memory"
    );
    let mut buffer = AlignedBuffer::with_capacity(8192, a);
    buffer.resize(8192);
    assert!(a.fits(4096, buffer.as_slice()) && a.fits(0, &buffer.as_slice()[512..4608]));
    assert!(!a.fits(512, buffer.as_slice()) && !a.fits(0, &buffer.as_slice()[..512]));
    assert!(!a.fits(0, &buffer.as_slice()[1..4097]));
    assert!(Alignment::NONE.fits(7, &buffer.as_slice()[3..8]));
}

#[test]
fn buffers_keep_their_place() {
    for memory in [1, 16, 512, 4096] {
        let alignment = Alignment::new(4096, memory);
        let mut buffer = AlignedBuffer::with_capacity(10_000, alignment);
        let at = buffer.as_slice().as_ptr();
        assert!(buffer.is_empty() && buffer.capacity() == 10_000 && buffer.serves(10_000, alignment));
        buffer.extend(b"abcdef");
        buffer.resize(10_000);
        assert_eq!((buffer.len(), &buffer.as_slice()[..8]), (10_000, &b"abcdef\0\0"[..]));
        buffer.drop_front(4);
        buffer.resize(2);
        buffer.extend(&[9; 9_998]);
        assert_eq!((&buffer.as_slice()[..4], buffer.as_slice().as_ptr()), (&b"ef\x09\x09"[..], at));
        assert!(!buffer.serves(10_001, alignment) && at.addr().is_multiple_of(memory));
    }
}

#[test]
fn any_bytes_are_read_and_no_block_twice() {
    for medium in media() {
        let (file, data) = (DirectRandomAccessFile::new(medium.clone()), &medium.bytes);
        let mut rng = fastrand::Rng::with_seed(7);
        for round in 0..60 {
            let from = if rng.bool() {
                rng.usize(..=data.len() + 9000)
            } else {
                data.len().saturating_sub(rng.usize(..9000))
            };
            // Sometimes more than the thread's buffer holds.
            let most = if round % 20 == 0 { 2_200_000 } else { 20_000 };
            let mut buf = vec![0xEE; rng.usize(..most)];
            let expected = &data[from.min(data.len())..(from + buf.len()).min(data.len())];
            let n = file.read_at(from as u64, &mut buf).unwrap();
            assert!(n == expected.len() && buf[..n] == *expected, "{from}+{} of {medium:?}", buf.len());
            assert!(buf[n..].iter().all(|b| *b == 0xEE), "bytes behind the end are left alone");
            assert!(medium.most_reads() <= 1 || buf.len() > 1 << 19);
        }
        assert_eq!((file.size().unwrap(), file.path()), (data.len() as u64, Path::new("/medium")));
        assert_eq!(file.read_at(u64::MAX - 70_000, &mut [0; 100]).unwrap(), 0);
    }
}

#[test]
fn several_reads_share_their_blocks() {
    for medium in media() {
        let (file, data) = (DirectRandomAccessFile::new(medium.clone()), &medium.bytes);
        for seed in 0..8 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let wanted: Vec<(usize, Vec<usize>)> = (0..rng.usize(1..60))
                .map(|_| {
                    let from = rng.usize(..=data.len() + 1000);
                    (from, (0..rng.usize(1..5)).map(|_| rng.usize(..6000)).collect())
                })
                .collect();
            let mut bufs: Vec<Vec<Vec<u8>>> =
                wanted.iter().map(|(_, lengths)| lengths.iter().map(|n| vec![0xEE; *n]).collect()).collect();
            let mut requests: Vec<_> = (wanted.iter().zip(&mut bufs))
                .map(|((from, _), bufs)| {
                    ReadRequest::new(&file, *from as u64, bufs.iter_mut().map(Vec::as_mut_slice).collect())
                })
                .collect();
            read_many(&mut requests);
            let counts: Vec<usize> = requests.iter().map(|r| *r.result.as_ref().unwrap()).collect();
            for (((from, lengths), bufs), n) in wanted.iter().zip(&bufs).zip(counts) {
                let end = (from + lengths.iter().sum::<usize>()).min(data.len());
                let expected = &data[(*from).min(data.len())..end.max((*from).min(data.len()))];
                assert!(n == expected.len() && bufs.concat()[..n] == *expected, "seed {seed}: {n} of {from}");
                assert!(bufs.concat()[n..].iter().all(|b| *b == 0xEE));
            }
            assert!(medium.most_reads() <= 1, "seed {seed}: a block was read twice");
        }
    }
}

#[test]
fn a_bad_block_fails_only_the_reads_of_it() {
    let mut medium = Medium::new(100_000, Alignment::new(4096, 512));
    medium.bad = 8192..12_288;
    let medium = Arc::new(medium);
    let file = DirectRandomAccessFile::new(medium.clone());
    let mut bufs = [[0; 5000]; 4];
    let starts = [3000_u64, 7000, 12_288, 50_000];
    let mut requests: Vec<_> = (starts.iter().zip(&mut bufs))
        .map(|(from, buf)| ReadRequest::new(&file, *from, vec![&mut buf[..]]))
        .collect();
    read_many(&mut requests);
    let results: Vec<_> = requests.into_iter().map(|r| r.result).collect();
    assert_eq!(results.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true, true]);
    assert!(results[1].as_ref().unwrap_err().message().contains("a bad block"));
    for at in [0, 2, 3] {
        assert!(bufs[at] == medium.bytes[starts[at] as usize..][..5000]);
    }
    assert!(file.read_at(8191, &mut [0; 2]).is_err());
    let mut sequential = DirectSequentialFile::new(medium);
    assert!(sequential.read(&mut [0; 10]).is_err());
    sequential.skip(90_000).unwrap();
    assert_eq!(sequential.read(&mut [0; 20_000]).unwrap(), 10_000, "bytes behind the bad block are read");
}

#[test]
fn sequential_reads_and_skips_read_no_block_twice() {
    for medium in media() {
        let (mut file, data) = (DirectSequentialFile::new(medium.clone()), &medium.bytes);
        let mut rng = fastrand::Rng::with_seed(3);
        let mut at = 0;
        for _ in 0..500 {
            let n = rng.usize(..20_000);
            if rng.u8(..10) == 0 {
                file.skip(n as u64).unwrap();
                at += n;
                continue;
            }
            let mut buf = vec![0; n];
            let got = file.read(&mut buf).unwrap();
            let expected = &data[at.min(data.len())..(at + n).min(data.len())];
            assert!(got == expected.len() && buf[..got] == *expected, "{n} bytes at {at}");
            at += got;
            if got < n {
                break;
            }
        }
        assert!(medium.most_reads() <= 1);
        file.skip(1 << 40).unwrap();
        assert_eq!(file.read(&mut [0; 10]).unwrap(), 0);
    }
}

/// A sink that records its calls and refuses some.
#[derive(Debug, Default)]
struct Disk {
    bytes: Vec<u8>,
    /// Number of writes that still succeed; `None` for all.
    writes_left: Option<usize>,
    refuses_lengths: bool,
    synced: Option<(Vec<u8>, bool)>,
    writes: usize,
}

struct Sink(Arc<Mutex<Disk>>, Alignment);

impl DirectSink for Sink {
    fn alignment(&self) -> Alignment {
        self.1
    }
    fn write(&mut self, offset: u64, blocks: &[u8]) -> Result<usize> {
        assert!(self.1.fits(offset, blocks) && !blocks.is_empty(), "{} bytes at {offset}", blocks.len());
        let mut disk = self.0.lock().unwrap();
        if let Some(left) = &mut disk.writes_left {
            *left = left.checked_sub(1).ok_or_else(|| Error::io("the disk is full"))?;
        }
        // Writes at most three blocks at once.
        let n = blocks.len().min(3 * self.1.block());
        let end = offset as usize + n;
        disk.writes += 1;
        if disk.bytes.len() < end {
            disk.bytes.resize(end, 0);
        }
        disk.bytes[offset as usize..end].copy_from_slice(&blocks[..n]);
        Ok(n)
    }
    fn read(&mut self, offset: u64, block: &mut [u8]) -> Result<usize> {
        let disk = self.0.lock().unwrap();
        let there = disk.bytes.get(offset as usize..).unwrap_or_default();
        let n = there.len().min(block.len());
        block[..n].copy_from_slice(&there[..n]);
        Ok(n)
    }
    fn set_len(&mut self, size: u64) -> Result<()> {
        let mut disk = self.0.lock().unwrap();
        if disk.refuses_lengths {
            return Err(Error::io("the length is unchanged"));
        }
        disk.bytes.resize(size as usize, 0);
        Ok(())
    }
    fn sync(&mut self, all: bool) -> Result<()> {
        let mut disk = self.0.lock().unwrap();
        disk.synced = Some((disk.bytes.clone(), all));
        Ok(())
    }
    fn preallocate(&mut self, _offset: u64, _bytes: u64) -> Result<bool> {
        Ok(true)
    }
}

fn writer(block: usize, buffer_bytes: usize) -> (Arc<Mutex<Disk>>, DirectWritableFile<Sink>) {
    let disk = Arc::new(Mutex::new(Disk::default()));
    let sink = Sink(disk.clone(), Alignment::new(block, 512));
    (disk, DirectWritableFile::new(sink, Path::new("/disk"), buffer_bytes))
}

#[test]
fn appends_of_all_sizes_are_there_after_flush_sync_and_close() {
    for seed in 0..60 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let block = [512, 4096][rng.usize(..2)];
        let (disk, mut file) = writer(block, [0, 1, 4096, 10_000, 64 << 10][rng.usize(..5)]);
        let mut model = Vec::new();
        for _ in 0..rng.usize(1..40) {
            match rng.u8(..12) {
                0 => {
                    file.flush().unwrap();
                    assert!(disk.lock().unwrap().bytes == model, "seed {seed}");
                }
                1 | 2 => {
                    if rng.bool() { file.sync() } else { file.fsync() }.unwrap();
                    let disk = disk.lock().unwrap();
                    assert!(disk.synced.as_ref().is_some_and(|synced| synced.0 == model), "seed {seed}");
                }
                3 => {
                    let size = rng.usize(..model.len() + 9000);
                    file.truncate(size as u64).unwrap();
                    model.resize(size, 0);
                    assert!(disk.lock().unwrap().bytes == model, "seed {seed}");
                }
                4 => file.preallocate(0, rng.u64(..1 << 20)).unwrap(),
                _ => {
                    let data = vec![rng.u8(1..); rng.usize(..30_000)];
                    file.append(&data).unwrap();
                    model.extend_from_slice(&data);
                }
            }
            assert_eq!(file.file_size(), model.len() as u64);
        }
        if rng.bool() {
            file.close().unwrap();
            assert!(file.append(b"x").is_err() && file.sync().is_err() && file.close().is_err());
        }
        drop(file);
        assert!(disk.lock().unwrap().bytes == model, "seed {seed}");
    }
}

#[test]
fn a_length_that_was_cut_is_synced_with_all_that_belongs_to_it() {
    let (disk, mut file) = writer(4096, 64 << 10);
    file.append(&[1; 8192]).unwrap();
    file.sync().unwrap();
    assert_eq!(disk.lock().unwrap().synced.take(), Some((vec![1; 8192], false)));
    file.append(b"tail").unwrap();
    file.sync().unwrap();
    let writes = disk.lock().unwrap().writes;
    assert_eq!(disk.lock().unwrap().synced.take().map(|(bytes, all)| (bytes.len(), all)), Some((8196, true)));
    // The second sync and the close have nothing left to write.
    file.sync().unwrap();
    assert_eq!(disk.lock().unwrap().synced.take().map(|(_, all)| all), Some(false));
    file.close().unwrap();
    assert_eq!(disk.lock().unwrap().writes, writes);
}

#[test]
fn bytes_that_could_not_be_written_stay_for_another_attempt() {
    for writes_left in 0..6 {
        let (disk, mut file) = writer(512, 4096);
        disk.lock().unwrap().writes_left = Some(writes_left);
        let data: Vec<u8> = (0..12_345_u32).map(|i| i as u8).collect();
        let result = file.append(&data).and_then(|()| file.sync());
        assert_eq!(result.unwrap_err().message(), "the disk is full", "{writes_left} writes");
        let size = file.file_size() as usize;
        assert!(file.flush().is_err() && file.close().is_err());
        assert_eq!(file.file_size() as usize, size, "unwritten bytes count until they are discarded");
        disk.lock().unwrap().writes_left = None;
        file.append(&data[size..]).unwrap();
        disk.lock().unwrap().refuses_lengths = true;
        assert_eq!(file.sync().unwrap_err().message(), "the length is unchanged");
        disk.lock().unwrap().refuses_lengths = false;
        file.sync().unwrap();
        assert!(disk.lock().unwrap().bytes == data, "{writes_left} writes");
        file.close().unwrap();
    }
}

#[test]
fn a_sequential_read_that_failed_has_consumed_nothing() {
    let mut medium = Medium::new(3 << 20, Alignment::new(512, 512));
    medium.bad = 3 << 19..2 << 20;
    let medium = Arc::new(medium);
    let mut file = DirectSequentialFile::new(medium.clone());
    let mut buf = vec![0; 100];
    for at in [0, 100] {
        file.read(&mut vec![0; 2 << 20]).unwrap_err();
        assert_eq!(file.read(&mut buf).unwrap(), 100);
        assert!(buf == medium.bytes[at..at + 100], "at {at}");
    }
}
