//! How do I build a first-in, first-out queue? Pops stay fast however many messages were deleted
//! before.
//!
//! Run: `cargo run -p esker --example queue`
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use esker::{Db, Options};

struct Queue {
    db: Db,
    next: u64,
}

impl Queue {
    fn push(&mut self, message: &str) -> esker::Result<()> {
        self.db.put(self.next.to_be_bytes(), message)?;
        self.next += 1;
        Ok(())
    }

    fn pop(&mut self) -> esker::Result<Option<Vec<u8>>> {
        let mut iter = self.db.iter()?;
        iter.seek_to_first();
        let Some((key, value)) = iter.item() else {
            iter.status()?;
            return Ok(None);
        };
        self.db.delete(key)?;
        Ok(Some(value.to_vec()))
    }
}

fn main() -> esker::Result<()> {
    let dir = std::env::temp_dir().join(format!("esker-example-queue-{}", std::process::id()));
    let mut options = Options::default();
    options.db.create_if_missing = true;
    let mut queue = Queue { db: Db::open(&options, &dir)?, next: 0 };

    for i in 0..10_000 {
        queue.push(&format!("message {i}"))?;
    }
    let mut popped = 0;
    while let Some(message) = queue.pop()? {
        assert_eq!(message, format!("message {popped}").into_bytes());
        popped += 1;
    }
    println!("{popped} messages popped in order");

    drop(queue);
    esker::destroy_db(&options.db, &dir)
}
