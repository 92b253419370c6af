//! Memory of blocks that have gone, kept by the thread on which they went for those that it reads next.
//!
//! A cache that is smaller than what is read lets one block go for each that comes in, mostly on the same thread. Blocks are of
//! about one size, too large for what allocators keep for each thread, so giving one back and getting the next cost as much
//! as finding it in the file (seek and 100 nexts over four times the cache, 8 threads: a seventh of all processor time).
//!
//! Invariants
//!  1. A thread keeps at most [`MOST`] buffers, and at most [`MOST_BYTES`] bytes in them. Nobody is charged for them.
//!  2. What is handed out is hardly larger than it was asked for, so that a cache's charges stay those of its blocks.

use std::cell::RefCell;

/// Buffers of one thread: what a small batch reads at once.
const MOST: usize = 16;
/// Bytes of one thread's buffers.
const MOST_BYTES: usize = 128 << 10;
/// Smaller ones are quick to get and to give back.
const LEAST: usize = 1 << 10;

thread_local! {
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// `length` bytes, whatever they are, in memory for at most an eighth more.
pub(crate) fn take(length: usize) -> Vec<u8> {
    take_up_to(length, length + length / 8)
}

/// `length` bytes, whatever they are, in memory for at most `most`.
pub(crate) fn take_up_to(length: usize, most: usize) -> Vec<u8> {
    let find = |spare: &RefCell<Vec<Vec<u8>>>| {
        let mut spare = spare.borrow_mut();
        let at = spare.iter().rposition(|buffer| (length..=most).contains(&buffer.capacity()))?;
        Some(spare.remove(at))
    };
    // A thread that ends has none any more.
    let found = if length < LEAST { None } else { SPARE.try_with(find).ok().flatten() };
    match found {
        Some(mut buffer) => {
            buffer.resize(length, 0);
            buffer
        }
        None => vec![0; length],
    }
}

/// Keeps the memory; what has lain here longest goes for it.
pub(crate) fn give(buffer: Vec<u8>) {
    let bytes = buffer.capacity();
    if !(LEAST..=MOST_BYTES).contains(&bytes) {
        return;
    }
    _ = SPARE.try_with(|spare| {
        let mut spare = spare.borrow_mut();
        while spare.len() >= MOST || spare.iter().map(Vec::capacity).sum::<usize>() + bytes > MOST_BYTES {
            spare.remove(0);
        }
        spare.push(buffer);
    });
}

#[cfg(test)]
mod tests;
