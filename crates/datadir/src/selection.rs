//! Which tables of a directory a command is about: the patterns of `--database` and `--table`.

use std::path::Path;

use super::name::{NameHint, decoded};

/// The tables whose database and name match patterns. Without patterns, everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    databases: Vec<String>,
    tables: Vec<String>,
}

impl Selection {
    /// A table must match one of each kind; no pattern of a kind matches all. `*` stands for any letters, `?` for one. The pattern of a
    /// table that has a dot is compared with `database.table`.
    #[must_use]
    pub fn new(databases: &[String], tables: &[String]) -> Self {
        Self { databases: databases.to_vec(), tables: tables.to_vec() }
    }

    /// Whether nothing is left out.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.databases.is_empty() && self.tables.is_empty()
    }

    /// Whether tables are named, and not only described.
    #[must_use]
    pub fn is_by_name(&self) -> bool {
        !self.tables.is_empty() && !self.tables.iter().any(|pattern| pattern.contains(['*', '?']))
    }

    /// Whether this table is selected.
    #[must_use]
    pub fn has(&self, database: &str, table: &str) -> bool {
        let full = format!("{database}.{table}");
        let of_table = |pattern: &String| matches(pattern, if pattern.contains('.') { &full } else { table });
        (self.databases.is_empty() || self.databases.iter().any(|pattern| matches(pattern, database)))
            && (self.tables.is_empty() || self.tables.iter().any(of_table))
    }

    /// Whether `database.table`, perhaps with a partition behind it, is selected.
    pub fn has_table(&self, name: &str) -> bool {
        let whole = name.split(" partition ").next().unwrap_or_default();
        whole.split_once('.').is_some_and(|(database, table)| self.has(database, table))
    }

    /// Whether this file is that of a selected table: its tablespace, its definition, whatever else is called like it. A partition goes by
    /// the name of its table. Files of the server itself, such as logs, are no table's.
    pub fn has_file(&self, path: &Path) -> bool {
        if self.is_all() {
            return true;
        }
        let is_of_table = matches!(NameHint::of(path), NameHint::Table | NameHint::Link | NameHint::Unknown);
        let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let folder = path.parent().and_then(Path::file_name).map(|name| name.to_string_lossy()).unwrap_or_default();
        // A dot or `#` that belongs to a name is encoded, but for the first `#` of a table in the making.
        let end = ["#P#", "#p#", "."].iter().filter_map(|mark| name.find(mark)).min().unwrap_or(name.len());
        let table = name.get(..end).unwrap_or_default();
        is_of_table && self.has(&decoded(&folder), &decoded(table))
    }
}

/// Whether `text` matches the pattern as a whole.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut in_text) = (0, 0);
    // Where the last `*` is, and where the text goes on if it takes one letter more: no other choice needs to be undone.
    let mut star: Option<(usize, usize)> = None;
    while let Some(letter) = text.get(in_text) {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, in_text));
                at += 1;
            }
            Some(wanted) if *wanted == '?' || wanted == letter => (at, in_text) = (at + 1, in_text + 1),
            _ => {
                let Some((place, taken)) = star else { return false };
                star = Some((place, taken + 1));
                (at, in_text) = (place + 1, taken + 1);
            }
        }
    }
    pattern.iter().skip(at).all(|rest| *rest == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection(databases: &[&str], tables: &[&str]) -> Selection {
        let owned = |patterns: &[&str]| patterns.iter().map(|pattern| (*pattern).to_owned()).collect::<Vec<_>>();
        Selection::new(&owned(databases), &owned(tables))
    }

    #[test]
    fn patterns_match_as_a_whole() {
        let cases = [
            ("orders", "orders", true),
            ("orders", "orders2", false),
            ("ord*", "orders", true),
            ("*ers", "orders", true),
            ("*r*r*", "orders", true),
            ("*r*r*r", "orders", false),
            ("?rders", "orders", true),
            ("?", "é", true),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a*b", "ab", true),
            ("a*bc", "abbbc", true),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
        // Without going back over more than one `*`, this would take forever.
        assert!(!matches(&"*a".repeat(60), &format!("{}b", "a".repeat(5000))));
    }

    #[test]
    fn files_go_by_the_names_of_their_tables() {
        let shop = selection(&["my-shop"], &["order*"]);
        for name in
            ["orders.ibd", "orders.frm", "orders.par", "orders#P#p0.ibd", "orders#p#p0.ibd", "order@002ditems.ibd"]
        {
            assert!(shop.has_file(&Path::new("/d/my@002dshop").join(name)), "{name}");
            assert!(!shop.has_file(&Path::new("/d/other").join(name)), "{name}");
        }
        assert!(!shop.has_file(Path::new("/d/my@002dshop/items.ibd")));
        let all = selection(&[], &["*"]);
        for name in ["ibdata1", "undo_001", "mysql.ibd", "ib_logfile0", "#ib_16384_0.dblwr", "ibtmp1"] {
            assert!(!all.has_file(&Path::new("/d").join(name)), "{name}");
            assert!(Selection::default().has_file(&Path::new("/d").join(name)), "{name}");
        }
        let both = selection(&[], &["shop.*", "b"]);
        assert!(both.has("shop", "a") && both.has("other", "b") && !both.has("other", "a"));
    }
}
