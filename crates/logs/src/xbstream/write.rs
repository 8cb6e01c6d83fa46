//! Chunks as the servers' own tools write them, and read them.

use crc_fast::{CrcAlgorithm, Digest};

use super::layout::{MAGIC, PATH_LEN_MAX};

/// Flags, and types of chunks.
const FLAGS: u8 = 0;
const PAYLOAD: u8 = b'P';
const END: u8 = b'E';

/// The head of a chunk that carries `bytes` of a file, from `offset` on; the bytes follow it in the stream. `None` if no reader accepts the
/// path: it is empty or too long.
#[must_use]
pub fn payload_head(path: &str, offset: u64, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut digest = Digest::new(CrcAlgorithm::Crc32IsoHdlc);
    digest.update(bytes);
    let mut head = head(PAYLOAD, path)?;
    put(&mut head, bytes.len() as u64, 8);
    put(&mut head, offset, 8);
    put(&mut head, digest.finalize(), 4);
    Some(head)
}

/// The chunk that ends a file. `None` as for [`payload_head`].
#[must_use]
pub fn end(path: &str) -> Option<Vec<u8>> {
    head(END, path)
}

fn head(kind: u8, path: &str) -> Option<Vec<u8>> {
    if path.is_empty() || path.len() > PATH_LEN_MAX {
        return None;
    }
    let mut head = MAGIC.to_vec();
    head.extend([FLAGS, kind]);
    put(&mut head, path.len() as u64, 4);
    head.extend(path.bytes());
    Some(head)
}

/// Appends the `len` lowest bytes of `value`, the lowest first.
fn put(bytes: &mut Vec<u8>, value: u64, len: usize) {
    bytes.extend(value.to_be_bytes().into_iter().rev().take(len));
}
