//! Table names from paths: `DATABASE/TABLE.ibd`, in the servers' file name encoding.

use std::path::Path;

use super::report::Name;
use datadir::name::{NameHint, decoded};

/// The names in a path's last two components, for a tablespace in its database's directory.
pub(super) fn by_path(path: &Path) -> Option<Name> {
    if NameHint::of(path) != NameHint::Table {
        return None;
    }
    let schema = path.parent().and_then(Path::file_name).map(|name| decoded(&name.to_string_lossy()));
    let table = decoded(&path.file_stem()?.to_string_lossy());
    Some(Name { source: "path", schema, table: Some(table), tables: 1, ..Name::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tables_have_a_name_in_their_path() {
        let name = by_path(Path::new("/var/lib/mysql/shop/odd@002dtable.ibd")).expect("a table");
        assert_eq!((name.schema.as_deref(), name.table.as_deref()), (Some("shop"), Some("odd-table")));
        assert_eq!(by_path(Path::new("/var/lib/mysql/ibdata1")), None);
        assert_eq!(by_path(Path::new("/var/lib/mysql/mysql.ibd")), None);
    }
}
