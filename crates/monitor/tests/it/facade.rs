//! Feature `metrics`: the values of the exposition reach a recorder.

use crate::watched;
use esker_monitor::exposition;
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

type Values = Arc<Mutex<BTreeMap<String, f64>>>;

#[derive(Default)]
struct Recorded(Values);

struct Slot {
    key: String,
    values: Values,
}

impl CounterFn for Slot {
    fn increment(&self, _value: u64) {
        panic!("totals are absolute");
    }
    fn absolute(&self, value: u64) {
        self.values.lock().unwrap().insert(self.key.clone(), value as f64);
    }
}

impl GaugeFn for Slot {
    fn increment(&self, _value: f64) {}
    fn decrement(&self, _value: f64) {}
    fn set(&self, value: f64) {
        self.values.lock().unwrap().insert(self.key.clone(), value);
    }
}

impl Recorded {
    /// The key in the form of the exposition.
    fn slot(&self, key: &Key) -> Arc<Slot> {
        let labels: Vec<String> =
            key.labels().map(|label| format!("{}=\"{}\"", label.key(), label.value())).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        Arc::new(Slot { key: format!("{}{labels}", key.name()), values: self.0.clone() })
    }
}

impl Recorder for Recorded {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.slot(key))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.slot(key))
    }
    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[test]
fn the_facade_gets_every_series_of_the_exposition() {
    let watched = watched("facade");
    (0..100_u8).for_each(|key| watched.db.put([key], [key; 100]).unwrap());
    watched.db.flush().unwrap();
    watched.db.get([7]).unwrap();
    let recorded = Recorded::default();
    metrics::with_local_recorder(&recorded, || watched.monitor.record(&watched.db)).unwrap();
    let text = exposition(&watched.monitor.snapshot(&watched.db).unwrap());
    let values = recorded.0.lock().unwrap();
    let mut series = 0;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (key, value) = line.rsplit_once(' ').unwrap();
        let ours = values.get(key).unwrap_or_else(|| panic!("{key}"));
        series += 1;
        // Time and memory differ between two snapshots.
        if !key.contains("uptime") && !key.contains("resident") {
            assert_eq!(*ours, value.parse::<f64>().unwrap(), "{key}");
        }
    }
    assert_eq!(series, values.len());
}
