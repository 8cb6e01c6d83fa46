//! Writes and reads `t.ibd.delta`, the changed pages of a tablespace in an increment. The format is that of `logs::delta`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use logs::delta::{self, Meta, Parser, cluster_head, pages_per_cluster};

use super::error::{BackupError, Result, failed};
use crate::door;
use datadir::content::{delta_note, read_delta_note};
use datadir::crc32c::Crc32c;

/// Bytes per read.
const PIECE: usize = 1 << 20;

/// The path of the file with the changed pages of `tablespace`.
pub(super) fn delta_of(tablespace: &Path) -> PathBuf {
    let mut name = OsString::from(tablespace.as_os_str());
    name.push(".delta");
    PathBuf::from(name)
}

/// Writes changed pages in ascending order of their numbers.
#[derive(Debug)]
pub(super) struct DeltaWriter {
    path: PathBuf,
    file: File,
    page_size: usize,
    /// The page numbers of the open cluster, and the cluster's offset in the file.
    numbers: Vec<u32>,
    cluster: u64,
    end: u64,
    pub pages: u64,
}

impl DeltaWriter {
    pub fn create(path: PathBuf, page_size: usize) -> Result<Self> {
        let file = door::open_own(&path, true);
        let file = file.map_err(failed(&path, "making the file of changed pages"))?;
        Ok(Self { path, file, page_size, numbers: Vec::new(), cluster: 0, end: page_size as u64, pages: 0 })
    }

    pub fn put(&mut self, number: u32, page: &[u8]) -> Result<()> {
        if self.numbers.len() == pages_per_cluster(self.page_size) {
            self.close(false)?;
            self.cluster = self.end;
            self.end += self.page_size as u64;
        }
        self.write(page, self.end)?;
        self.numbers.push(number);
        self.end += page.len() as u64;
        self.pages += 1;
        Ok(())
    }

    /// Closes the last cluster. Returns the number of pages written.
    pub fn finish(mut self) -> Result<u64> {
        self.close(true)?;
        Ok(self.pages)
    }

    fn close(&mut self, is_last: bool) -> Result<()> {
        let head = cluster_head(&self.numbers, self.page_size, is_last);
        self.numbers.clear();
        self.write(&head, self.cluster)
    }

    fn write(&self, bytes: &[u8], at: u64) -> Result<()> {
        self.file.write_all_at(bytes, at).map_err(failed(&self.path, "writing changed pages"))
    }
}

/// Reads changed pages.
#[derive(Debug)]
pub(super) struct DeltaReader {
    path: PathBuf,
    file: File,
    parser: Parser,
    piece: Vec<u8>,
    /// The part of the piece that is not parsed yet.
    left: std::ops::Range<usize>,
    /// Of the bytes read so far.
    pub sum: Crc32c,
    pub pages: u64,
    is_done: bool,
}

impl DeltaReader {
    /// Opens the changed pages at `path`, and reads the note beside them.
    pub fn open(path: PathBuf) -> Result<Self> {
        let note = delta_note(&path);
        let meta = match read_delta_note(&note) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(damaged(&note, "the note of changed pages is missing"));
            }
            read => read.map_err(failed(&note, "reading the note of changed pages"))?,
        };
        let meta = meta.ok_or_else(|| damaged(&note, "it does not give the page size"))?;
        let file = door::open_file(&path).map_err(failed(&path, "opening the changed pages"))?;
        let (piece, sum) = (vec![0; PIECE], Crc32c::new());
        Ok(Self { path, file, parser: Parser::new(meta), piece, left: 0..0, sum, pages: 0, is_done: false })
    }

    /// Reads the next page into `page`. Returns its number, or `None` after the last.
    pub fn next(&mut self, page: &mut Vec<u8>) -> Result<Option<u32>> {
        while !self.is_done {
            let mut bytes = self.piece.get(self.left.clone()).unwrap_or_default();
            let next = self.parser.next_page(&mut bytes);
            let next = next.map_err(|error| damaged(&self.path, &error.to_string()))?;
            self.left.start = self.left.end - bytes.len();
            if let Some(found) = next {
                page.clear();
                page.extend_from_slice(found.bytes);
                self.pages += 1;
                return Ok(Some(found.number));
            }
            self.refill()?;
        }
        Ok(None)
    }

    fn refill(&mut self) -> Result<()> {
        let read = self.file.read(&mut self.piece).map_err(failed(&self.path, "reading changed pages"))?;
        self.left = 0..read;
        self.sum.add(self.piece.get(..read).unwrap_or_default());
        if read == 0 {
            self.is_done = true;
            let meta = Meta { page_size: 1024, space: None, flags: None };
            let parser = std::mem::replace(&mut self.parser, Parser::new(meta));
            parser.finish().map_err(|error: delta::Error| damaged(&self.path, &error.to_string()))?;
        }
        Ok(())
    }
}

fn damaged(path: &Path, why: &str) -> BackupError {
    BackupError::Damaged(format!("{}: {why}", path.display()))
}
