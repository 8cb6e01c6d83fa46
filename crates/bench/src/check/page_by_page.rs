//! How most tools read a tablespace: read a page, verify it, read the next.

use std::io;

use flow::{BufferPool, FileHandle};
use format::{PageId, PageNo, Verdict, verify_page};

use jobs::source::space::{self, HEAD};

/// Verifies the pages one by one, and returns the number of sound ones; `None` if page 0 does not give the page size.
pub(super) fn verify(handle: &FileHandle, len: u64) -> io::Result<Option<u64>> {
    let mut pool = BufferPool::new(1, HEAD as u32)?;
    let mut buffer = pool.take().ok_or(io::ErrorKind::OutOfMemory)?;
    let head_len = rustix::io::pread(handle.fd()?, buffer.bytes_mut(), 0)?;
    let Some(part) = space::by_page0(buffer.first(u32::try_from(head_len).unwrap_or(0)), None) else {
        return Ok(None);
    };
    let size = part.format.physical().get();
    let mut sound = 0;
    for (page_no, offset) in (0..).zip((0..len / u64::from(size) * u64::from(size)).step_by(size as usize)) {
        let got = rustix::io::pread(handle.fd()?, buffer.range_mut(0..size), offset)?;
        let page = buffer.first(u32::try_from(got).unwrap_or(0));
        let id = PageId { space: part.format.space(), page_no: PageNo(page_no) };
        sound += u64::from(matches!(verify_page(page, id, &part.format), Verdict::Ok(_)));
    }
    Ok(Some(sound))
}
