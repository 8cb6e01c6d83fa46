//! Binary logs in a backup of xtrabackup: the one that the server was writing, and an index that names only that one. An increment's
//! replace those of the full backup: a server whose index names a missing file does not start.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::recover::error::{Result, failed};
use datadir::files::AskPath;
use datadir::reading::read_small;

/// Bytes of an index read at most. It is short, because a backup has one binary log.
const INDEX_MAX: u64 = 1 << 20;

/// The binary logs of a backup, followed by their indexes, relative to the backup.
pub(in super::super) fn of(dir: &Path) -> Result<Vec<PathBuf>> {
    let names =
        fs::read_dir(dir).and_then(|entries| entries.map(|entry| Ok(PathBuf::from(entry?.file_name()))).collect());
    let names: Vec<PathBuf> = names.map_err(failed(dir, "reading the directory"))?;
    let (mut logs, mut indexes) = (BTreeSet::new(), BTreeSet::new());
    for name in names {
        let path = dir.join(&name);
        if name.extension() != Some(OsStr::new("index")) || !path.is_file_there() {
            continue;
        }
        let text = read_small(&path, INDEX_MAX).map_err(failed(&path, "reading the index of binary logs"))?;
        let named = String::from_utf8_lossy(&text).into_owned();
        // The index has the server's paths.
        let named = named.lines().filter_map(|line| Path::new(line.trim()).file_name().map(PathBuf::from));
        logs.extend(named.filter(|log| dir.join(log).is_file_there()));
        indexes.insert(name);
    }
    Ok(logs.into_iter().chain(indexes).collect())
}
