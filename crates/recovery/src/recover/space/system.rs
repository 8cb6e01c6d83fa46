//! The files of the system tablespace: `ibdata1`, followed by `ibdata2` and so on, with consecutive page numbers.
//!
//! Their number and names are a server setting (`innodb_data_file_path`) that no file records. We assume the default names and compare
//! their total length with the size on page 0: files with other names would be missing from the total.

use std::path::{Path, PathBuf};

use format::SpaceFormat;

use super::SpacePart;
use crate::door;
use crate::recover::error::{Result, failed, refused};
use datadir::files::AskPath;
use datadir::reading::read_up_to;

/// The files, in page order.
#[derive(Debug)]
pub(in crate::recover) struct SystemFiles {
    parts: Vec<SpacePart>,
    /// Total length in bytes.
    len: u64,
}

impl SystemFiles {
    /// Finds the files in a datadir, with their current lengths.
    pub fn find(datadir: &Path) -> Result<Self> {
        let name = |number: usize| PathBuf::from(format!("ibdata{number}"));
        let mut files = Self { parts: Vec::new(), len: 0 };
        for number in 1.. {
            let path = datadir.join(name(number));
            if !path.is_there() {
                break;
            }
            let len = std::fs::metadata(&path).map_err(failed(&path, "looking at the file"))?.len();
            files.parts.push(SpacePart { path: name(number), start: files.len });
            files.len += len;
        }
        let next = files.parts.len() + 2;
        if datadir.join(name(next)).is_there() {
            return refused(format!("ibdata{next} exists, but ibdata{} is missing", next - 1));
        }
        Ok(files)
    }

    /// The files after the first.
    pub fn more(&self) -> Vec<SpacePart> {
        self.parts.iter().skip(1).cloned().collect()
    }

    /// The last file, which may be the first.
    pub fn last(&self) -> Option<SpacePart> {
        self.parts.last().cloned()
    }

    /// Fails if the files are too few or too many for a tablespace with `now` pages according to page 0, and `then` pages after its redo.
    pub fn check(&self, format: &SpaceFormat, now: u32, then: u32) -> Result<()> {
        let page = format.physical().bytes() as u64;
        let here = self.len / page;
        // If the log shrinks it, the file may have been truncated without page 0 saying so.
        if u64::from(now.min(then)) > here {
            return refused(format!(
                "the system tablespace has {now} pages, but ibdata1 and the files numbered after it hold {here}: files with other names (innodb_data_file_path) are unknown without the server's settings"
            ));
        }
        let Some(last) = self.parts.last().filter(|last| last.start > 0) else { return Ok(()) };
        if self.parts.iter().any(|part| part.start % page != 0) {
            return refused("a file of the system tablespace other than the last does not end with a whole page");
        }
        if u64::from(now.max(then)) * page <= last.start {
            let name = last.path.display();
            return refused(format!("{name} is not part of the system tablespace, which ends before it: remove it"));
        }
        Ok(())
    }

    /// Reads `len` bytes of the tablespace at `offset`, or fewer at its end.
    pub fn read(&self, datadir: &Path, mut offset: u64, len: usize) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(len);
        let ends = self.parts.iter().skip(1).map(|part| part.start).chain([self.len]);
        for (part, end) in self.parts.iter().zip(ends) {
            let wanted = (len - bytes.len()).min(usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX));
            if offset < part.start || wanted == 0 {
                continue;
            }
            let path = datadir.join(&part.path);
            let file = door::open_file(&path).and_then(|file| read_up_to(&file, offset - part.start, wanted));
            bytes.extend(file.map_err(failed(&path, "reading the system tablespace"))?);
            offset += wanted as u64;
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_across_two_files_is_read_from_both() {
        let dir = tempfile::tempdir().expect("a directory");
        for (name, byte) in [("ibdata1", 1), ("ibdata2", 2), ("ibdata3", 3)] {
            std::fs::write(dir.path().join(name), vec![byte; 100]).expect("written");
        }
        let files = SystemFiles::find(dir.path()).expect("files");
        let bytes = files.read(dir.path(), 90, 120).expect("read");
        assert_eq!(bytes, [vec![1; 10], vec![2; 100], vec![3; 10]].concat());
        assert_eq!(files.read(dir.path(), 290, 50).expect("read"), vec![3; 10]);
        std::fs::remove_file(dir.path().join("ibdata2")).expect("removed");
        assert!(SystemFiles::find(dir.path()).is_err());
    }
}
