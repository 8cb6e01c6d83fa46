//! The key file that an export writes beside an encrypted tablespace.

use crate::bytes::be;
use crate::codec::mysql_encryption::TablespaceKey;
use crate::keyring::KeyringError;

/// Reads the tablespace key from a `.cfp` file, which `FLUSH TABLES ... FOR EXPORT` writes beside an encrypted tablespace. The file has the
/// length 32 (4 bytes), a transfer key (32 bytes), and key and initialisation vector wrapped with it (64 bytes). It has no checksum.
///
/// # Errors
/// [`KeyringError::NotCfp`] if it is not such a file.
pub fn tablespace_key_from_cfp(file: &[u8]) -> Result<TablespaceKey, KeyringError> {
    const TRANSFER_KEY_LEN: u32 = 32;
    let parts = || {
        let (transfer, rest) = file.get(4..)?.split_first_chunk::<32>()?;
        let wrapped: &[u8; 64] = rest.try_into().ok()?;
        (be::u32_at(file, 0)? == TRANSFER_KEY_LEN).then_some((transfer, wrapped))
    };
    let (transfer, wrapped) = parts().ok_or(KeyringError::NotCfp { len: file.len() })?;
    Ok(TablespaceKey::unwrap_with(transfer, wrapped).0)
}
