//! `docs/growth.md`, the table of permitted growth.
//!
//! In: the page. Out: for an axis and an operation the limit, with the reason. The page is the only
//! copy.
//!
//! Invariants
//!  1. Every axis has one section, and every operation one row in it: its own, or that of
//!     `all others`.
//!  2. Rows name known operations, sections known axes; every row gives a reason.

use std::collections::BTreeMap;

const PAGE: &str = include_str!("../../../../docs/growth.md");
const TABLES: &str = "\n## The table\n";
const REST: &str = "all others";

/// The largest exponent with which an amount may grow in `n`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Growth {
    Constant,
    Logarithmic,
    Linear,
    Linearithmic,
    Quadratic,
}

impl Growth {
    fn parse(word: &str) -> Option<Growth> {
        Some(match word {
            "1" => Growth::Constant,
            "log n" => Growth::Logarithmic,
            "n" => Growth::Linear,
            "n log n" => Growth::Linearithmic,
            "n²" => Growth::Quadratic,
            _ => return None,
        })
    }

    /// The factor by which the growth at a doubling of `n` may exceed the one before; `None`: no
    /// growth.
    pub(super) fn factor(self) -> Option<f64> {
        match self {
            Growth::Constant => None,
            Growth::Logarithmic => Some(1.0),
            Growth::Linear => Some(2.0),
            Growth::Linearithmic => Some(2.25),
            Growth::Quadratic => Some(4.0),
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Growth::Constant => "1",
            Growth::Logarithmic => "log n",
            Growth::Linear => "n",
            Growth::Linearithmic => "n log n",
            Growth::Quadratic => "n²",
        }
    }
}

/// The page's statement on a cell.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Allowed {
    /// Work and memory of the operation may grow this fast.
    Grows { work: Growth, memory: Growth },
    /// The operation does not depend on the axis.
    Senseless,
}

/// The table: rows by axis and operation.
#[derive(Debug)]
pub(super) struct Page {
    axes: BTreeMap<String, BTreeMap<String, Allowed>>,
}

impl Page {
    /// Reads the page and checks it against these names.
    /// # Errors
    /// The axes and operations that are missing, unknown or given twice.
    pub(super) fn load(axes: &[&str], operations: &[&str]) -> Result<Page, String> {
        Page::parse(PAGE, axes, operations).map_err(|why| format!("docs/growth.md: {why}"))
    }

    fn parse(text: &str, axes: &[&str], operations: &[&str]) -> Result<Page, String> {
        let (_, tables) = text.split_once(TABLES).ok_or_else(|| format!("no section '{}'", TABLES.trim()))?;
        let tables = tables.split_once("\n## ").map_or(tables, |(tables, _)| tables);
        let mut page = Page { axes: BTreeMap::new() };
        for section in tables.split("\n### ").skip(1) {
            let (title, rows) = section.split_once('\n').unwrap_or((section, ""));
            let rows = parse_rows(rows, operations).map_err(|why| format!("{title}: {why}"))?;
            for axis in title.split(" · ").map(str::trim) {
                if !axes.contains(&axis) {
                    return Err(format!("there is no axis '{axis}'"));
                }
                if page.axes.insert(axis.to_owned(), rows.clone()).is_some() {
                    return Err(format!("the axis '{axis}' has two sections"));
                }
            }
        }
        match axes.iter().find(|axis| !page.axes.contains_key(**axis)) {
            Some(axis) => Err(format!("the axis '{axis}' has no section")),
            None => Ok(page),
        }
    }

    pub(super) fn allowed(&self, axis: &str, operation: &str) -> &Allowed {
        let rows = &self.axes[axis];
        rows.get(operation).unwrap_or_else(|| &rows[REST])
    }
}

fn parse_rows(text: &str, operations: &[&str]) -> Result<BTreeMap<String, Allowed>, String> {
    let mut rows = BTreeMap::new();
    // Rows begin behind the heading and the line below it.
    for line in text.lines().filter(|line| line.starts_with('|')).skip(2) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let &[names, work, memory, reason] = cells.as_slice() else {
            return Err(format!("not four cells: {line}"));
        };
        if reason.is_empty() {
            return Err(format!("no reason: {line}"));
        }
        let allowed = match (work, Growth::parse(work), Growth::parse(memory)) {
            ("none", ..) => Allowed::Senseless,
            (_, Some(work), Some(memory)) => Allowed::Grows { work, memory },
            _ => return Err(format!("no growth: {line}")),
        };
        for name in names.split(" · ").map(str::trim) {
            if name != REST && !operations.contains(&name) {
                return Err(format!("there is no operation '{name}'"));
            }
            if rows.insert(name.to_owned(), allowed.clone()).is_some() {
                return Err(format!("'{name}' has two rows"));
            }
        }
    }
    match operations.iter().find(|name| !rows.contains_key(**name) && !rows.contains_key(REST)) {
        Some(name) => Err(format!("'{name}' has no row")),
        None => Ok(rows),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &str = "x\n## The table\n\n### files · levels\n\n| operations | work | memory | why |\n|---|---|---|---|\n\
                        | get · put | 1 | 1 | a |\n| all others | n log n | n | b |\n\n## Behind\n| a |";

    fn parse(text: &str) -> Result<Page, String> {
        Page::parse(text, &["files", "levels"], &["get", "put", "open"])
    }

    #[test]
    fn every_cell_has_its_row_or_that_of_all_others() {
        let page = parse(ROWS).unwrap();
        let constant = Allowed::Grows { work: Growth::Constant, memory: Growth::Constant };
        assert_eq!(page.allowed("files", "get"), &constant);
        let open = Allowed::Grows { work: Growth::Linearithmic, memory: Growth::Linear };
        assert_eq!(page.allowed("files", "open"), &open);
        assert_eq!(page.allowed("levels", "open"), &open);
        let senseless = parse(&ROWS.replace("| n log n | n |", "| none | – |")).unwrap();
        assert_eq!(senseless.allowed("files", "open"), &Allowed::Senseless);
    }

    #[test]
    fn unknown_missing_and_repeated_rows_are_named() {
        let complains = |from: &str, to: &str, about: &str| {
            let why = parse(&ROWS.replace(from, to)).unwrap_err();
            assert!(why.contains(about), "{why}");
        };
        complains("get · put", "get · poke", "no operation 'poke'");
        complains("get · put", "get · get", "'get' has two rows");
        complains("### files", "### fields", "no axis 'fields'");
        complains("· levels", "· files", "the axis 'files' has two sections");
        complains(" · levels", "", "'levels' has no section");
        complains("| n log n |", "| n³ |", "no growth");
        complains("| b |", "|  |", "no reason");
        complains("| all others | n log n | n | b |\n", "", "'open' has no row");
    }
}
