//! The verdict on a page's bytes alone, wherever the page is stored.

use crate::checksum;
use crate::kind::Scheme;
use crate::page::space_format::SpaceFormat;
use crate::page::verdict::{InnodbNew, Verdict};
use crate::page::{classic, full_crc32};
use crate::types::PageNo;

/// The verdict on the bytes alone, wherever the page is stored.
pub(crate) fn content(page: &[u8], page_no: PageNo, format: &SpaceFormat, crc: u32) -> Verdict {
    content_with(page, page_no, format, crc, &|| checksum::innodb_new(page))
}

pub(crate) fn content_with(
    page: &[u8],
    page_no: PageNo,
    format: &SpaceFormat,
    crc: u32,
    innodb_new: &InnodbNew<'_>,
) -> Verdict {
    match format.scheme() {
        Scheme::Classic => classic::judge(page, page_no, format, &classic::Sums { crc, innodb_new }),
        Scheme::Zip => classic::judge_zip(page, page_no, format, crc),
        Scheme::FullCrc32 => full_crc32::judge(page),
    }
}
