//! Slots of the system tablespace's doublewrite area: copies of pages of any tablespace, possibly stale.
//!
//! A slot has the size of a logical page. The page in it names its own tablespace, whose format is unknown here, so all formats of the
//! family are tried. A slot without a sound page is no loss of data.

use crate::bytes::{be, is_zero};
use crate::checksum;
use crate::kind::{Family, Scheme};
use crate::page::content::content;
use crate::page::space_format::SpaceFormat;
use crate::page::verdict::{Verdict, Why};
use crate::types::{PageNo, PageSize};

pub(crate) fn judge(slot: &[u8], system: &SpaceFormat) -> Verdict {
    if is_zero(slot) {
        return Verdict::Empty;
    }
    let whole = [Scheme::Classic, Scheme::FullCrc32].map(|scheme| (scheme, system.logical()));
    let zip = PageSize::ALL.map(|size| (Scheme::Zip, size));
    whole
        .into_iter()
        .chain(zip)
        .filter_map(|(scheme, physical)| format_of(system, scheme, physical))
        .map(|format| judge_as(slot, &format))
        .find(|verdict| matches!(verdict, Verdict::Ok(_)))
        .unwrap_or(Verdict::Unverifiable(Why::DoublewriteSlot))
}

fn format_of(system: &SpaceFormat, scheme: Scheme, physical: PageSize) -> Option<SpaceFormat> {
    SpaceFormat::new(system.family(), scheme, system.logical(), physical, system.space())
        .filter(|_| scheme != Scheme::FullCrc32 || system.family() == Family::MariaDb)
}

fn judge_as(slot: &[u8], format: &SpaceFormat) -> Verdict {
    let Some(page) = slot.get(..format.physical().bytes()) else {
        return Verdict::Unverifiable(Why::DoublewriteSlot);
    };
    let page_no = PageNo(be::u32_at(page, 4).unwrap_or(0));
    match format.scheme() {
        // Zip pages fill only the start of their slot; servers ignore the rest.
        Scheme::Zip => content(page, page_no, format, checksum::zip_crc32(page)),
        Scheme::Classic | Scheme::FullCrc32 => content(page, page_no, format, checksum::crc32(page)),
    }
}
