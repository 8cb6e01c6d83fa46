//! The six page compression algorithms, each decompressing to a buffer of known size.

use std::fmt;

use flate2::{Decompress, FlushDecompress};

use super::error::CodecError;

/// A page compression algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Compression {
    /// zlib, with its header and Adler-32.
    Zlib,
    /// One raw lz4 block.
    Lz4,
    /// LZO1X.
    Lzo,
    /// An xz container with LZMA2 and no check.
    Lzma,
    /// bzip2.
    Bzip2,
    /// Raw snappy, which starts with its length.
    Snappy,
}

impl Compression {
    /// The server's name of the algorithm; stable.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Zlib => "zlib",
            Self::Lz4 => "lz4",
            Self::Lzo => "lzo",
            Self::Lzma => "lzma",
            Self::Bzip2 => "bzip2",
            Self::Snappy => "snappy",
        }
    }

    /// The algorithm with MySQL's number `id`, used in page headers.
    #[must_use]
    pub const fn from_mysql_id(id: u8) -> Option<Self> {
        match id {
            1 => Some(Self::Zlib),
            2 => Some(Self::Lz4),
            _ => None,
        }
    }

    /// The algorithm with MariaDB's number `id`, used in pages and flags words.
    #[must_use]
    pub const fn from_mariadb_id(id: u64) -> Option<Self> {
        match id {
            1 => Some(Self::Zlib),
            2 => Some(Self::Lz4),
            3 => Some(Self::Lzo),
            4 => Some(Self::Lzma),
            5 => Some(Self::Bzip2),
            6 => Some(Self::Snappy),
            _ => None,
        }
    }

    /// The number that [`Compression::from_mariadb_id`] reads.
    #[must_use]
    pub const fn mariadb_id(self) -> u16 {
        match self {
            Self::Zlib => 1,
            Self::Lz4 => 2,
            Self::Lzo => 3,
            Self::Lzma => 4,
            Self::Bzip2 => 5,
            Self::Snappy => 6,
        }
    }

    /// The algorithm in the flags word (page 0, byte 54) of a full_crc32 tablespace: bits 5 to 7.
    #[must_use]
    pub const fn from_full_crc32_flags(flags: u32) -> Option<Self> {
        Self::from_mariadb_id((flags as u64 >> 5) & 7)
    }

    /// Whether a stream marks its own end. The streams of other algorithms must be passed without a single extra byte.
    #[must_use]
    pub const fn is_self_terminated(self) -> bool {
        matches!(self, Self::Zlib | Self::Lzma | Self::Bzip2)
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The decoders worth keeping between pages.
pub struct Inflater {
    /// Made when it is first needed: it takes about 40 KiB, and most files have nothing to decode.
    zlib: Option<Decompress>,
    snappy: snap::raw::Decoder,
}

/// Progress of a streaming decoder in one call.
struct DecoderStep {
    consumed: usize,
    produced: usize,
    ended: bool,
}

impl Inflater {
    /// Decoders that have decoded nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self { zlib: None, snappy: snap::raw::Decoder::new() }
    }

    /// Fills `out` exactly from `stream`. Bytes after the end of a self-terminated stream are ignored.
    ///
    /// Memory: zlib, lz4, lzo and snappy allocate nothing. lzma allocates about 100 KiB per page, however large a dictionary the stream
    /// asks for. bzip2 allocates at most 3.6 MiB, depending on the block size in the stream.
    ///
    /// # Errors
    /// [`CodecError::Stream`] if the stream is damaged, [`CodecError::Length`] if it holds more or less than `out`.
    pub fn inflate(&mut self, compression: Compression, stream: &[u8], out: &mut [u8]) -> Result<(), CodecError> {
        let expected = out.len();
        let produced = match compression {
            Compression::Zlib => self.zlib(stream, out),
            Compression::Lz4 => lz4_flex::block::decompress_into(stream, out).ok(),
            Compression::Lzo => lzokay::decompress::decompress(stream, out).ok(),
            Compression::Lzma => xz(stream, out),
            Compression::Bzip2 => bzip2(stream, out),
            Compression::Snappy => self.snappy(stream, out)?,
        };
        match produced {
            None => Err(CodecError::Stream(compression)),
            Some(produced) if produced == expected => Ok(()),
            Some(produced) => Err(wrong_length(compression, produced, expected)),
        }
    }

    fn zlib(&mut self, stream: &[u8], out: &mut [u8]) -> Option<usize> {
        let decoder = self.zlib.get_or_insert_with(|| Decompress::new(true));
        decoder.reset(true);
        run(stream, out, |input, output| {
            let (before_in, before_out) = (decoder.total_in(), decoder.total_out());
            let status = decoder.decompress(input, output, FlushDecompress::Finish).ok()?;
            step(decoder.total_in() - before_in, decoder.total_out() - before_out, status == flate2::Status::StreamEnd)
        })
    }

    /// The stream starts with its uncompressed length, so a wrong length is known before any work.
    fn snappy(&mut self, stream: &[u8], out: &mut [u8]) -> Result<Option<usize>, CodecError> {
        match snap::raw::decompress_len(stream) {
            Ok(len) if len == out.len() => Ok(self.snappy.decompress(stream, out).ok()),
            Ok(len) => Err(wrong_length(Compression::Snappy, len, out.len())),
            Err(_) => Ok(None),
        }
    }
}

impl Default for Inflater {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Inflater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inflater").finish_non_exhaustive()
    }
}

fn wrong_length(compression: Compression, produced: usize, expected: usize) -> CodecError {
    let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    CodecError::Length { compression, produced: number(produced), expected: number(expected) }
}

fn bzip2(stream: &[u8], out: &mut [u8]) -> Option<usize> {
    let mut decoder = bzip2::Decompress::new(false);
    run(stream, out, |input, output| {
        let (before_in, before_out) = (decoder.total_in(), decoder.total_out());
        let status = decoder.decompress(input, output).ok()?;
        step(decoder.total_in() - before_in, decoder.total_out() - before_out, status == bzip2::Status::StreamEnd)
    })
}

fn xz(stream: &[u8], out: &mut [u8]) -> Option<usize> {
    let mut decoder = lzma_rust2::XzStream::new(false);
    run(stream, out, |input, output| {
        let result = decoder.process(input, output, lzma_rust2::Action::Finish).ok()?;
        Some(DecoderStep {
            consumed: result.bytes_consumed,
            produced: result.bytes_produced,
            ended: result.status == lzma_rust2::Status::StreamEnd,
        })
    })
}

fn step(consumed: u64, produced: u64, ended: bool) -> Option<DecoderStep> {
    Some(DecoderStep { consumed: usize::try_from(consumed).ok()?, produced: usize::try_from(produced).ok()?, ended })
}

/// Runs a streaming decoder to the end of its stream. A decoder may stop when `out` is full and read the end mark only in the next call. If
/// that call makes no progress, the data do not fit, or input is missing.
fn run(
    stream: &[u8],
    out: &mut [u8],
    mut decode: impl FnMut(&[u8], &mut [u8]) -> Option<DecoderStep>,
) -> Option<usize> {
    let (mut read, mut written) = (0, 0);
    loop {
        let step = decode(stream.get(read..)?, out.get_mut(written..)?)?;
        read += step.consumed;
        written += step.produced;
        if step.ended {
            return Some(written);
        }
        if step.consumed == 0 && step.produced == 0 {
            // Full with input left: longer than the page. Otherwise: cut short.
            return (written == out.len() && read < stream.len()).then_some(written + 1);
        }
    }
}
