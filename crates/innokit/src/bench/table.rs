//! A table in columns: text is left-aligned, figures are right-aligned.

use std::io::{self, Write};

/// Rows of cells below their headings.
pub struct Table {
    headings: Vec<String>,
    /// How many columns, from the left, hold text.
    words: usize,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings. The first `words` columns hold text, the others figures.
    pub fn new(words: usize, headings: &[&str]) -> Self {
        Self { headings: headings.iter().map(|&heading| heading.to_owned()).collect(), words, rows: Vec::new() }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells.into_iter().collect();
        debug_assert_eq!(cells.len(), self.headings.len(), "a cell for each heading: {cells:?}");
        self.rows.push(cells);
    }

    /// Whether it has no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let lines = || std::iter::once(&self.headings).chain(&self.rows);
        let width =
            |column: usize| lines().filter_map(|cells| cells.get(column)).map(|cell| cell.chars().count()).max();
        let widths: Vec<usize> = (0..self.headings.len()).map(|column| width(column).unwrap_or(0)).collect();
        for cells in lines() {
            let mut line = String::new();
            for (column, (cell, &width)) in cells.iter().zip(&widths).enumerate() {
                let gap = if column == 0 { "" } else { "  " };
                if column < self.words {
                    line.push_str(&format!("{gap}{cell:<width$}"));
                } else {
                    line.push_str(&format!("{gap}{cell:>width$}"));
                }
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_left_and_figures_right() {
        let mut table = Table::new(1, &["what", "MB/s"]);
        assert!(table.is_empty());
        table.row(["read".to_owned(), "1,234".to_owned()]);
        table.row(["sequential".to_owned(), "5".to_owned()]);
        let mut text = Vec::new();
        table.print(&mut text).expect("memory");
        assert_eq!(
            String::from_utf8(text).expect("UTF-8"),
            "what         MB/s\nread        1,234\nsequential      5\n"
        );
    }
}
