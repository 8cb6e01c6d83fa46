//! The parts of a record: those in the stream and the log, and those in the trailer.

pub(super) use crate::record::REFERENCE_BYTES;
use crate::record::{Layout, Record, RecordFields, RecordStyle};
use crate::zip_damage::ZipDamage;

/// Trailer bytes per record: the child page number above the leaves, DB_TRX_ID and DB_ROLL_PTR in clustered leaves.
pub(super) const CHILD_BYTES: usize = 4;
pub(super) const SYSTEM_BYTES: usize = 13;
/// Bytes of the fixed header of a record.
pub(super) const HEADER_BYTES: usize = 5;

/// The fields of the record at `origin`.
pub(super) fn locate(
    layout: &Layout,
    page: &[u8],
    origin: u16,
    leaf: bool,
    fields: &mut RecordFields,
) -> Result<(), ZipDamage> {
    let record = Record::new(page, origin, RecordStyle::Compact, leaf).ok_or(ZipDamage::Missing { origin })?;
    layout.locate(&record, fields).map_err(ZipDamage::Record)
}

/// The parts of a record's data in the stream and the log: everything not in the trailer. Each as start and end, ascending.
pub(super) fn packed_parts(
    layout: &Layout,
    fields: &RecordFields,
    origin: usize,
    leaf: bool,
) -> impl Iterator<Item = (usize, usize)> {
    let mut holes: Vec<(usize, usize)> = Vec::new();
    if !leaf {
        holes.push((fields.end() - CHILD_BYTES, fields.end()));
    } else if let Some(trx_id) = layout.trx_id() {
        let slots = fields.slots().iter().enumerate();
        for (number, slot) in slots {
            let (start, end) = (slot.start as usize, (slot.start + slot.len) as usize);
            if number == trx_id {
                holes.push((start, start + SYSTEM_BYTES));
            } else if slot.stored == crate::record::Stored::Extern {
                holes.push((end - REFERENCE_BYTES, end));
            }
        }
    }
    holes.push((fields.end(), fields.end()));
    let mut at = origin;
    holes.into_iter().map(move |(start, end)| (std::mem::replace(&mut at, end), start))
}
