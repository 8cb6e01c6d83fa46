//! Database and table names from file names.

pub use crate::charset::decoded;

/// The mark before a partition's name in the names of files and of InnoDB's dictionary. A `#` that belongs to a name is encoded.
const PARTITION: [&str; 2] = ["#P#", "#p#"];
const SUBPARTITION: [&str; 2] = ["#SP#", "#sp#"];

/// The name of the whole table in the name of a partition; any other name unchanged.
#[must_use]
pub fn whole_table(name: &str) -> &str {
    PARTITION.iter().find_map(|mark| name.split_once(mark)).map_or(name, |(table, _)| table)
}

/// A table as users spell it, from its name in InnoDB's dictionary: `my@002ddb/t#P#p0#SP#s1` is `my-db.t partition p0#s1`. Reports, options
/// and the Python package all use this spelling.
#[must_use]
pub fn table_name(stored: &str) -> String {
    let partition = PARTITION.iter().find_map(|mark| stored.split_once(mark));
    let (table, partition) = partition.map_or((stored, None), |(table, partition)| (table, Some(partition)));
    let mut out = match table.split_once('/') {
        Some((database, table)) => format!("{}.{}", decoded(database), decoded(table)),
        None => decoded(table),
    };
    if let Some(partition) = partition {
        out.push_str(" partition ");
        out.push_str(&partition_name(partition));
    }
    out
}

/// A partition as users spell it: `p0#SP#s1` is `p0#s1`.
#[must_use]
pub fn partition_name(stored: &str) -> String {
    match SUBPARTITION.iter().find_map(|mark| stored.split_once(mark)) {
        Some((above, name)) => format!("{}#{}", decoded(above), decoded(name)),
        None => decoded(stored),
    }
}

#[cfg(test)]
mod tests {
    use super::{table_name, whole_table};

    #[test]
    fn names_of_the_dictionary_are_spelt_as_users_do() {
        let cases = [
            ("my@002dwp/order@002ditems", "my-wp.order-items"),
            ("db/t#P#p@002d1#SP#s@002e", "db.t partition p-1#s."),
            ("db/t#p#p0", "db.t partition p0"),
            ("SYS_FOREIGN", "SYS_FOREIGN"),
            ("a/b@0023P@0023c", "a.b#P#c"),
        ];
        for (stored, name) in cases {
            assert_eq!(table_name(stored), name);
        }
        assert_eq!((whole_table("db/t#P#p0"), whole_table("db/t")), ("db/t", "db/t"));
    }
}
