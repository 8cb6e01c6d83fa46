//! Everything in a datadir, by name.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::recover::error::{Result, failed};

/// The file system checker's directory, which only root can read. No server uses it.
pub(in crate::recover) const LOST: &str = "lost+found";

/// Passes everything below a datadir to `visit`, by relative name, a directory before its content. Follows links, except back to an
/// enclosing directory, and skips dangling ones.
///
/// # Errors
/// A directory cannot be read, or `visit` fails.
pub fn walk(datadir: &Path, visit: &mut dyn FnMut(&Path, &Metadata) -> Result<()>) -> Result<()> {
    let root = fs::metadata(datadir).map_err(failed(datadir, "looking at the directory"))?;
    walk_below(datadir, Path::new(""), &mut vec![identity(&root)], visit)
}

fn walk_below(
    datadir: &Path,
    below: &Path,
    above: &mut Vec<(u64, u64)>,
    visit: &mut dyn FnMut(&Path, &Metadata) -> Result<()>,
) -> Result<()> {
    let dir = datadir.join(below);
    let names = fs::read_dir(&dir).and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect());
    let mut names: Vec<_> = names.map_err(failed(&dir, "reading the directory"))?;
    names.sort_unstable();
    for name in names {
        let name = below.join(name);
        let path = datadir.join(&name);
        let metadata = match fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            other => other.map_err(failed(&path, "looking at the file"))?,
        };
        if !metadata.is_dir() {
            visit(&name, &metadata)?;
        } else if name != Path::new(LOST) && !above.contains(&identity(&metadata)) {
            visit(&name, &metadata)?;
            above.push(identity(&metadata));
            walk_below(datadir, &name, above, visit)?;
            above.pop();
        }
    }
    Ok(())
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}
