//! The values of a snapshot for the facade of crate `metrics`.

use crate::Monitor;
use crate::samples::{MetricKind, MetricValue, metrics_of};
use esker::{Db, Result};
use metrics::Label;

impl Monitor {
    /// Gives the values of `db` to the recorder of crate `metrics`, under the names of
    /// [`exposition`](crate::exposition()). Counts become counters. Seconds and quantiles become
    /// gauges, for counters of `metrics` are whole numbers. Call it at the interval of your choice.
    /// # Errors
    /// As [`Monitor::snapshot`].
    pub fn record(&self, db: &Db) -> Result<()> {
        for metric in metrics_of(&self.snapshot(db)?) {
            for series in metric.series {
                let name = format!("{}{}", metric.name, series.suffix);
                let labels = series.labels.into_iter().map(|(name, value)| Label::new(name, value));
                let labels: Vec<Label> = labels.collect();
                let is_counter = metric.kind == MetricKind::Counter || series.suffix == "_count";
                match series.value {
                    MetricValue::Count(count) if is_counter => {
                        metrics::counter!(name, labels).absolute(count);
                    }
                    MetricValue::Count(count) => metrics::gauge!(name, labels).set(count as f64),
                    MetricValue::Real(number) => metrics::gauge!(name, labels).set(number),
                }
            }
        }
        Ok(())
    }
}
