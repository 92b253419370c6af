//! Randomness from the operating system, for identities. Not for tests, which need seeds, and not
//! for hot paths.

#[cfg(not(shuttle))]
use crate::posix::os::random_bytes;
use std::fmt::Write;

/// In a simulation: seeds the results of [`fill`] on this thread of the system.
#[cfg(shuttle)]
pub fn seed(seed: u64) {
    SIMULATED.set(seed);
}

#[cfg(shuttle)]
thread_local! {
    static SIMULATED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Fills `bytes` with random bytes.
#[cfg(shuttle)]
pub fn fill(bytes: &mut [u8]) {
    let mut rng = fastrand::Rng::with_seed(SIMULATED.get());
    rng.fill(bytes);
    SIMULATED.set(rng.get_seed());
}

/// Fills `bytes` with random bytes.
///
/// # Panics
/// If the kernel has no randomness, which has not happened on Linux since 3.17.
#[cfg(not(shuttle))]
pub fn fill(bytes: &mut [u8]) {
    let mut done = 0;
    while done < bytes.len() {
        done += rustix::io::retry_on_intr(|| random_bytes(&mut bytes[done..]))
            .expect("the kernel gives random bytes");
    }
}

/// A random number.
pub fn u64() -> u64 {
    let mut bytes = [0; 8];
    fill(&mut bytes);
    u64::from_le_bytes(bytes)
}

/// A random (version 4) UUID, 36 characters: the content of `IDENTITY`.
pub fn uuid_v4() -> String {
    let mut b = [0; 16];
    fill(&mut b);
    b[6] = (b[6] & 0x0F) | 0x40;
    b[8] = (b[8] & 0x3F) | 0x80;
    let mut out = String::with_capacity(36);
    for (i, byte) in b.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        write!(out, "{byte:02x}").expect("a write to a String cannot fail");
    }
    out
}

/// A name for one opening of a database: 20 base-36 digits (`rocksdb.creating.session.identity`).
pub fn session_id() -> String {
    loop {
        let (upper, lower) = (u64(), u64());
        if lower != 0 {
            return session_id_from(upper, lower);
        }
    }
}

/// The session id of two random words: 8 digits of `upper << 2 | lower >> 62`, then 12 digits of
/// the low 62 bits of `lower`, most significant first. Source: RocksDB `table/unique_id.cc`.
fn session_id_from(upper: u64, lower: u64) -> String {
    let mut out = [b'0'; 20];
    base36((upper << 2) | (lower >> 62), &mut out[..8]);
    base36(lower & (u64::MAX >> 2), &mut out[8..]);
    out.iter().map(|&c| char::from(c)).collect()
}

/// The last `out.len()` base-36 digits of `value`.
fn base36(mut value: u64, out: &mut [u8]) {
    for digit in out.iter_mut().rev() {
        *digit = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[(value % 36) as usize];
        value /= 36;
    }
}

#[cfg(test)]
mod tests;
