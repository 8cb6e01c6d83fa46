//! `.frm` files: found beside tablespaces, completed with what the dictionary in `ibdata1` adds.

use std::path::{Path, PathBuf};

use format::schema::TableDef;
use format::schema::frm::{FrmError, from_frm, is_of_innodb};

use super::dictionary::Dictionary;
use datadir::files::{self, File};
use datadir::inventory::plain;
use datadir::name::decoded;
use datadir::selection::Selection;

/// The longest file that the server reads, bytes. A file of another kind may have any length.
const LEN_MAX: u64 = 16 << 20;
/// Directories below those of databases hold no tables.
const DEPTH_MAX: usize = 3;

pub(super) fn is_frm(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "frm")
}

/// The definitions below a directory.
pub(super) fn below(dir: &Path, selection: &Selection) -> Vec<PathBuf> {
    let (mut out, mut dirs) = (Vec::new(), vec![(dir.to_path_buf(), 0)]);
    while let Some((dir, depth)) = dirs.pop() {
        let entries = files::read_dir(&dir).into_iter().flatten();
        for path in entries.map(|entry| entry.path()) {
            if files::is_dir(&path) && depth < DEPTH_MAX {
                dirs.push((path, depth + 1));
            } else if is_frm(&path) && selection.has_file(&path) && is_innodb(&path) {
                out.push(path);
            }
        }
    }
    out
}

/// Views and other engines' tables have `.frm` files too.
fn is_innodb(path: &Path) -> bool {
    use std::io::Read;
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(64).read_to_end(&mut head));
    read.is_ok() && is_of_innodb(&head)
}

/// Reads a definition; `None` if it is not an InnoDB table's.
pub(super) fn read(path: &Path, dictionary: Option<&Dictionary>) -> Result<Option<TableDef>, String> {
    let len = files::metadata(path).map_err(|error| plain(&error))?.len();
    if len > LEN_MAX {
        return Err("is too long for a table's definition".to_owned());
    }
    let bytes = files::read(path).map_err(|error| plain(&error))?;
    let name =
        |part: Option<&std::ffi::OsStr>| part.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let (file, folder) = (name(path.file_stem()), name(path.parent().and_then(Path::file_name)));
    let key = format!("{folder}/{file}");
    let known = dictionary.and_then(|dictionary| dictionary.table(&key));
    let mut table = match from_frm(&bytes, known.as_ref().is_some_and(|known| known.has_doc_id)) {
        Ok(table) => table,
        Err(FrmError::NotATable) => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    (table.schema, table.name) = (decoded(&folder), decoded(&file));
    if let Some(dictionary) = dictionary {
        table.declared.foreign_keys = dictionary.foreign_keys(&key);
        if table.columns.iter().any(|column| column.auto_increment) {
            table.declared.auto_increment = known.and_then(|known| known.next_auto_increment);
        }
    }
    Ok(Some(table))
}
