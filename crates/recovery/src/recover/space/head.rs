//! Page 0 of a file, and the tablespace's format from it.

use std::path::Path;

use format::bytes::be;
use format::fil::FIL_PAGE_LSN;
use format::{Lsn, PageId, PageNo, PageSize, SpaceFormat, Verdict, verify_page};

use crate::door;
use crate::recover::error::{Result, failed};
use datadir::reading::read_up_to;

/// The head of a file with a sound page 0.
#[derive(Debug)]
pub(in crate::recover) struct Head {
    pub format: SpaceFormat,
    pub page0: Vec<u8>,
    /// The sound page with the highest LSN among those read along with page 0.
    pub newest: (PageNo, Lsn),
}

impl Head {
    /// Reads the head of the file; `None` if page 0 is not sound.
    pub fn read(path: &Path) -> Result<Option<Self>> {
        let bytes = door::open_file(path).and_then(|file| read_up_to(&file, 0, PageSize::MAX.bytes()));
        Ok(Self::parse(&bytes.map_err(failed(path, "reading the first page"))?))
    }

    /// The format that a torn page 0 states, if it is one.
    pub fn format_of_torn(path: &Path) -> Result<Option<SpaceFormat>> {
        let bytes = door::open_file(path).and_then(|file| read_up_to(&file, 0, PageSize::MAX.bytes()));
        Ok(SpaceFormat::from_page0(&bytes.map_err(failed(path, "reading the first page"))?).ok())
    }

    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let format = SpaceFormat::from_page0(bytes).ok()?;
        let page0 = bytes.get(..format.physical().bytes())?;
        let verdict = verify_page(page0, PageId::new(format.space().0, 0), &format);
        matches!(verdict, Verdict::Ok(_)).then(|| Self {
            format,
            page0: page0.to_vec(),
            newest: newest(bytes, &format),
        })
    }
}

/// The sound page with the highest LSN among the whole pages in a file's first bytes.
fn newest(bytes: &[u8], format: &SpaceFormat) -> (PageNo, Lsn) {
    let pages = (0..).zip(bytes.chunks_exact(format.physical().bytes()));
    let sound = pages.filter(|(number, page)| {
        matches!(verify_page(page, PageId::new(format.space().0, *number), format), Verdict::Ok(_))
    });
    let lsns = sound.map(|(number, page)| (PageNo(number), Lsn(be::u64_at(page, FIL_PAGE_LSN).unwrap_or(0))));
    lsns.max_by_key(|(_, lsn)| *lsn).unwrap_or((PageNo(0), Lsn(0)))
}
