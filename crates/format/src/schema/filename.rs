//! Decodes database and table names from file names.
//!
//! Facts: MariaDB 10.11's files for names with every letter that has a code; both servers have used the same codes since 5.1.

/// Codes of two characters, each followed by its letter.
const LETTERS: &str = include_str!("filename.txt");

/// The name encoded in a file name: `odd@002dname` is `odd-name`. Accented letters have codes of two characters; other characters that a
/// file system may not accept have four hexadecimal digits. Anything that is not a code stays unchanged.
#[must_use]
pub fn decoded(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    let mut rest = name;
    while let Some((before, after)) = rest.split_once('@') {
        text.push_str(before);
        let (decoded, len) = code(after).map_or(('@', 0), |(letter, len)| (letter, len));
        text.push(decoded);
        rest = after.get(len..).unwrap_or("");
    }
    text.push_str(rest);
    text
}

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

/// The letter for a code, and the code's length.
fn code(after: &str) -> Option<(char, usize)> {
    let digits = after.get(..4).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    if let Some(letter) = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()).and_then(char::from_u32) {
        return Some((letter, 4));
    }
    let wanted = after.get(..2)?;
    let letter = LETTERS.split_whitespace().find_map(|entry| entry.strip_prefix(wanted)?.chars().next())?;
    Some((letter, 2))
}

#[cfg(test)]
mod tests {
    use super::{decoded, table_name, whole_table};

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

    #[test]
    fn names_are_those_that_the_server_shows() {
        let cases = [
            ("odd@002dname", "odd-name"),
            ("t@0k@0020ble@002d1", "tä ble-1"),
            ("a@0040b@", "a@b@"),
            ("@zz@00zz", "@zz@00zz"),
            ("plain", "plain"),
            ("@00zz", "@00zz"),
            ("@20ac", "\u{20ac}"),
            ("@d800", "@d800"),
            ("€@", "€@"),
        ];
        for (file, name) in cases {
            assert_eq!(decoded(file), name);
        }
    }
}
