//! Feature `tracing`: jobs are spans, and stalls are events.

use esker::{Db, Options};
use esker_monitor::TracingListener;
use esker_testkit::TempDir;
use std::collections::BTreeMap;
use std::fmt::{Debug, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

#[derive(Clone, Default)]
struct Told {
    lines: Arc<Mutex<Vec<String>>>,
    next: Arc<AtomicU64>,
    /// Handles of each open span.
    handles: Arc<Mutex<BTreeMap<u64, u64>>>,
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

impl Told {
    fn tell(&self, line: String) {
        self.lines.lock().unwrap().push(line);
    }
}

impl Subscriber for Told {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("esker")
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let id = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        self.handles.lock().unwrap().insert(id, 1);
        let mut fields = Fields(format!("{id} span {}", span.metadata().name()));
        span.record(&mut fields);
        self.tell(fields.0);
        Id::from_u64(id)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(event.metadata().level().to_string());
        event.record(&mut fields);
        self.tell(fields.0);
    }
    fn enter(&self, id: &Id) {
        self.tell(format!("{} enter", id.into_u64()));
    }
    fn exit(&self, _: &Id) {}
    fn clone_span(&self, id: &Id) -> Id {
        *self.handles.lock().unwrap().get_mut(&id.into_u64()).unwrap() += 1;
        id.clone()
    }
    fn try_close(&self, id: Id) -> bool {
        let mut handles = self.handles.lock().unwrap();
        let left = handles.get_mut(&id.into_u64()).unwrap();
        *left -= 1;
        let is_closed = *left == 0;
        drop(handles);
        if is_closed {
            self.tell(format!("{} close", id.into_u64()));
        }
        is_closed
    }
}

#[test]
fn jobs_are_spans_and_stalls_are_events() {
    if !esker_testkit::runs_alone("spans::jobs_are_spans_and_stalls_are_events") {
        return;
    }
    let told = Told::default();
    tracing::subscriber::set_global_default(told.clone()).unwrap();
    let dir = TempDir::new("spans");
    let mut options = Options::new().create_if_missing(true);
    options.db.listeners.push(Arc::new(TracingListener::new()));
    options.cf.level0_file_num_compaction_trigger = 2;
    options.cf.level0_slowdown_writes_trigger = 2;
    let db = Db::open(&options, dir.path()).unwrap();
    db.abort_all_compactions();
    for _ in 0..3 {
        db.put("secret", "value").unwrap();
        db.flush().unwrap();
    }
    db.resume_all_compactions();
    db.compact_range(None, None).unwrap();
    db.close().unwrap();
    let lines = told.lines.lock().unwrap().clone();
    let all = lines.join("\n");
    let ids = |kind: &str| -> Vec<String> {
        let spans = lines.iter().filter(|line| line.contains(&format!(" span {kind} ")));
        spans.map(|line| line.split(' ').next().unwrap().to_owned()).collect()
    };
    assert_eq!(ids("flush").len(), 3, "{all}");
    assert!(!ids("compaction").is_empty(), "{all}");
    for id in ids("flush").into_iter().chain(ids("compaction")) {
        assert!(
            lines.contains(&format!("{id} enter")) && lines.contains(&format!("{id} close")),
            "{id}: {all}"
        );
    }
    for wanted in [
        "family=\"default\" reason=\"Manual Flush\"",
        "input_level=0",
        "message=flush completed",
        "message=compaction completed",
        "WARN message=writers are held back family=\"default\" before=\"normal\" now=\"delays\"",
        "message=writers are released",
        "message=the database closes",
    ] {
        assert!(all.contains(wanted), "{wanted}: {all}");
    }
    assert!(!all.contains("secret"), "{all}");
}
