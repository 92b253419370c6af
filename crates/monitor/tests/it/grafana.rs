//! The Grafana dashboard: every expression uses metrics and labels that the exposition emits.

use crate::watched;
use esker_monitor::exposition;
use regex_lite::Regex;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const DASHBOARD: &str = include_str!("../../grafana/esker.json");
/// Labels that Prometheus adds to each series of a target.
const OF_TARGETS: [&str; 2] = ["instance", "job"];

/// The names of all series, each with the labels of one of them.
fn emitted(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let label = Regex::new("([a-z_]+)=\"").unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let series = lines.map(|line| {
        let name: String = line.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        let labels = label.captures_iter(line).map(|found| found[1].to_owned());
        (name, labels.chain(OF_TARGETS.map(str::to_owned)).collect())
    });
    series.collect()
}

/// All strings under a key, however deep.
fn strings<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(map) => {
            for (name, inner) in map {
                match inner {
                    Value::String(text) if name == key => found.push(text),
                    _ => strings(inner, key, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|inner| strings(inner, key, found)),
        _ => {}
    }
}

/// The mistakes of an expression and of the legend beside it.
fn mistakes(expression: &str, legend: &str, emitted: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let mut found = Vec::new();
    let selector = Regex::new(r"(esker_[a-z0-9_]+)(?:\{([^}]*)\})?").unwrap();
    let matcher = Regex::new(r"([a-z_]+)\s*(?:=~|!~|!=|=)").unwrap();
    let mut known = BTreeSet::new();
    for parts in selector.captures_iter(expression) {
        let Some(labels) = emitted.get(&parts[1]) else {
            found.push(format!("no metric {}", &parts[1]));
            continue;
        };
        let used = parts.get(2).map_or("", |labels| labels.as_str());
        for label in matcher.captures_iter(used) {
            if !labels.contains(&label[1]) {
                found.push(format!("{} has no label {}", &parts[1], &label[1]));
            }
        }
        known.extend(labels.clone());
    }
    let grouping = Regex::new(r"\b(?:by|without)\s*\(([^)]*)\)").unwrap();
    let variable = Regex::new(r"\{\{\s*([a-z_]+)\s*\}\}").unwrap();
    let groups = grouping.captures_iter(expression);
    let named =
        groups.flat_map(|group| group[1].split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>());
    let shown = variable.captures_iter(legend).map(|name| name[1].to_owned());
    for label in named.chain(shown).filter(|label| !known.contains(label)) {
        found.push(format!("no label {label} in {expression}"));
    }
    found
}

#[test]
fn every_expression_uses_metrics_and_labels_of_the_exposition() {
    let watched = watched("grafana");
    // Each histogram of the dashboard has a value.
    let statistics = watched.db.db_options().statistics.unwrap();
    for histogram in esker::stats::Histogram::ALL {
        statistics.record_in_histogram(*histogram, 1);
    }
    let emitted = emitted(&exposition(&watched.monitor.snapshot(&watched.db).unwrap()));
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let mut expressions = 0;
    for target in targets {
        let (expression, legend) =
            (target["expr"].as_str().unwrap(), target["legendFormat"].as_str().unwrap());
        assert!(expression.contains("esker_"), "{expression}");
        assert_eq!(mistakes(expression, legend, &emitted), Vec::<String>::new());
        expressions += 1;
    }
    assert!(expressions > 25, "{expressions}");
    let mut queries = Vec::new();
    strings(&dashboard["templating"], "query", &mut queries);
    let variable = Regex::new(r"^label_values\((esker_[a-z_]+), ([a-z]+)\)$").unwrap();
    for query in queries.into_iter().filter(|query| *query != "prometheus") {
        let parts = variable.captures(query).unwrap_or_else(|| panic!("{query}"));
        assert!(emitted[&parts[1]].contains(&parts[2]), "{query}");
    }
}

#[test]
fn wrong_expressions_are_found() {
    let labels = ["family", "level"].map(str::to_owned);
    let emitted = BTreeMap::from([("esker_level_bytes".to_owned(), BTreeSet::from(labels))]);
    for (expression, legend, count) in [
        ("sum by (level) (esker_level_bytes{family=~\"$family\"})", "{{level}}", 0),
        ("esker_level_byte{family=\"a\"}", "", 1),
        ("rate(esker_level_bytes{cause=\"a\",level!=\"0\"}[5m])", "", 1),
        ("sum by (cause) (esker_level_bytes)", "{{state}}", 2),
    ] {
        assert_eq!(mistakes(expression, legend, &emitted).len(), count, "{expression}");
    }
}

#[test]
fn panels_do_not_overlap() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let mut cells = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        let at = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        for x in at("x")..at("x") + at("w") {
            for y in at("y")..at("y") + at("h") {
                assert!(x < 24 && cells.insert((x, y)), "{}", panel["title"]);
            }
        }
    }
}
