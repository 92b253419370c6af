//! The bytes of a file in memory. A clone is cheap; a change copies only the pieces that it
//! touches.
//!
//! Invariant: every chunk but the last has exactly `CHUNK_BYTES`, the last has at least one byte;
//! together they have `len` bytes.

use esker_base::sync::Arc;

const CHUNK_BYTES: usize = 8 << 10;

#[derive(Clone, Debug, Default)]
pub(crate) struct Content {
    chunks: Vec<Arc<Vec<u8>>>,
    len: u64,
}

/// The chunk that contains an offset, and the place in the chunk.
fn place(offset: u64) -> (usize, usize) {
    let chunk =
        usize::try_from(offset / CHUNK_BYTES as u64).expect("files in memory are smaller than memory");
    (chunk, (offset % CHUNK_BYTES as u64) as usize)
}

impl Content {
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Fills `buf` from `offset`, up to the end of the content. Returns the number of bytes.
    pub(crate) fn read_at(&self, offset: u64, buf: &mut [u8]) -> usize {
        let mut done = 0;
        let mut at = offset;
        while done < buf.len() && at < self.len {
            let (i, within) = place(at);
            let there = &self.chunks[i][within..];
            let n = there.len().min(buf.len() - done);
            buf[done..done + n].copy_from_slice(&there[..n]);
            done += n;
            at += n as u64;
        }
        done
    }

    /// Writes `data` at `offset`. Fills a gap before it with zeros.
    pub(crate) fn write_at(&mut self, offset: u64, data: &[u8]) {
        if offset > self.len {
            self.set_len(offset);
        }
        let mut rest = data;
        let mut at = offset;
        while !rest.is_empty() {
            let (i, within) = place(at);
            let (now, later) = rest.split_at(rest.len().min(CHUNK_BYTES - within));
            if i == self.chunks.len() {
                self.chunks.push(Arc::default());
            }
            let chunk = Arc::make_mut(&mut self.chunks[i]);
            if chunk.len() < within + now.len() {
                chunk.resize(within + now.len(), 0);
            }
            chunk[within..within + now.len()].copy_from_slice(now);
            at += now.len() as u64;
            rest = later;
        }
        self.len = self.len.max(at);
    }

    /// Cuts the content to `len` bytes, or extends it with zeros.
    pub(crate) fn set_len(&mut self, len: u64) {
        let (whole, rest) = place(len);
        if len < self.len {
            self.chunks.truncate(whole + usize::from(rest > 0));
            if rest > 0 {
                Arc::make_mut(&mut self.chunks[whole]).truncate(rest);
            }
        } else {
            if let Some(last) = self.chunks.last_mut()
                && last.len() < CHUNK_BYTES
            {
                let last_start = (self.len - 1) / CHUNK_BYTES as u64 * CHUNK_BYTES as u64;
                let wanted = (len - last_start).min(CHUNK_BYTES as u64) as usize;
                Arc::make_mut(last).resize(wanted, 0);
            }
            while self.chunks.len() < whole {
                self.chunks.push(Arc::new(vec![0; CHUNK_BYTES]));
            }
            if rest > 0 && self.chunks.len() == whole {
                self.chunks.push(Arc::new(vec![0; rest]));
            }
        }
        self.len = len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(c: &Content) -> Vec<u8> {
        let mut all = vec![0xEE; c.len() as usize + 10];
        let n = c.read_at(0, &mut all);
        all.truncate(n);
        all
    }

    #[test]
    fn behaves_as_a_vector_and_clones_keep_their_bytes() {
        for seed in 0..200 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let (mut content, mut model) = (Content::default(), Vec::<u8>::new());
            let mut clones = Vec::new();
            for _ in 0..40 {
                let at = rng.usize(0..3 * CHUNK_BYTES);
                match rng.u8(0..4) {
                    0 => {
                        content.set_len(at as u64);
                        model.resize(at, 0);
                    }
                    1 => clones.push((content.clone(), model.clone())),
                    _ => {
                        let data = vec![rng.u8(1..); rng.usize(0..2 * CHUNK_BYTES)];
                        let at = if rng.bool() { model.len() } else { at };
                        content.write_at(at as u64, &data);
                        if model.len() < at {
                            model.resize(at, 0);
                        }
                        model.resize(model.len().max(at + data.len()), 0);
                        model[at..at + data.len()].copy_from_slice(&data);
                    }
                }
                assert_eq!(bytes(&content), model, "seed {seed}");
                let (from, n) = (rng.usize(0..4 * CHUNK_BYTES), rng.usize(0..2 * CHUNK_BYTES));
                let mut buf = vec![0; n];
                let got = content.read_at(from as u64, &mut buf);
                let expected = &model[from.min(model.len())..(from + n).min(model.len())];
                assert_eq!(&buf[..got], expected, "seed {seed}");
            }
            for (clone, then) in clones {
                assert_eq!(bytes(&clone), then, "seed {seed}");
            }
        }
    }
}
