//! Compares what `table export` writes with what the server shows.

use std::path::Path;

/// Asks for the columns of all tables: table, column, type, declared decimals.
pub const COLUMNS: &str = "SELECT table_name, column_name, data_type, IFNULL(numeric_scale, '') FROM information_schema.columns \
    WHERE table_schema = 'rnd' ORDER BY table_name, ordinal_position;";

/// How the server shows the values of a column.
#[derive(Clone, Copy, PartialEq)]
enum Shown {
    Text,
    /// A FLOAT or DOUBLE. INTO OUTFILE prints more of them with an exponent than SELECT does.
    Number,
    /// In hexadecimal, because INTO OUTFILE would convert the bytes.
    Hex,
    /// A BIT, as a number.
    Bits,
}

/// A table and its columns.
pub struct Table {
    pub name: String,
    columns: Vec<(String, Shown)>,
}

type Values = Vec<Option<Vec<u8>>>;

/// The tables in the answer to [`COLUMNS`].
pub fn tables(answer: &str) -> Vec<Table> {
    let mut tables: Vec<Table> = Vec::new();
    for line in answer.lines() {
        let words: Vec<&str> = line.split('\t').collect();
        let [table, column, data_type, scale] = words[..] else { panic!("{line}") };
        let shown = match data_type {
            "float" | "double" if scale.is_empty() => Shown::Number,
            "binary" | "varbinary" | "blob" | "geometry" => Shown::Hex,
            "bit" => Shown::Bits,
            _ => Shown::Text,
        };
        if tables.last().is_none_or(|last| last.name != table) {
            tables.push(Table { name: table.to_owned(), columns: Vec::new() });
        }
        tables.last_mut().expect("pushed").columns.push((column.to_owned(), shown));
    }
    tables
}

impl Table {
    /// The statement that makes the server write the rows to a file.
    pub fn outfile_statement(&self, path: &Path) -> String {
        let column = |(name, shown): &(String, Shown)| match shown {
            Shown::Text | Shown::Number => format!("`{name}`"),
            Shown::Hex => format!("HEX(`{name}`)"),
            Shown::Bits => format!("`{name}` + 0"),
        };
        let columns: Vec<String> = self.columns.iter().map(column).collect();
        let (columns, name, path) = (columns.join(", "), &self.name, path.display());
        format!(
            "SET time_zone = '+00:00'; SELECT {columns} FROM rnd.{name} INTO OUTFILE '{path}' CHARACTER SET utf8mb4;"
        )
    }

    /// Compares all rows in any order. Returns the number of values.
    pub fn compare(&self, shown: &Path, exported: &Path) -> usize {
        let key = self.columns.iter().position(|(name, _)| name == "id").expect("every table has one");
        let [mut shown, mut exported] = [shown, exported].map(|path| rows(&std::fs::read(path).expect("written")));
        for row in &mut exported {
            row.iter_mut().zip(&self.columns).for_each(|(value, (_, shown))| as_shown(value, *shown));
        }
        shown.sort_by(|a, b| a[key].cmp(&b[key]));
        exported.sort_by(|a, b| a[key].cmp(&b[key]));
        assert_eq!(shown.len(), exported.len(), "rows of {}", self.name);
        for (one, other) in shown.iter().zip(&exported) {
            for ((one, other), (name, kind)) in one.iter().zip(other).zip(&self.columns) {
                let is_same = one == other || *kind == Shown::Number && number(one) == number(other);
                let text =
                    |value: &Option<Vec<u8>>| value.as_ref().map(|value| String::from_utf8_lossy(value).into_owned());
                assert!(is_same, "{}.{name}: the server shows {:?}, not {:?}", self.name, text(one), text(other));
            }
        }
        shown.len() * self.columns.len()
    }
}

fn number(value: &Option<Vec<u8>>) -> Option<f64> {
    std::str::from_utf8(value.as_ref()?).ok()?.parse().ok()
}

fn as_shown(value: &mut Option<Vec<u8>>, shown: Shown) {
    let Some(bytes) = value else { return };
    match shown {
        Shown::Text | Shown::Number => {}
        Shown::Hex => *bytes = bytes.iter().flat_map(|byte| format!("{byte:02X}").into_bytes()).collect(),
        Shown::Bits => {
            let number = bytes.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
            *bytes = number.to_string().into_bytes();
        }
    }
}

/// The values in a file written by INTO OUTFILE or `table export`.
fn rows(text: &[u8]) -> Vec<Values> {
    let (mut rows, mut row, mut value) = (Vec::new(), Vec::new(), Some(Vec::new()));
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => match bytes.next() {
                Some(b'N') => value = None,
                Some(b'0') => value.get_or_insert_default().push(0),
                other => value.get_or_insert_default().extend(other),
            },
            b'\t' | b'\n' => {
                row.push(value.replace(Vec::new()));
                if *byte == b'\n' {
                    rows.push(std::mem::take(&mut row));
                }
            }
            byte => value.get_or_insert_default().push(*byte),
        }
    }
    rows
}
