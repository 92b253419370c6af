//! Work that a callback in Python may not do, since its thread may hold locks of the engine.
//!
//! In: drops and closes of handles, which the garbage collector starts within a callback. Out: the
//! same work on a thread of its own, which starts at the first drop or close.
//!
//! Invariant: threads hold the GIL while they use [`WORKER`].

use crate::call;
use pyo3::prelude::*;
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};

type Work = Box<dyn FnOnce() + Send>;

struct Worker {
    sender: Sender<Work>,
    thread: JoinHandle<()>,
    made_in: u64,
}

/// The thread, if one was started. In a forked child it may be the parent's, which does not run
/// there.
static WORKER: Mutex<Option<Worker>> = Mutex::new(None);

/// Runs `work` on the thread, after earlier work. The caller has the GIL, the thread does not.
/// Without a thread the work is not done: its handles leak.
pub(crate) fn run(work: impl FnOnce() + Send + 'static) {
    let mut worker = WORKER.lock().expect("no holder panics");
    if worker.as_ref().is_none_or(|worker| worker.made_in != call::process()) {
        // The parent's thread may have used the channel while the process forked.
        std::mem::forget(worker.take());
        *worker = start();
    }
    let work: Work = Box::new(work);
    match worker.as_ref() {
        Some(worker) => std::mem::forget(worker.sender.send(work)),
        None => std::mem::forget(work),
    }
}

fn start() -> Option<Worker> {
    let (sender, receiver) = channel::<Work>();
    let body = move || receiver.into_iter().for_each(|work| work());
    let thread = Builder::new().name("esker-later".to_owned()).spawn(body).ok()?;
    Some(Worker { sender, thread, made_in: call::process() })
}

/// Waits for the end of all work, at the interpreter's exit.
pub(crate) fn finish(py: Python<'_>) {
    let next = || WORKER.lock().expect("no holder panics").take();
    while let Some(worker) = next() {
        if worker.made_in != call::process() {
            return std::mem::forget(worker);
        }
        drop(worker.sender);
        // The standard library has reported a panic of the thread.
        py.detach(|| drop(worker.thread.join()));
    }
}
