//! What a path says about the table in it: `DATABASE/TABLE.ibd`, in the servers' file name encoding.

use std::path::Path;

use super::report::Name;
use crate::source::name::NameHint;

/// The names in the last two components of a path, where a table's tablespace lies in its database's directory.
pub(super) fn by_path(path: &Path) -> Option<Name> {
    if NameHint::of(path) != NameHint::Table {
        return None;
    }
    let schema = path.parent().and_then(Path::file_name).map(|name| decoded(&name.to_string_lossy()));
    let table = decoded(&path.file_stem()?.to_string_lossy());
    Some(Name { source: "path", schema, table: Some(table), tables: 1, ..Name::default() })
}

/// `odd@002dname` is `odd-name`: the servers write what a file system may not like as `@` and four hexadecimal digits. Their
/// two-letter codes for letters with accents stay as they are.
fn decoded(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    let mut rest = name;
    while let Some((before, after)) = rest.split_once('@') {
        text.push_str(before);
        let digits = after.get(..4).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let letter = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()).and_then(char::from_u32);
        match letter {
            Some(letter) => {
                text.push(letter);
                rest = after.get(4..).unwrap_or("");
            }
            None => {
                text.push('@');
                rest = after;
            }
        }
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_names_are_decoded() {
        for (name, plain) in [
            ("odd@002dname", "odd-name"),
            ("plain", "plain"),
            ("a@0040b@", "a@b@"),
            ("@00zz", "@00zz"),
            ("@20ac", "\u{20ac}"),
            ("@d800", "@d800"),
            ("€@12", "€@12"),
        ] {
            assert_eq!(decoded(name), plain, "{name}");
        }
    }

    #[test]
    fn only_tables_have_a_name_in_their_path() {
        let name = by_path(Path::new("/var/lib/mysql/shop/odd@002dtable.ibd")).expect("a table");
        assert_eq!((name.schema.as_deref(), name.table.as_deref()), (Some("shop"), Some("odd-table")));
        assert_eq!(by_path(Path::new("/var/lib/mysql/ibdata1")), None);
        assert_eq!(by_path(Path::new("/var/lib/mysql/mysql.ibd")), None);
    }
}
