use super::*;

/// A holder of open files that no one uses.
struct Unused(AtomicUsize);

impl ClosesFiles for Unused {
    fn close_unused(&self, count: usize) -> usize {
        let closed = count.min(self.open_files());
        self.0.fetch_sub(closed, Ordering::Relaxed);
        closed
    }

    fn open_files(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

#[test]
fn an_open_without_a_descriptor_is_repeated_while_unused_files_are_closed() {
    let holder = Arc::new(Unused(AtomicUsize::new(0)));
    let closer: Arc<dyn ClosesFiles> = holder.clone();
    add_closer(Arc::downgrade(&closer));
    for lack in [Errno::MFILE, Errno::NFILE] {
        holder.0.store(FIRST_CLOSED * 3, Ordering::Relaxed);
        let mut left = vec![];
        let done = with_descriptor(|| {
            left.push(holder.open_files());
            if holder.open_files() > 0 { Err(lack) } else { Ok(7) }
        });
        assert_eq!(done, Ok(7), "{lack}");
        assert_eq!(left, [FIRST_CLOSED * 3, FIRST_CLOSED * 2, 0], "{lack}");
        // No file is left to close.
        let mut calls = 0;
        let refused = with_descriptor(|| {
            calls += 1;
            Err::<(), _>(lack)
        });
        assert_eq!((refused, calls), (Err(lack), 1));
    }
    // Another error closes no file.
    holder.0.store(1, Ordering::Relaxed);
    assert_eq!(with_descriptor(|| Err::<(), _>(Errno::NOENT)), Err(Errno::NOENT));
    assert_eq!(holder.open_files(), 1);
}
