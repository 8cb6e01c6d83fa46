//! Where each record begins and ends, without a look at what it says.

use format::types::PageId;

use super::cursor::Cursor;

/// First byte: the record is of the same page as the one before; before any page record: it is about a file.
pub(super) const SAME_PAGE: u8 = 0x80;

/// First byte, bytes before the body, and bytes of the whole record. `None` if the bytes end first or there is no such length.
#[inline]
pub(crate) fn frame(bytes: &[u8]) -> Option<(u8, usize, usize)> {
    let (&first, rest) = bytes.split_first()?;
    let short = usize::from(first & 15);
    if short > 0 {
        return Some((first, 1, 1 + short));
    }
    let mut length = Cursor::new(rest);
    let more = length.size().ok()?;
    let head_len = 1 + rest.len() - length.left();
    Some((first, head_len, 1 + more + 15))
}

/// Page, and place of what follows its number, of every page record in a mini-transaction of which only the page numbers can be
/// read. Ends where they cannot.
pub(crate) fn payload_of_pages(bytes: &[u8]) -> impl Iterator<Item = (PageId, std::ops::Range<usize>)> {
    let (mut at, mut current) = (0, None);
    std::iter::from_fn(move || {
        loop {
            let (first, head_len, len) = frame(bytes.get(at..)?)?;
            let end = at.checked_add(len).filter(|&end| end <= bytes.len())?;
            let mut body = Cursor::new(bytes.get(at + head_len..end)?);
            at = end;
            if first & SAME_PAGE == 0 {
                current = Some(PageId::new(body.varint().ok()?, body.varint().ok()?));
            }
            if let Some(id) = current {
                return Some((id, end - body.left()..end));
            }
        }
    })
}
