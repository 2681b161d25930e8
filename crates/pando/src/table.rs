//! Tables on standard output. The first rows determine the widths of the columns.

/// Number of rows that determine the widths of the columns. No row is written before this number of rows has arrived,
/// or the table ends.
const MEASURED_ROWS_MAX: usize = 1_000;

/// Maximum width of a column, in characters. Longer values shift the rest of their row.
const WIDTH_MAX: usize = 40;

/// A table that is written while its rows arrive.
pub(crate) struct Table {
    /// The heading and the rows that are not written yet.
    waiting: Vec<Vec<String>>,
    /// Widths of the columns; `None` until rows are written.
    widths: Option<Vec<usize>>,
}

impl Table {
    pub(crate) fn new(heading: impl IntoIterator<Item = impl AsRef<str>>) -> Table {
        let heading = heading.into_iter().map(|name| name.as_ref().to_uppercase()).collect();
        Table { waiting: vec![heading], widths: None }
    }

    /// Adds a row. Writes all waiting rows if the widths are known or can be determined.
    pub(crate) fn row(&mut self, cells: Vec<String>, out: &mut Vec<u8>) {
        self.waiting.push(cells);
        if self.widths.is_some() || self.waiting.len() > MEASURED_ROWS_MAX {
            self.write(out);
        }
    }

    /// Writes the remaining rows. Writes nothing if the table has no rows.
    pub(crate) fn finish(mut self, out: &mut Vec<u8>) {
        if self.widths.is_some() || self.waiting.len() > 1 {
            self.write(out);
        }
    }

    fn write(&mut self, out: &mut Vec<u8>) {
        let rows: Vec<Vec<String>> =
            self.waiting.drain(..).map(|row| row.iter().map(|cell| printable(cell)).collect()).collect();
        let widths = self.widths.get_or_insert_with(|| {
            let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
            let width = |column: usize| {
                let cells = rows.iter().filter_map(|row| row.get(column));
                cells.map(|cell| cell.chars().count()).max().unwrap_or(0).min(WIDTH_MAX)
            };
            (0..columns).map(width).collect()
        });
        for row in &rows {
            let cells = row.iter().zip(widths.iter()).map(|(cell, width)| format!("{cell:<width$}"));
            let line = cells.collect::<Vec<_>>().join("  ");
            out.extend_from_slice(line.trim_end().as_bytes());
            out.push(b'\n');
        }
    }
}

/// Replaces control characters, which a terminal would interpret.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_controls_are_replaced() {
        let mut out = Vec::new();
        let mut table = Table::new(["uid", "name"]);
        table.row(vec!["jürgen".to_owned(), "J".to_owned()], &mut out);
        table.row(vec!["a".to_owned(), "\u{1b}[2J".to_owned()], &mut out);
        table.finish(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), "UID     NAME\njürgen  J\na       \u{fffd}[2J\n");
        let mut nothing = Vec::new();
        Table::new(["uid"]).finish(&mut nothing);
        assert!(nothing.is_empty());
    }

    #[test]
    fn rows_are_written_once_the_widths_are_known() {
        let (mut out, mut table) = (Vec::new(), Table::new(["a"]));
        for number in 0..3 * MEASURED_ROWS_MAX {
            table.row(vec![number.to_string()], &mut out);
            assert!(table.waiting.len() <= MEASURED_ROWS_MAX);
        }
        table.finish(&mut out);
        assert_eq!(out.split(|octet| *octet == b'\n').count(), 3 * MEASURED_ROWS_MAX + 2);
    }
}
