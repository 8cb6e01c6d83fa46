//! The zlib stream: first the descriptions of the index's fields, then the records.

use flate2::{Decompress, FlushDecompress, Status};

use super::header::Header;
use super::parts::SYSTEM_BYTES;
use super::unpacker::Unpacker;
use crate::page::index::PAGE_DATA;
use crate::record::{FieldLayout, Instant, Layout, Storage};
use crate::zip_damage::ZipDamage;

/// Written by a full flush at the end of the descriptions.
const FLUSH_MARK: [u8; 4] = [0, 0, 0xFF, 0xFF];
/// The mark's bytes may occur earlier by chance: try this many places.
const MARKS_MAX: usize = 4;
/// Descriptions take at most two bytes for each of 1023 fields, plus one.
const DESCRIBED_MAX: usize = 2 * 1024;

impl Unpacker {
    /// Inflates the stream, which ends before `limit`. Returns where the log starts.
    pub(super) fn inflate(
        &mut self,
        page: &[u8],
        limit: usize,
        header: &Header,
        out: &[u8],
    ) -> Result<usize, ZipDamage> {
        let stream = page.get(PAGE_DATA..limit).ok_or(ZipDamage::Stream)?;
        let marks = stream.windows(FLUSH_MARK.len()).enumerate().filter(|(_, bytes)| **bytes == FLUSH_MARK);
        for (at, _) in marks.take(MARKS_MAX) {
            let (descriptions, records) = stream.split_at(at + FLUSH_MARK.len());
            if let Some(used) = self.inflate_both(descriptions, records, out.len())
                && self.layout(header).is_ok()
            {
                return Ok(PAGE_DATA + descriptions.len() + used);
            }
        }
        Err(ZipDamage::Stream)
    }

    /// Inflates the two parts. Returns how many bytes the second one took.
    fn inflate_both(&mut self, descriptions: &[u8], records: &[u8], page_len: usize) -> Option<usize> {
        let zlib = self.zlib.get_or_insert_with(|| Decompress::new(true));
        zlib.reset(true);
        self.described.resize(DESCRIBED_MAX, 0);
        let (used, produced, ended) = run(zlib, descriptions, &mut self.described)?;
        if ended || used != descriptions.len() {
            return None;
        }
        self.described.truncate(produced);
        self.data.resize(page_len, 0);
        let (used, produced, ended) = run(zlib, records, &mut self.data)?;
        self.data.truncate(produced);
        ended.then_some(used)
    }

    /// The fields described by the page. Adjacent fixed-length fields are described as one.
    pub(super) fn layout(&self, header: &Header) -> Result<Layout, ZipDamage> {
        let mut values = Vec::new();
        let mut bytes = self.described.iter();
        while let Some(first) = bytes.next() {
            values.push(match first & 0x80 {
                0 => (u16::from(*first), false),
                _ => (u16::from(first & 0x7F) << 8 | u16::from(*bytes.next().ok_or(ZipDamage::Fields)?), true),
            });
        }
        let (last, _) = values.pop().ok_or(ZipDamage::Fields)?;
        if values.is_empty() {
            return Err(ZipDamage::Fields);
        }
        let fields: Vec<FieldLayout> = values.into_iter().map(|(value, wide)| field(value, wide)).collect();
        let count = fields.len();
        if !header.leaf {
            let layout = Layout::new(fields, count, None, Instant::None);
            return Ok(layout.with_node_null_bytes(usize::from(last).div_ceil(8)));
        }
        let trx_id = (last > 0).then_some(usize::from(last));
        if let Some(at) = trx_id {
            let room = matches!(fields.get(at), Some(FieldLayout { storage: Storage::Fixed(len), nullable: false, .. })
                if usize::from(*len) >= SYSTEM_BYTES);
            if !room {
                return Err(ZipDamage::Fields);
            }
        }
        Ok(Layout::new(fields, count, trx_id, Instant::None))
    }
}

fn field(value: u16, wide: bool) -> FieldLayout {
    let storage = match value {
        0 | 1 if !wide => Storage::Variable { big: false },
        126 | 127 if !wide => Storage::Variable { big: true },
        _ => Storage::Fixed(value >> 1),
    };
    FieldLayout::new(storage, value & 1 == 0)
}

/// Inflates as much of `input` as fits in `out`. Returns bytes consumed, bytes produced, and whether the stream ended.
fn run(zlib: &mut Decompress, input: &[u8], out: &mut [u8]) -> Option<(usize, usize, bool)> {
    let (mut used, mut produced) = (0, 0);
    loop {
        let (before_in, before_out) = (zlib.total_in(), zlib.total_out());
        let status = zlib.decompress(input.get(used..)?, out.get_mut(produced..)?, FlushDecompress::Sync).ok()?;
        let step_in = usize::try_from(zlib.total_in() - before_in).ok()?;
        let step_out = usize::try_from(zlib.total_out() - before_out).ok()?;
        (used, produced) = (used + step_in, produced + step_out);
        if status == Status::StreamEnd {
            return Some((used, produced, true));
        }
        if step_in == 0 && step_out == 0 || used == input.len() && produced < out.len() {
            return Some((used, produced, false));
        }
    }
}
