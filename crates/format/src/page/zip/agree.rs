//! Compares a packed page with the page inside.

use super::directory::slots_of;
use super::header::{Header, SLOT_ORIGIN};
use super::pack::HEADERS;
use super::parts::{HEADER_BYTES, locate};
use crate::fil::FIL_PAGE_DATA_END;
use crate::page::index::PAGE_DATA;
use crate::record::{Layout, REC_INFO_MIN_REC, RecordFields};
use crate::zip_damage::ZipDamage;

/// Whether two unpacked pages have the same headers, the same records in the same places, and the same free list. Leftover bytes in free
/// space may differ, since nothing reads them. The min-rec flag may differ too, since packed pages do not have it.
pub(super) fn agree(one: &[u8], other: &[u8], layout: &Layout, fields: &mut RecordFields) -> Result<bool, ZipDamage> {
    let same = |range: std::ops::Range<usize>| one.get(range.clone()) == other.get(range);
    if !HEADERS.into_iter().all(same) {
        return Ok(false);
    }
    if same(PAGE_DATA..one.len().saturating_sub(FIL_PAGE_DATA_END)) {
        return Ok(true);
    }
    let header = Header::read(one);
    let (mut slots, mut others) = (Vec::new(), Vec::new());
    slots_of(one, &header, &mut slots)?;
    slots_of(other, &header, &mut others)?;
    if slots != others {
        return Ok(false);
    }
    for slot in slots.iter().take(header.records.into()) {
        let origin = slot & SLOT_ORIGIN;
        locate(layout, one, origin, header.leaf, fields)?;
        let info_at = usize::from(origin) - HEADER_BYTES;
        let info = |page: &[u8]| page.get(info_at).map(|info| info & !REC_INFO_MIN_REC);
        let is_same = same(fields.start()..info_at) && info(one) == info(other) && same(info_at + 1..fields.end());
        if !is_same {
            return Ok(false);
        }
    }
    Ok(true)
}
