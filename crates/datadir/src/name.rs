//! What a file's name suggests. Only a hint: the content decides what the file is.

use std::path::{Path, PathBuf};

use crate::file_kind::FileKind;
use crate::log_name::is_kept;

pub use format::schema::filename::decoded;
use format::schema::filename::table_name;

/// The purpose a name suggests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameHint {
    /// `ibdata1`, `ibdata2` ...: the number gives the file's order in the system tablespace.
    System(u32),
    /// `*.ibd`: file-per-table or general tablespace.
    Table,
    /// `mysql.ibd`: MySQL's dictionary tablespace.
    Dictionary,
    /// `undo_001`, `undo001`, `*.ibu`.
    Undo,
    /// `ibtmp1`, `*.ibt`.
    Temporary,
    /// `ib_logfile*`, `#ib_redo*`, `ib_0000000000003000.log`.
    Redo,
    /// `#ib_16384_0.dblwr` and `.bdblwr`.
    Doublewrite,
    /// `binlog-000000.ibb`: a binary log within InnoDB.
    InnodbBinlog,
    /// `*.isl`: a text file with the path of a tablespace kept elsewhere.
    Link,
    /// Not a name that InnoDB uses.
    Unknown,
}

impl NameHint {
    /// Derives the hint from the last component of `path`.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
        if let Some(ordinal) = numbered(&name, "ibdata") {
            return Self::System(ordinal);
        }
        if name == "mysql.ibd" {
            return Self::Dictionary;
        }
        if name.starts_with("ib_logfile") || name.starts_with("#ib_redo") || is_kept(Path::new(&*name)) {
            return Self::Redo;
        }
        match extension {
            "ibd" => Self::Table,
            "ibu" => Self::Undo,
            "ibt" => Self::Temporary,
            "isl" => Self::Link,
            "ibb" if logs::ibb::file_number(&name).is_some() => Self::InnodbBinlog,
            "dblwr" | "bdblwr" if name.starts_with("#ib_") => Self::Doublewrite,
            _ if numbered(&name, "undo_").or(numbered(&name, "undo")).is_some() => Self::Undo,
            _ if numbered(&name, "ibtmp").is_some() => Self::Temporary,
            _ => Self::Unknown,
        }
    }

    /// Whether a server uses the file with this name, relative to its datadir. Table files may be in any directory. Other tablespaces are
    /// top-level; further down, such files are copies.
    pub fn is_of_server(self, name: &Path) -> bool {
        match self {
            Self::Table => true,
            // Files after the first do not start with page 0.
            Self::System(1) | Self::Dictionary | Self::Undo => name.components().count() == 1,
            _ => false,
        }
    }

    /// Whether a file with this name must hold InnoDB pages, so that any other content is damage.
    #[must_use]
    pub fn promises_pages(self) -> bool {
        matches!(self, Self::System(_) | Self::Table | Self::Dictionary | Self::Undo | Self::Temporary)
    }

    /// The `kind` of a tablespace file in reports.
    #[must_use]
    pub fn tablespace_kind(self) -> FileKind {
        match self {
            Self::System(_) => FileKind::SystemTablespace,
            Self::Dictionary => FileKind::DictionaryTablespace,
            Self::Undo => FileKind::UndoTablespace,
            Self::Temporary => FileKind::TemporaryTablespace,
            _ => FileKind::Tablespace,
        }
    }
}

/// `schema.table` from the last two components of a tablespace's path, in SQL spelling.
pub fn table_of_path(path: &Path) -> Option<String> {
    if NameHint::of(path) != NameHint::Table {
        return None;
    }
    let schema = decoded(&path.parent()?.file_name()?.to_string_lossy());
    let stem = path.file_stem()?.to_string_lossy();
    // As a name of the dictionary, which has the database before it.
    Some(format!("{schema}{}", table_name(&format!("/{stem}"))))
}

/// The number after `prefix`, if only digits follow it.
fn numbered(name: &str, prefix: &str) -> Option<u32> {
    name.strip_prefix(prefix)?.parse().ok()
}

/// The places that a tablespace from outside a datadir may have in a copy that has it inside: that of a table, or the datadir itself, for
/// tablespaces of MySQL that are in no schema's directory. Relative to the datadir.
pub fn places_inside(path: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let file = path.file_name().map(Path::new);
    let schema = path.parent().and_then(Path::file_name).filter(|_| NameHint::of(path) != NameHint::Undo);
    [schema.zip(file).map(|(schema, file)| Path::new(schema).join(file)), file.map(PathBuf::from)].into_iter().flatten()
}

/// The definition for a tablespace: partitions and vector indexes share that of their table.
pub fn frm_beside(path: &Path) -> Option<PathBuf> {
    let stem = path.file_stem()?.to_str()?;
    let table = ["#P#", "#p#", "#i#"].iter().find_map(|mark| stem.split_once(mark)).map_or(stem, |(table, _)| table);
    Some(path.with_file_name(format!("{table}.frm")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_both_families_are_told_apart() {
        let cases = [
            ("d/ibdata1", NameHint::System(1)),
            ("ibdata12", NameHint::System(12)),
            ("ibdata", NameHint::Unknown),
            ("db/t#p#p0.ibd", NameHint::Table),
            ("mysql.ibd", NameHint::Dictionary),
            ("undo_001", NameHint::Undo),
            ("undo002", NameHint::Undo),
            ("undo_1_trunc.log", NameHint::Unknown),
            ("more.ibu", NameHint::Undo),
            ("ibtmp1", NameHint::Temporary),
            ("#innodb_temp/temp_1.ibt", NameHint::Temporary),
            ("ib_logfile0", NameHint::Redo),
            ("ib_0000000000003000.log", NameHint::Redo),
            ("#innodb_redo/#ib_redo7_tmp", NameHint::Redo),
            ("#ib_16384_0.dblwr", NameHint::Doublewrite),
            ("t.isl", NameHint::Link),
            ("t.frm", NameHint::Unknown),
        ];
        for (name, hint) in cases {
            assert_eq!(NameHint::of(Path::new(name)), hint, "{name}");
        }
    }
}
