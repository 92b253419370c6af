//! Exceptions: `rule path reason…`, one on each line of `xtask/exceptions.txt`.

use super::Violation;

/// The file of exceptions.
pub(super) const FILE: &str = "xtask/exceptions.txt";

/// `violations` without those that are excepted; with one for each exception that is malformed or
/// not needed.
pub(super) fn apply(violations: Vec<Violation>, exceptions: &str) -> Vec<Violation> {
    let mut left = violations;
    let mut extra = Vec::new();
    for (index, line) in exceptions.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut complain = |message: String| {
            extra.push(Violation { rule: "exceptions", path: format!("{FILE}:{}", index + 1), message });
        };
        let mut words = line.splitn(3, char::is_whitespace);
        let (Some(rule), Some(path), Some(reason)) = (words.next(), words.next(), words.next()) else {
            complain("an exception is 'rule path reason'".to_owned());
            continue;
        };
        let before = left.len();
        left.retain(|v| v.rule != rule || v.path.split(':').next() != Some(path));
        if left.len() == before {
            complain(format!(
                "{path} does not break the rule '{rule}' any more: remove this line ({reason})"
            ));
        }
    }
    left.extend(extra);
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violation(rule: &'static str, path: &str) -> Violation {
        Violation { rule, path: path.to_owned(), message: String::new() }
    }

    #[test]
    fn exceptions_take_away_and_stale_ones_are_reported() {
        let found = vec![violation("size", "a.rs"), violation("order", "a.rs:3"), violation("size", "b.rs")];
        let left = apply(found, "# why\nsize a.rs a table\norder a.rs x\nsize c.rs gone\nsize\n");
        let places: Vec<_> = left.iter().map(|v| (v.rule, v.path.as_str())).collect();
        assert_eq!(
            places,
            [
                ("size", "b.rs"),
                ("exceptions", "xtask/exceptions.txt:4"),
                ("exceptions", "xtask/exceptions.txt:5")
            ]
        );
    }
}
