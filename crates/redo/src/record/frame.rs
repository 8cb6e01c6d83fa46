//! The start and end of each record, without interpreting it.

use format::types::PageId;

use super::cursor::Cursor;

/// First byte: the record is about the same page as the previous one; before any page record, it is about a file.
pub(super) const SAME_PAGE: u8 = 0x80;

/// The frame of a record.
#[derive(Clone, Copy)]
pub(crate) struct Frame {
    /// Its first byte: type, and low bits of the length.
    pub first: u8,
    /// Where its body starts.
    pub head_len: usize,
    /// Length of the whole record.
    pub len: usize,
}

/// The record at the start of `bytes`. `None` if more bytes are needed or the length is invalid.
#[inline]
pub(crate) fn frame(bytes: &[u8]) -> Option<Frame> {
    let (&first, rest) = bytes.split_first()?;
    let short = usize::from(first & 15);
    if short > 0 {
        return Some(Frame { first, head_len: 1, len: 1 + short });
    }
    let mut length = Cursor::new(rest);
    let more = length.size().ok()?;
    let head_len = 1 + rest.len() - length.left();
    Some(Frame { first, head_len, len: 1 + more + 15 })
}

/// For every page record in a mini-transaction in which only page numbers are readable: the page, and the range after its number. Ends
/// where they are not readable.
pub(crate) fn payload_of_pages(bytes: &[u8]) -> impl Iterator<Item = (PageId, std::ops::Range<usize>)> {
    let (mut at, mut current) = (0, None);
    std::iter::from_fn(move || {
        loop {
            let Frame { first, head_len, len } = frame(bytes.get(at..)?)?;
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
