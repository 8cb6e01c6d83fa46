//! AES as the servers use it: on whole slices, in place.

use aes::cipher::array::Array;
use aes::cipher::consts::U16;
use aes::cipher::{
    BlockCipherDecrypt, BlockCipherEncrypt, BlockModeDecrypt, BlockModeEncrypt, InnerIvInit, KeyInit, StreamCipher,
    StreamCipherCoreWrapper,
};
use aes::{Aes128, Aes128Dec, Aes192, Aes192Dec, Aes256, Aes256Dec};

/// The AES modes that MariaDB uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CipherMode {
    /// `aes_cbc`, the default.
    Cbc,
    /// `aes_ctr`.
    Ctr,
}

impl CipherMode {
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Cbc => Self::Ctr,
            Self::Ctr => Self::Cbc,
        }
    }
}

/// Size of an AES block, bytes.
pub const BLOCK: usize = 16;

type Block = Array<u8, U16>;

/// Decrypts all whole blocks of `bytes` in CBC mode; the rest stays unchanged.
pub fn cbc_decrypt<C>(cipher: &C, iv: &[u8; BLOCK], bytes: &mut [u8])
where
    C: BlockCipherDecrypt<BlockSize = U16>,
{
    let (blocks, _) = Block::slice_as_chunks_mut(bytes);
    cbc::Decryptor::inner_iv_init(cipher, &Block::from(*iv)).decrypt_blocks(blocks);
}

/// Encrypts all whole blocks of `bytes` in CBC mode; the rest stays unchanged.
pub(crate) fn cbc_encrypt<C>(cipher: &C, iv: &[u8; BLOCK], bytes: &mut [u8])
where
    C: BlockCipherEncrypt<BlockSize = U16>,
{
    let (blocks, _) = Block::slice_as_chunks_mut(bytes);
    cbc::Encryptor::inner_iv_init(cipher, &Block::from(*iv)).encrypt_blocks(blocks);
}

/// Decrypts all whole blocks of `bytes`, each separately.
pub(crate) fn ecb_decrypt<C>(cipher: &C, bytes: &mut [u8])
where
    C: BlockCipherDecrypt<BlockSize = U16>,
{
    let (blocks, _) = Block::slice_as_chunks_mut(bytes);
    cipher.decrypt_blocks(blocks);
}

/// Decrypts or encrypts (the same operation) `bytes` in CTR mode with a 128-bit big-endian counter, as OpenSSL does.
pub(crate) fn ctr_apply<C>(cipher: &C, counter: &[u8; BLOCK], bytes: &mut [u8])
where
    C: BlockCipherEncrypt<BlockSize = U16>,
{
    let core = ctr::CtrCore::<&C, ctr::flavors::Ctr128BE>::inner_iv_init(cipher, &Block::from(*counter));
    StreamCipherCoreWrapper::from_core(core).apply_keystream(bytes);
}

/// Encrypts one block.
pub(crate) fn encrypt_block<C>(cipher: &C, block: &[u8; BLOCK]) -> [u8; BLOCK]
where
    C: BlockCipherEncrypt<BlockSize = U16>,
{
    let mut block = Block::from(*block);
    cipher.encrypt_block(&mut block);
    block.into()
}

/// Encrypts one block with a key of any AES length; `None` for other lengths.
#[must_use]
pub fn encrypt_block_with(key: &[u8], block: &[u8; BLOCK]) -> Option<[u8; BLOCK]> {
    Some(match key.len() {
        16 => encrypt_block(&Aes128::new_from_slice(key).ok()?, block),
        24 => encrypt_block(&Aes192::new_from_slice(key).ok()?, block),
        32 => encrypt_block(&Aes256::new_from_slice(key).ok()?, block),
        _ => return None,
    })
}

/// `cbc_decrypt` with a key of any AES length; `None` for other lengths.
#[must_use]
pub fn cbc_decrypt_with(key: &[u8], iv: &[u8; BLOCK], bytes: &mut [u8]) -> Option<()> {
    match key.len() {
        16 => cbc_decrypt(&Aes128Dec::new_from_slice(key).ok()?, iv, bytes),
        24 => cbc_decrypt(&Aes192Dec::new_from_slice(key).ok()?, iv, bytes),
        32 => cbc_decrypt(&Aes256Dec::new_from_slice(key).ok()?, iv, bytes),
        _ => return None,
    }
    Some(())
}

/// `ctr_apply` with a key of any AES length; `None` for other lengths.
#[must_use]
pub fn ctr_apply_with(key: &[u8], counter: &[u8; BLOCK], bytes: &mut [u8]) -> Option<()> {
    match key.len() {
        16 => ctr_apply(&Aes128::new_from_slice(key).ok()?, counter, bytes),
        24 => ctr_apply(&Aes192::new_from_slice(key).ok()?, counter, bytes),
        32 => ctr_apply(&Aes256::new_from_slice(key).ok()?, counter, bytes),
        _ => return None,
    }
    Some(())
}
