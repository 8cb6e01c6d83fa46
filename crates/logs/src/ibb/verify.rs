//! From page to page.

use format::bytes::{is_zero, le};
use format::checksum::crc32c;
use format::pieces::gather;

use super::chunks::Chunks;
use super::header::{Header, HeaderFault};
use super::{Corruption, Error, HEADER_LEN, PAGE_SIZE, Page, Summary, Verdict};

/// The major version of the format that is known: `IBB_FILE_VERS_MAJOR`.
const MAJOR: u32 = 1;
/// Bytes of the header that are used: `IBB_BINLOG_HEADER_SIZE`.
const HEADER_USED: usize = 64;
/// Bytes of a checksum.
const CHECKSUM: usize = 4;

/// Verifies a file that arrives in pieces of any size. Feed it with [`Verifier::next_page`], close it with [`Verifier::finish`]. Memory: a
/// page of at most 64 KiB, a record of at most 1 MiB, and 16 MiB of positions.
#[derive(Debug)]
pub struct Verifier {
    /// The number in the file's name.
    named: Option<u64>,
    page: Vec<u8>,
    page_size: usize,
    number: u32,
    chunks: Chunks,
    summary: Summary,
}

impl Verifier {
    /// A verifier at the beginning of a file. `file`: the number in its name, if that has one ([`super::file_number`]).
    #[must_use]
    pub fn new(file: Option<u64>) -> Self {
        let chunks = Chunks::new(file);
        Self { named: file, page: Vec::new(), page_size: PAGE_SIZE, number: 0, chunks, summary: Summary::default() }
    }

    /// The verdict on the next page; consumes what it needs from the front of `input`. `None` if `input` is used up: call again with more.
    ///
    /// # Errors
    /// [`Error::Version`]: nothing more can be said of the file.
    pub fn next_page(&mut self, input: &mut &[u8]) -> Result<Option<Page>, Error> {
        if self.number == 0 && self.page.len() < HEADER_LEN {
            if !gather(&mut self.page, input, HEADER_LEN) {
                return Ok(None);
            }
            if let Ok(header) = Header::read(&self.page) {
                let (major, minor) = header.version;
                if major != MAJOR {
                    return Err(Error::Version { major, minor });
                }
                self.page_size = header.page_size;
                self.chunks.records.file = self.named.or(Some(header.file));
            }
        }
        if !gather(&mut self.page, input, self.page_size) {
            return Ok(None);
        }
        let page = std::mem::take(&mut self.page);
        let verdict = self.judge(&page);
        self.page = page;
        self.page.clear();
        let summary = &mut self.summary;
        summary.pages += 1;
        *match &verdict {
            Verdict::Ok => &mut summary.ok,
            Verdict::Empty => &mut summary.empty,
            Verdict::Unknown { .. } => &mut summary.unknown,
            Verdict::Corrupt(_) => &mut summary.corrupt,
        } += 1;
        let number = self.number;
        self.number += 1;
        Ok(Some(Page { number, verdict }))
    }

    fn judge(&mut self, page: &[u8]) -> Verdict {
        if is_zero(page) {
            // After the end of the log, or before its beginning: a file is made of zeros.
            self.chunks.end.get_or_insert((self.number, 0));
            return Verdict::Empty;
        }
        let data = page.get(..page.len() - CHECKSUM).unwrap_or_default();
        let (stored, computed) = (le::u32_at(page, data.len()).unwrap_or(0), crc32c(data));
        if stored != computed {
            self.chunks.skip();
            return Verdict::Corrupt(Corruption::Checksum { stored, computed });
        }
        if self.number == 0 {
            return self.header(page, data).map_or_else(|fault| Verdict::Corrupt(fault.into()), |()| Verdict::Ok);
        }
        let start = u64::from(self.number) * self.page_size as u64;
        self.chunks.page(self.number, start, data)
    }

    fn header(&mut self, page: &[u8], data: &[u8]) -> Result<(), HeaderFault> {
        let header = Header::read(page)?;
        self.summary.header = Some(header);
        self.chunks.state_interval = Some(header.state_interval);
        if let Some(expected) = self.named.filter(|expected| *expected != header.file) {
            return Err(HeaderFault::File { stored: header.file, expected });
        }
        let own = HEADER_LEN - CHECKSUM..HEADER_LEN;
        let is_padding = |at: &usize| *at >= HEADER_USED && !own.contains(at);
        // A later minor version may have more fields.
        let wrong = data.iter().enumerate().find(|(at, byte)| header.version.1 == 0 && is_padding(at) && **byte != 0);
        wrong.map_or(Ok(()), |(offset, _)| Err(HeaderFault::Padding { offset }))
    }

    /// The file has ended.
    #[must_use]
    pub fn finish(self) -> Summary {
        Summary {
            records: self.chunks.counts,
            end: self.chunks.end,
            open: self.chunks.open(),
            rest: self.page.len(),
            gtids: self.chunks.records.gtids,
            ..self.summary
        }
    }
}
