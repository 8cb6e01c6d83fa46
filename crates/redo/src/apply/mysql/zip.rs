//! Applies records to pages of ROW_FORMAT=COMPRESSED.
//!
//! The server keeps two versions of such a page: the compressed one, which it writes, and the page inside, which the row positions in the
//! log refer to. A change is made to the page inside as to any other page, then reported to the compressed page ([`Editor`]), whose
//! modification log gets new and changed rows whole. So it fills up when the server's did. The server then logged the recompressed page
//! (MLOG_ZIP_PAGE_COMPRESS); with `innodb_log_compressed_pages=OFF` it logs only the compression level.
//!
//! Non-index pages have no page inside. They are changed like those of other tablespaces; they are just shorter.

mod rows;

use super::super::error::ApplyError;
use super::super::image::{Image, Result};
use super::super::index::PAGE_LEVEL;
use super::lists;
use super::shape::IndexShape;
use crate::record::mysql::change::{Change, ZipWrite};
use crate::record::mysql::index_info::IndexInfo;
use format::fil::{FIL_PAGE_NEXT, FIL_PAGE_PREV, FIL_PAGE_TYPE, PageType};
use format::page::index::PAGE_DATA;
use format::page::space_format::SpaceFormat;
use format::page::zip::Editor;
use format::types::PageId;

/// The state of a page while records are applied.
#[derive(Debug, Default)]
pub(in super::super) struct ZipPage {
    state: State,
}

#[derive(Debug, Default)]
enum State {
    /// Nothing has needed the page inside so far.
    #[default]
    Closed,
    /// The page inside is in use.
    Open(Box<Editor>),
    /// The page inside exists, the compressed one does not yet: a record with the whole compressed page must follow.
    Unpacked,
}

/// The page as stored, with its tablespace's format.
struct Stored<'p> {
    packed: &'p mut [u8],
    format: &'p SpaceFormat,
}

impl ZipPage {
    /// Applies one record. `is_recompressed`: the next record says that the page is recompressed.
    pub(in super::super) fn apply(
        &mut self,
        change: &Change<'_>,
        id: PageId,
        (packed, format): (&mut [u8], &SpaceFormat),
        is_recompressed: bool,
    ) -> Result<()> {
        match *change {
            Change::InitPage | Change::InitBitmap => {
                self.state = State::Closed;
                return super::apply(change, id, packed);
            }
            Change::ZipImage { neighbours, front, trailer } => {
                put_image(&mut Image::new(packed), neighbours, front, trailer)?;
                self.state = State::Open(Box::new(Editor::open(packed, format)?));
                return Ok(());
            }
            Change::None => return Ok(()),
            _ => {}
        }
        if matches!(self.state, State::Unpacked) {
            return Err(ApplyError::Compressed);
        }
        match *change {
            Change::Write { offset, len, value } => {
                let bytes = value.to_be_bytes();
                self.put(packed, offset, bytes.get(bytes.len().saturating_sub(len)..).unwrap_or_default())
            }
            Change::WriteString { offset, data } => self.put(packed, offset, data),
            Change::CreateIndex { .. } => {
                self.state = State::Unpacked;
                Ok(())
            }
            _ => self.on_records(change, Stored { packed, format }, is_recompressed),
        }
    }

    /// Compares both pages once all records are applied.
    pub(in super::super) fn finish(&mut self, packed: &[u8], format: &SpaceFormat) -> Result<()> {
        match &mut self.state {
            State::Closed => Ok(()),
            State::Open(editor) => Ok(editor.check(packed, format)?),
            State::Unpacked => Err(ApplyError::Compressed),
        }
    }

    /// Writes bytes that both pages have at the same offset: on an index page, those of the header.
    fn put(&mut self, packed: &mut [u8], offset: usize, data: &[u8]) -> Result<()> {
        let was_index = is_index(packed);
        if was_index && offset.saturating_add(data.len()) > PAGE_DATA {
            return Err(ApplyError::Compressed);
        }
        Image::new(packed).put(offset, data)?;
        match &mut self.state {
            State::Open(editor) if is_index(packed) => Image::new(editor.page()).put(offset, data),
            state => {
                *state = State::Closed;
                Ok(())
            }
        }
    }

    /// Changes to index records.
    fn on_records(&mut self, change: &Change<'_>, page: Stored<'_>, is_recompressed: bool) -> Result<()> {
        let Stored { packed, format } = page;
        if !is_index(packed) {
            return Err(ApplyError::NotZipIndex);
        }
        if let State::Closed = self.state {
            self.state = State::Open(Box::new(Editor::open(packed, format)?));
        }
        let State::Open(editor) = &mut self.state else { return Err(ApplyError::Compressed) };
        let mut pages = rows::Pages { editor, packed };
        match *change {
            Change::Insert { ref index, cursor, ref body } if is_recompressed => {
                pages.insert_inside(&shape_of(index)?, cursor, body)
            }
            Change::Insert { ref index, cursor, ref body } => pages.insert(&shape_of(index)?, cursor, body).map(|_| ()),
            Change::InsertMany { ref index, bodies } => pages.insert_many(&shape_of(index)?, bodies),
            Change::DeleteMark { ref index, value, ref system, record } => {
                let shape = index.as_ref().map(shape_of).transpose()?;
                pages.mark_deleted(shape.as_ref(), value, system.as_ref(), record)
            }
            Change::MinMark { record } => pages.mark_lowest(record),
            Change::Update { ref index, ref system, record, info_bits, ref updates } => {
                pages.update(&shape_of(index)?, record, system.as_ref(), info_bits, updates)
            }
            Change::Delete { ref index, record } => pages.delete(&shape_of(index)?, record),
            Change::DeleteFrom { ref index, record } => pages.delete_from(&shape_of(index)?, record),
            Change::DeleteUntil { ref index, record } => pages.delete_until(&shape_of(index)?, record),
            Change::Reorganize { ref index, level: Some(level) } => {
                let shape = shape_of(index)?;
                lists::reorganize(rows::inside(pages.editor)?, &shape)?;
                Ok(pages.editor.repack(pages.packed, level)?)
            }
            Change::ZipCompress { level, .. } => Ok(pages.editor.repack(pages.packed, level)?),
            Change::ZipWrite { offset, zip_offset, data, kind } => pages.write(offset, zip_offset, data, kind),
            _ => Err(ApplyError::Compressed),
        }
    }
}

fn is_index(packed: &[u8]) -> bool {
    let page_type = format::bytes::be::u16_at(packed, FIL_PAGE_TYPE).map(PageType);
    matches!(page_type, Some(PageType::INDEX | PageType::RTREE | PageType::SDI))
}

/// The index described by a record. Compressed tables are neither REDUNDANT nor instantly altered.
fn shape_of(index: &IndexInfo<'_>) -> Result<IndexShape> {
    let is_plain = index.is_compact && !index.has_versions && index.n_instant.is_none();
    if is_plain { IndexShape::of(index) } else { Err(ApplyError::IndexInfo) }
}

/// Writes the page as the server compressed it, except for the fields that depend on its place.
fn put_image(packed: &mut Image<'_>, neighbours: [&[u8]; 2], front: &[u8], trailer: &[u8]) -> Result<()> {
    let (size, front_end) = (packed.size(), FIL_PAGE_TYPE + front.len());
    let outside = ApplyError::OutsidePage { offset: FIL_PAGE_TYPE, len: front.len() + trailer.len(), size };
    let between = size.checked_sub(trailer.len()).and_then(|start| start.checked_sub(front_end)).ok_or(outside)?;
    let [prev, next] = neighbours;
    packed.put(FIL_PAGE_PREV, prev)?;
    packed.put(FIL_PAGE_NEXT, next)?;
    packed.put(FIL_PAGE_TYPE, front)?;
    packed.fill(front_end, between, 0)?;
    packed.put(size - trailer.len(), trailer)
}

impl rows::Pages<'_> {
    /// Writes bytes that the two pages have at different offsets.
    fn write(&mut self, offset: usize, zip_offset: usize, data: &[u8], kind: ZipWrite) -> Result<()> {
        let is_leaf = Image::new(self.editor.page()).u16(PAGE_LEVEL)? == 0;
        let fits = match kind {
            ZipWrite::Header => offset + data.len() <= PAGE_DATA,
            ZipWrite::Child => !is_leaf && offset >= PAGE_DATA && zip_offset >= PAGE_DATA,
            ZipWrite::Reference => is_leaf && offset >= PAGE_DATA && zip_offset >= PAGE_DATA,
        };
        if !fits {
            return Err(ApplyError::OutsidePage { offset, len: data.len(), size: self.packed.len() });
        }
        Image::new(self.editor.page()).put(offset, data)?;
        Image::new(self.packed).put(zip_offset, data)
    }
}
