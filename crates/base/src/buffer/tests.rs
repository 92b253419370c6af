use super::*;
use crate::rng::Rng;
use std::sync::mpsc;

#[test]
fn buffers_keep_their_bytes_while_other_buffers_come_and_go() {
    let mut rng = Rng::new(1);
    let mut live: Vec<(Buffer, u8)> = Vec::new();
    for step in 0..if cfg!(miri) { 300 } else { 30_000_u32 } {
        if live.len() > 200 || (rng.below(3) == 0 && !live.is_empty()) {
            let (buffer, mark) = live.swap_remove(rng.below(live.len() as u64) as usize);
            assert!(buffer.iter().all(|&byte| byte == mark), "another owner wrote to the buffer");
        } else {
            let most = [1 << 9, 1 << 13, 1 << 16, 1 << 19][rng.below(4) as usize];
            let mut buffer = Buffer::new(1 + rng.below(most) as usize);
            buffer.fill(step as u8);
            live.push((buffer, step as u8));
        }
    }
    assert!(live.iter().all(|(buffer, mark)| buffer.iter().all(|byte| byte == mark)));
}

#[test]
fn a_thread_reuses_dropped_buffers_and_keeps_a_limited_number() {
    if IS_PLAIN {
        return;
    }
    let body = || {
        let first = Buffer::new(5000);
        let at = first.as_ptr();
        drop(first);
        assert_eq!(Buffer::new(5000).as_ptr(), at);
        assert_ne!(Buffer::new(2000).as_ptr(), at, "a far too large buffer is not reused");
        drop((0..40).map(|_| Buffer::new(5000)).collect::<Vec<_>>());
        let kept = || SPARE.with_borrow(|spare| (spare.len(), spare.iter().map(Piece::room).sum::<usize>()));
        assert_eq!(kept().0, MOST_SPARE);
        drop((0..5).map(|_| Buffer::new(MOST_SPARE_BYTES / 3)).collect::<Vec<_>>());
        assert!(kept().1 <= MOST_SPARE_BYTES && kept().0 >= 2, "{:?}", kept());
        drop(Buffer::new(MOST_SPARE_BYTES + 100));
        assert!(kept().1 <= MOST_SPARE_BYTES, "a buffer too large to keep was kept");
    };
    // A thread of its own: nothing else has dropped anything there.
    std::thread::scope(|scope| scope.spawn(body).join().unwrap());
}

#[test]
fn buffers_are_little_larger_than_requested_and_report_their_memory() {
    for length in [0, 1, 1023, 1024, 4096, 4101, 10_000, 65_541, 262_144, 262_145, 3_000_000] {
        let buffer = Buffer::new(length);
        assert_eq!(buffer.len(), length);
        let memory = buffer.memory_bytes();
        assert!((length..=length + length / 8 + 128).contains(&memory), "{memory} for {length}");
        assert!(buffer.room() <= memory);
    }
}

#[test]
fn a_buffer_is_cut_and_lengthened_in_its_room() {
    for mut buffer in [
        Buffer::new(2000),
        Buffer::from({
            let mut bytes = Vec::with_capacity(2000);
            bytes.extend([7; 1500]);
            bytes
        }),
    ] {
        buffer.truncate(3000);
        buffer.truncate(10);
        buffer.fill(1);
        let (at, room) = (buffer.as_ptr(), buffer.room());
        buffer.lengthen(room);
        assert_eq!((buffer.len(), buffer.as_ptr()), (room, at));
        assert_eq!(buffer[..10], [1; 10]);
        assert_eq!(buffer.clone()[..], buffer[..]);
        buffer.lengthen(5);
        assert_eq!(buffer.len(), room);
        assert!(
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| buffer.lengthen(room + 1))).is_err()
        );
    }
    assert!(Buffer::default().is_empty());
}

/// Buffers made on one thread are dropped on another, as a cache does with evicted blocks.
#[test]
fn threads_hand_buffers_to_each_other() {
    let (count, threads) = if cfg!(miri) { (20, 2) } else { (3000, 4) };
    let (send, receive): (Vec<_>, Vec<_>) = (0..threads).map(|_| mpsc::channel::<(Buffer, u8)>()).unzip();
    let run = |number: usize, receive: mpsc::Receiver<(Buffer, u8)>, send: mpsc::Sender<(Buffer, u8)>| {
        let mut rng = Rng::new(number as u64);
        for i in 0..count {
            let mut buffer = Buffer::new(1024 + rng.below(9000) as usize);
            buffer.fill(i as u8);
            send.send((buffer, i as u8)).unwrap();
            let (got, mark) = receive.recv().unwrap();
            assert!(got.iter().all(|&byte| byte == mark), "another owner wrote to the buffer");
        }
    };
    std::thread::scope(|scope| {
        for (number, receive) in receive.into_iter().enumerate() {
            let send = send[(number + 1) % threads].clone();
            scope.spawn(move || run(number, receive, send));
        }
    });
}
