//! Prometheus' text exposition, format 0.0.4.
//!
//! In: a snapshot. Out: text for a scrape. Source: Prometheus, "Text-based format".

use crate::samples::{Labels, MetricValue, metrics_of};
use crate::snapshot::StatisticsSnapshot;
use std::fmt::Write;

/// The values of `snapshot` in Prometheus' text format: about 350 metrics. Every metric has one
/// series, or one for each family and level. Families beyond the monitor's limit are summed up
/// under the label `other`.
///
/// ```
/// use esker::Db;
/// use esker_monitor::{Monitor, exposition};
/// # let dir = esker_testkit::TempDir::new("doc");
///
/// let db = Db::open_default(dir.path())?;
/// let text = exposition(&Monitor::new().snapshot(&db)?);
/// assert!(text.contains("# TYPE esker_level_files gauge\n"));
/// assert!(text.contains("esker_level_files{family=\"default\",level=\"0\"} 0\n"));
/// # Ok::<_, esker::Error>(())
/// ```
pub fn exposition(snapshot: &StatisticsSnapshot) -> String {
    let mut text = String::new();
    for metric in metrics_of(snapshot) {
        let name = &metric.name;
        push(&mut text, format_args!("# HELP {name} {}\n", escape_help(&metric.help)));
        push(&mut text, format_args!("# TYPE {name} {}\n", metric.kind.as_str()));
        for series in &metric.series {
            push(&mut text, format_args!("{name}{}", series.suffix));
            push_labels(&mut text, &series.labels);
            match series.value {
                MetricValue::Count(count) => push(&mut text, format_args!(" {count}\n")),
                MetricValue::Real(number) => push(&mut text, format_args!(" {number}\n")),
            }
        }
    }
    text
}

fn push(text: &mut String, more: std::fmt::Arguments<'_>) {
    text.write_fmt(more).expect("a write to a string cannot fail");
}

fn push_labels(text: &mut String, labels: &Labels) {
    for (index, (name, value)) in labels.iter().enumerate() {
        let before = if index == 0 { '{' } else { ',' };
        push(text, format_args!("{before}{name}=\"{}\"", escape_label(value)));
    }
    if !labels.is_empty() {
        text.push('}');
    }
}

fn escape_help(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n")
}

fn escape_label(text: &str) -> String {
    escape_help(text).replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FamilyStatistics;

    #[test]
    fn a_hostile_name_stays_in_its_label() {
        let name = "a\"} 1\n# TYPE x counter\nx\\".to_owned();
        let snapshot = StatisticsSnapshot {
            families: vec![FamilyStatistics { name, ..FamilyStatistics::default() }],
            ..StatisticsSnapshot::default()
        };
        let text = exposition(&snapshot);
        let line = "esker_blob_files{family=\"a\\\"} 1\\n# TYPE x counter\\nx\\\\\"} 0\n";
        assert!(text.contains(line), "{text}");
        assert!(!text.contains("\n# TYPE x") && !text.contains("\nx"));
    }
}
