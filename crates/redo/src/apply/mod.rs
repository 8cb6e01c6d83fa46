#![doc = include_str!("../../docs/redo-apply.md")]

mod delete;
mod directory;
mod error;
mod image;
mod index;
mod insert;
mod mysql;
mod replay;
mod undo;

use crc_fast::{CrcAlgorithm, Digest};

use crate::record::{Change, PageRecord, WRITE_OFFSET_MIN};
use format::fil::{FIL_PAGE_LSN, FIL_PAGE_OFFSET, FIL_PAGE_PREV, FIL_PAGE_SPACE_ID, FIL_PAGE_TYPE};
use format::kind::Scheme;
use format::page::space_format::SpaceFormat;
use format::types::PageId;
use image::{Image, Result};
use index::Index;
use mysql::ZipPage;

pub use error::ApplyError;
pub use replay::{Outcome, Replay};

/// In tablespaces other than undo, the pages before this one describe the tablespace.
const FIRST_DATA_PAGE: u32 = 3;
/// Both neighbours missing: twice "no page".
const NO_NEIGHBOURS: [u8; 8] = [0xFF; 8];
/// No page checksum covers these last bytes.
const TRAILER_SIZE: usize = 8;

/// Applies one record to its page, whatever the page's LSN; [`Replay`] knows which records are due.
///
/// `page` is the page as the server changes it: decrypted and, if page_compressed, inflated. ROW_FORMAT=COMPRESSED pages are given as
/// stored. FREE_PAGE and TRIM_PAGES only make the content void; they change no byte.
///
/// # Errors
/// [`ApplyError`]. The page is then neither the old version nor the new one and must be read again.
pub fn apply(record: &PageRecord<'_>, page: &mut [u8], format: &SpaceFormat) -> Result<()> {
    let expected = format.physical().bytes();
    let checked = if page.len() == expected { Ok(()) } else { Err(ApplyError::Length { len: page.len(), expected }) };
    checked?;
    let mut zip = ZipPage::default();
    apply_to(record, page, format, (&mut zip, false))?;
    zip.finish(page, format)
}

/// Like [`apply`], for a page with the state `zip`. `is_recompressed`: the next record says that the page is recompressed.
fn apply_to(
    record: &PageRecord<'_>,
    page: &mut [u8],
    format: &SpaceFormat,
    (zip, is_recompressed): (&mut ZipPage, bool),
) -> Result<()> {
    let is_compressed = format.scheme() == Scheme::Zip;
    let mut image = Image::new(page);
    match record.change {
        Change::Free | Change::Trim | Change::Option(_) => Ok(()),
        // Which bytes of a compressed page the checksum would cover is not known.
        Change::Checksum(_) if is_compressed => Ok(()),
        Change::Init => init_page(&mut image, record.id),
        Change::Write { offset, data } => image.put(writable(offset, &image)?, data),
        Change::Set { offset, len, pattern } => set(&mut image, offset, len, pattern),
        Change::Move { offset, len, source } => image.shift(source, writable(offset, &image)?, len),
        Change::Checksum(stored) => check(&image, stored),
        Change::MySql(ref change) if is_compressed => zip.apply(change, record.id, (page, format), is_recompressed),
        Change::MySql(ref change) => mysql::apply(change, record.id, page),
        _ if is_compressed => Err(ApplyError::Compressed),
        _ if record.id.page_no.0 < FIRST_DATA_PAGE => Err(ApplyError::NotAnIndex(record.id.page_no)),
        Change::InitIndex(style) => index::init(&mut image, style),
        Change::UndoInit => undo::init(&mut image),
        Change::UndoAppend(data) => undo::append(&mut image, data),
        Change::Insert(insert) => insert::insert(&mut Index::open(image, insert.style)?, &insert),
        Change::Delete(delete) => delete::delete(&mut Index::open(image, delete.style)?, &delete),
    }
}

/// Records never write the page's checksum or number.
fn writable(offset: usize, image: &Image<'_>) -> Result<usize> {
    let outside = ApplyError::OutsidePage { offset, len: 0, size: image.size() };
    if offset >= WRITE_OFFSET_MIN { Ok(offset) } else { Err(outside) }
}

fn init_page(image: &mut Image<'_>, id: PageId) -> Result<()> {
    image.fill(0, image.size(), 0)?;
    image.put(FIL_PAGE_OFFSET, &id.page_no.0.to_be_bytes())?;
    image.put(FIL_PAGE_PREV, &NO_NEIGHBOURS)?;
    image.put(FIL_PAGE_SPACE_ID, &id.space.0.to_be_bytes())
}

fn set(image: &mut Image<'_>, offset: usize, len: usize, pattern: &[u8]) -> Result<()> {
    let target = image.bytes_mut(writable(offset, image)?, len)?;
    for (byte, value) in target.iter_mut().zip(pattern.iter().cycle()) {
        *byte = *value;
    }
    Ok(())
}

/// Checks the page against the checksum logged by a debug build of the server.
fn check(image: &Image<'_>, stored: u32) -> Result<()> {
    let mut crc = Digest::new(CrcAlgorithm::Crc32Iscsi);
    crc.update(image.bytes(FIL_PAGE_OFFSET, FIL_PAGE_LSN - FIL_PAGE_OFFSET)?);
    crc.update(image.bytes(FIL_PAGE_TYPE, 2)?);
    let body = image.size().saturating_sub(TRAILER_SIZE + FIL_PAGE_SPACE_ID);
    crc.update(image.bytes(FIL_PAGE_SPACE_ID, body)?);
    let computed = u32::try_from(crc.finalize()).unwrap_or(0);
    if stored == computed { Ok(()) } else { Err(ApplyError::Checksum { stored, computed }) }
}
