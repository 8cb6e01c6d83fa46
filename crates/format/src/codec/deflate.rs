//! The six page compression algorithms, compressing one page: the inverse of [`super::inflate`].
//!
//! The cost per page was not measured. As with inflating it depends on the algorithm: lz4 costs least, bzip2 and lzma most.

use std::fmt;
use std::io::Write;

use flate2::{Compress, FlushCompress};
use lzma_rust2::{CheckType, EncodeMode, XzOptions, XzWriter};

use super::inflate::Compression;

/// The servers' default of `innodb_compression_level`. The tablespace does not record its server's setting.
const LEVEL: u32 = 6;
/// Size of lzma's dictionary, bytes: its memory, and how far it searches back. No page is larger.
const DICT_SIZE: u32 = 1 << 16;

/// The encoders worth keeping between pages, and the stream of the last one.
pub struct Deflater {
    zlib: Compress,
    snappy: snap::raw::Encoder,
    lzo: Box<lzokay::compress::Dict>,
    stream: Vec<u8>,
}

impl Deflater {
    /// Encoders that have encoded nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            zlib: Compress::new(flate2::Compression::new(LEVEL), true),
            snappy: snap::raw::Encoder::new(),
            lzo: lzokay::compress::Dict::new(),
            stream: Vec::new(),
        }
    }

    /// Compresses `page` into a stream that [`Inflater::inflate`](super::Inflater::inflate) and servers can read. The stream may be longer
    /// than the page. `None` if the encoder gives up: the page is then kept as it is.
    pub fn deflate(&mut self, compression: Compression, page: &[u8]) -> Option<&[u8]> {
        self.stream.clear();
        match compression {
            Compression::Zlib => self.zlib(page)?,
            Compression::Lz4 => {
                self.stream.resize(lz4_flex::block::get_maximum_output_size(page.len()), 0);
                let len = lz4_flex::block::compress_into(page, &mut self.stream).ok()?;
                self.stream.truncate(len);
            }
            Compression::Lzo => {
                self.stream.resize(lzokay::compress::compress_worst_size(page.len()), 0);
                let len = lzokay::compress::compress_no_alloc(page, &mut self.stream, &mut self.lzo).ok()?;
                self.stream.truncate(len);
            }
            Compression::Lzma => xz(page, &mut self.stream)?,
            Compression::Bzip2 => bzip2(page, &mut self.stream)?,
            Compression::Snappy => {
                self.stream.resize(snap::raw::max_compress_len(page.len()), 0);
                let len = self.snappy.compress(page, &mut self.stream).ok()?;
                self.stream.truncate(len);
            }
        }
        Some(&self.stream)
    }

    fn zlib(&mut self, page: &[u8]) -> Option<()> {
        self.zlib.reset();
        // A stream longer than the page is useless, so reserve no more than a page.
        self.stream.reserve(page.len());
        let status = self.zlib.compress_vec(page, &mut self.stream, FlushCompress::Finish).ok()?;
        (status == flate2::Status::StreamEnd).then_some(())
    }
}

impl Default for Deflater {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Deflater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Do not print the stream: it holds data.
        f.debug_struct("Deflater").finish_non_exhaustive()
    }
}

/// An xz container without a check, as servers write it: the page has checksums of its own.
fn xz(page: &[u8], stream: &mut Vec<u8>) -> Option<()> {
    let mut options = XzOptions::with_preset(LEVEL);
    options.set_check_sum_type(CheckType::None);
    options.lzma_options.dict_size = DICT_SIZE;
    options.lzma_options.mode = EncodeMode::Normal;
    let mut writer = XzWriter::new(stream, options).ok()?;
    writer.write_all(page).ok()?;
    writer.finish().ok().map(drop)
}

/// Blocks of 100 kB, the smallest: a page fits.
fn bzip2(page: &[u8], stream: &mut Vec<u8>) -> Option<()> {
    stream.reserve(page.len());
    let mut encoder = bzip2::Compress::new(bzip2::Compression::fast(), 0);
    let status = encoder.compress_vec(page, stream, bzip2::Action::Finish).ok()?;
    (status == bzip2::Status::StreamEnd).then_some(())
}
