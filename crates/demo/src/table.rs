//! Text tables: a frame of box characters, one header row, numbers aligned to the right.

use std::fmt;

/// Rows of cells. The first column is text; the others hold numbers and are aligned to the right.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with a header and no rows.
    pub(crate) fn new(header: &[&str]) -> Table {
        Table { rows: vec![header.iter().map(|cell| (*cell).to_owned()).collect()] }
    }

    /// Adds a row, which has as many cells as the header.
    pub(crate) fn add_row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.rows[0].len(), "each column has a header");
        self.rows.push(cells);
    }

    /// Characters in the widest cell of each column.
    fn widths(&self) -> Vec<usize> {
        let columns = 0..self.rows[0].len();
        let width = |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max();
        columns.map(|column| width(column).unwrap_or(0)).collect()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        write_rule(f, &widths, ['┌', '─', '┬', '┐'])?;
        for (number, row) in self.rows.iter().enumerate() {
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let mark = if column == 0 { '│' } else { '┆' };
                match column {
                    0 => write!(f, "{mark} {cell:<width$} ")?,
                    _ => write!(f, "{mark} {cell:>width$} ")?,
                }
            }
            writeln!(f, "│")?;
            if number == 0 {
                write_rule(f, &widths, ['╞', '═', '╪', '╡'])?;
            }
        }
        write_rule(f, &widths, ['└', '─', '┴', '┘'])
    }
}

/// Writes a horizontal line. `marks` are its left end, body, crossings and right end.
fn write_rule(f: &mut fmt::Formatter<'_>, widths: &[usize], marks: [char; 4]) -> fmt::Result {
    let [left, body, crossing, right] = marks;
    for (column, width) in widths.iter().enumerate() {
        write!(f, "{}", if column == 0 { left } else { crossing })?;
        (0..width + 2).try_for_each(|_| write!(f, "{body}"))?;
    }
    // The caller writes the end of the last line.
    if left == '└' { write!(f, "{right}") } else { writeln!(f, "{right}") }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&["what", "operations"]);
        table.add_row(vec!["scan backward".to_owned(), "7".to_owned()]);
        let expected = "\
┌───────────────┬────────────┐
│ what          ┆ operations │
╞═══════════════╪════════════╡
│ scan backward ┆          7 │
└───────────────┴────────────┘";
        assert_eq!(table.to_string(), expected);
    }
}
