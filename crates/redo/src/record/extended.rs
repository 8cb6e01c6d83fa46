//! EXTENDED records: logical changes, logged as operations instead of bytes.

use super::change::{Change, Delete, Insert, RecordSource};
use super::cursor::Cursor;
use super::fault::RecordFault;
use super::row_style::RowStyle;

/// The shortest undo record: just its type and table.
const UNDO_RECORD_MIN: usize = 3;

pub(super) fn parse<'a>(body: &mut Cursor<'a>) -> Result<Change<'a>, RecordFault> {
    use RowStyle::{Dynamic, Redundant};
    match body.byte()? {
        0 => body.ended(Change::InitIndex(Redundant)),
        1 => body.ended(Change::InitIndex(Dynamic)),
        2 => body.ended(Change::UndoInit),
        3 => match body.rest()? {
            record if record.len() >= UNDO_RECORD_MIN => Ok(Change::UndoAppend(record)),
            _ => Err(RecordFault::Fields),
        },
        4 => insert(Redundant, false, body),
        5 => insert(Redundant, true, body),
        6 => insert(Dynamic, false, body),
        7 => insert(Dynamic, true, body),
        8 => {
            let delete = Delete { style: Redundant, prev: body.size()?, header_size: 0, data_size: 0 };
            body.ended(Change::Delete(delete))
        }
        9 => {
            let (prev, header_size, data_size) = (body.size()?, body.size()?, body.size()?);
            body.ended(Change::Delete(Delete { style: Dynamic, prev, header_size, data_size }))
        }
        10 => body.ended(Change::Trim),
        subtype => Err(RecordFault::Subtype(subtype)),
    }
}

fn insert<'a>(style: RowStyle, reuse: bool, body: &mut Cursor<'a>) -> Result<Change<'a>, RecordFault> {
    let prev = body.size()?;
    let place = match (reuse, style) {
        (false, _) => RecordSource::Heap,
        (true, RowStyle::Redundant) => RecordSource::Reuse { shift: 0 },
        (true, RowStyle::Dynamic) => RecordSource::Reuse { shift: shift(body.size()?)? },
    };
    let (header, header_copied, data_copied) = (body.size()?, body.size()?, body.size()?);
    // A record cannot equal the previous one entirely: its key differs.
    let data = body.rest()?;
    Ok(Change::Insert(Insert { style, place, prev, header, header_copied, data_copied, data }))
}

/// The sign is the lowest bit; if set, the new record starts earlier.
fn shift(code: usize) -> Result<i32, RecordFault> {
    let distance = i32::try_from(code >> 1).map_err(|_| RecordFault::Fields)?;
    Ok(if code & 1 == 1 { -distance } else { distance })
}
