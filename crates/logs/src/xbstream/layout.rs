//! What readers and writers of a stream agree on.

/// The start of every chunk, which identifies a stream.
pub const MAGIC: [u8; 8] = *b"XBSTCK01";
/// Longest path in a chunk, bytes: `mbstream` and `xbstream` reject longer ones.
pub const PATH_LEN_MAX: usize = 511;
