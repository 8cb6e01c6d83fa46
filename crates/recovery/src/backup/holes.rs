//! Holes in the files of page-compressed tables. The server writes the compressed bytes of a page and punches a hole over the rest of it. A
//! copy without the holes, and the server that is restored from it, would take several times the space.

use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use datadir::reading::{has_holes, used_before_hole};

/// Where the copy of a file may have holes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holes {
    /// Where a whole write is zeros. Zeros inside the pages of an ordinary table are room for rows: holes would scatter its file.
    Writes,
    /// At the ends of pages of this size, in bytes.
    Pages(usize),
}

impl Holes {
    /// As in a file with this metadata, whose pages have `page` bytes.
    pub fn like(file: &Metadata, page: usize) -> Self {
        if has_holes(file) { Self::Pages(page.max(1)) } else { Self::Writes }
    }

    /// Writes whole pages at an offset of a file in which nothing was written there before.
    pub fn write(self, to: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let page = match self {
            Self::Writes => bytes.len().max(1),
            Self::Pages(page) => page,
        };
        let write = |run: Range<usize>| match bytes.get(run.clone()) {
            Some(run_bytes) if !run_bytes.is_empty() => to.write_all_at(run_bytes, offset + run.start as u64),
            _ => Ok(()),
        };
        // Pages without a hole between them are written together.
        let mut run = 0..0;
        for (start, page) in (0..).step_by(page).zip(bytes.chunks(page)) {
            let end = start + used_before_hole(page);
            if run.end == start {
                run.end = end;
            } else if end > start {
                write(std::mem::replace(&mut run, start..end))?;
            }
        }
        write(run)
    }
}

#[cfg(test)]
#[allow(clippy::expect_used, clippy::indexing_slicing, reason = "helpers of tests fail the test")]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    const PAGE: usize = 16 << 10;

    /// What is written of these pages, and how much space that takes.
    fn written(holes: Holes, bytes: &[u8]) -> (Vec<u8>, u64) {
        let dir = tempfile::TempDir::new().expect("a directory");
        let path = dir.path().join("t.ibd");
        let file = File::create(&path).expect("created");
        holes.write(&file, PAGE as u64, bytes).expect("written");
        file.set_len((PAGE + bytes.len()) as u64).expect("a size");
        file.sync_all().expect("durable");
        let space = fs::metadata(&path).expect("is there").blocks() * 512;
        (fs::read(&path).expect("read")[PAGE..].to_vec(), space)
    }

    #[test]
    fn pages_keep_the_holes_at_their_ends_and_all_their_bytes() {
        // Full, compressed to a block and a byte, to less than a block, a hole, full.
        let mut bytes = vec![0; 5 * PAGE];
        for used in [0..PAGE, PAGE..PAGE + 4097, 2 * PAGE..2 * PAGE + 60, 4 * PAGE..5 * PAGE] {
            bytes[used].fill(7);
        }
        let (sparse, space) = written(Holes::Pages(PAGE), &bytes);
        assert!(sparse == bytes);
        let (whole, more) = written(Holes::Writes, &bytes);
        assert!(whole == bytes);
        // A file system that knows no holes gives both the same.
        assert!(space <= more, "{space} and {more}");
        assert_eq!(written(Holes::Writes, &vec![0; 3 * PAGE]).0, vec![0; 3 * PAGE]);
        let used: Vec<usize> = bytes.chunks(PAGE).map(used_before_hole).collect();
        assert_eq!(used, [PAGE, 8192, 4096, 0, PAGE]);
    }

    #[test]
    fn a_copy_has_holes_where_its_file_has_some() {
        let dir = tempfile::TempDir::new().expect("a directory");
        let (full, sparse) = (dir.path().join("full"), dir.path().join("sparse"));
        fs::write(&full, [7; PAGE]).expect("written");
        File::create(&sparse).and_then(|file| file.set_len(1 << 30)).expect("a file");
        let like = |path| Holes::like(&fs::metadata(path).expect("is there"), PAGE);
        assert_eq!((like(&full), like(&sparse)), (Holes::Writes, Holes::Pages(PAGE)));
    }
}
