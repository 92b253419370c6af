//! Several direct reads at once.
//!
//! In: reads of any bytes of files opened for direct I/O. Out: the result of each. Reads of one
//! file that share a block, or are adjacent, become one read of whole blocks (a run). All runs go
//! to the kernel together, and each request gets a copy of its bytes.
//!
//! Invariants
//!  1. No block of a file is read twice, unless a read failed.
//!  2. An error belongs to the requests that needed the failed bytes. After a failed run, each of
//!     its requests is read alone.

use super::Alignment;
use super::reader::{Scatter, with_scratch};
use crate::fs::RandomAccessFile;
use crate::read_many::ReadRequest;
use std::cmp::Ordering;

/// Most bytes of a run of adjacent reads: a longer run is not cheaper.
const MOST_RUN_BYTES: u64 = 1 << 20;
/// Most bytes in flight at once, unless one run alone is longer. No cache is charged for their
/// memory.
const MOST_BATCH_BYTES: usize = 8 << 20;

/// Whole blocks of one file.
struct Run<'f> {
    file: &'f dyn RandomAccessFile,
    alignment: Alignment,
    start: u64,
    end: u64,
    /// The requests in the run, as a range of the sorted requests.
    members: std::ops::Range<usize>,
}

impl Run<'_> {
    fn length(&self) -> usize {
        usize::try_from(self.end - self.start).unwrap_or(usize::MAX)
    }
}

/// The file and the offset of a request.
fn place_of(request: &ReadRequest<'_>) -> (usize, u64) {
    (std::ptr::from_ref(request.file).cast::<()>().addr(), request.offset)
}

/// Carries out all these reads. Their files must have an alignment.
pub(crate) fn read_together(requests: &mut [&mut ReadRequest<'_>]) {
    if let [request] = requests {
        request.read_behind(0);
        return;
    }
    requests.sort_by_key(|request| place_of(request));
    let runs = runs_of(requests);
    let mut rest = runs.as_slice();
    while !rest.is_empty() {
        let mut bytes: usize = 0;
        let fits = |run: &&Run<'_>| {
            bytes = bytes.saturating_add(run.length());
            bytes <= MOST_BATCH_BYTES
        };
        let (batch, later) = rest.split_at(rest.iter().take_while(fits).count().max(1));
        read_batch(batch, requests);
        rest = later;
    }
}

/// The blocks that the sorted requests need, each once.
fn runs_of<'f>(requests: &[&mut ReadRequest<'f>]) -> Vec<Run<'f>> {
    let mut runs: Vec<Run<'f>> = Vec::with_capacity(requests.len());
    for (at, request) in requests.iter().enumerate() {
        let alignment = request.file.alignment().unwrap_or(Alignment::NONE);
        let start = alignment.down(request.offset);
        let end = alignment.up(request.offset.saturating_add(request.wanted() as u64));
        if let Some(run) = runs.last_mut().filter(|run| std::ptr::addr_eq(run.file, request.file)) {
            let joined = run.end.max(end);
            let joins = match start.cmp(&run.end) {
                Ordering::Less => true,
                Ordering::Equal => joined - run.start <= MOST_RUN_BYTES,
                Ordering::Greater => false,
            };
            if joins {
                (run.end, run.members.end) = (joined, at + 1);
                continue;
            }
        }
        runs.push(Run { file: request.file, alignment, start, end, members: at..at + 1 });
    }
    runs
}

/// Reads these runs and fills the requests of their members.
fn read_batch(batch: &[Run<'_>], requests: &mut [&mut ReadRequest<'_>]) {
    // In the scratch memory, each run begins at a multiple of the largest block.
    let block = batch.iter().map(|run| run.alignment.block()).max().unwrap_or(1);
    let room = |run: &Run<'_>| run.length().next_multiple_of(block);
    let bytes = batch.iter().map(room).sum();
    with_scratch(bytes, Alignment::new(block, block), |mut scratch| {
        let mut reads = Vec::with_capacity(batch.len());
        for run in batch {
            let (blocks, behind) = scratch.split_at_mut(room(run));
            scratch = behind;
            reads.push(ReadRequest::new(run.file, run.start, vec![&mut blocks[..run.length()]]));
        }
        read_blocks(&mut reads);
        for (run, read) in batch.iter().zip(&mut reads) {
            for request in &mut requests[run.members.clone()] {
                match (&read.result, read.bufs.first()) {
                    (Ok(n), Some(blocks)) => {
                        copy_out(request, &blocks[..*n], run.start);
                    }
                    _ => request.read_behind(0),
                }
            }
        }
    });
}

fn copy_out(request: &mut ReadRequest<'_>, blocks: &[u8], start: u64) {
    let wanted = request.wanted();
    let from = usize::try_from(request.offset - start).map_or(blocks.len(), |from| from.min(blocks.len()));
    let found = &blocks[from..][..wanted.min(blocks.len() - from)];
    Scatter::new(&mut request.bufs).take(found);
    request.result = Ok(found.len());
}

/// Gives the requests to `io_uring`. Returns the number of bytes read by each: zeros if there is no
/// `io_uring`.
#[cfg(target_os = "linux")]
fn submit(reads: &mut [ReadRequest<'_>]) -> Vec<usize> {
    let mut done = vec![0; reads.len()];
    if reads.len() > 1 {
        let _watch = crate::read_many::watch(reads);
        crate::posix::ring::read_many(reads, &mut done);
    }
    done
}

#[cfg(not(target_os = "linux"))]
fn submit(reads: &mut [ReadRequest<'_>]) -> Vec<usize> {
    vec![0; reads.len()]
}

/// Reads whole blocks, each request into one buffer. The reads go to `io_uring` together, if the
/// kernel has it.
fn read_blocks(reads: &mut [ReadRequest<'_>]) {
    let done = submit(reads);
    for (read, done) in reads.iter_mut().zip(done) {
        read.count_shared(done);
        let is_whole = done.is_multiple_of(read.file.alignment().map_or(1, Alignment::block));
        if done == read.wanted() || !is_whole {
            // A read that ends within a block has reached the end of the file.
            read.result = Ok(done);
        } else {
            read.read_behind(done);
        }
    }
}
