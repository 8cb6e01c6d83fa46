//! Encrypted tablespaces: what opens their pages, what encrypts them again, and how it is known before anything is written that the
//! keys are those of the server.
//!
//! A page says itself whether it is encrypted. Its tablespace's first page says whether it is to be, and with which key; the log may
//! change that, and pages from before the change lie beside pages from after it. So both first pages count: the one in the file
//! and the one that the log makes of it open pages, and the latter decides how they are written.
//!
//! In which mode the server uses AES is stored nowhere. The log tells, if it is encrypted, or any encrypted page.

use std::fs::File;
use std::path::{Path, PathBuf};

use format::codec::{
    CipherMode, CodecError, CryptData, CryptMode, Scratch, SpaceKeys, UnlockError, cipher_mode, steps,
};
use format::keyring::KeyStore;
use format::page::fsp;
use format::page::seal::{SealError, seal_encrypted, seal_recovered};
use format::{Encryption, PageId, SpaceFormat, Verdict, verify_page};

use super::error::{Result, failed, refused};
use super::plan::Space;
use super::survey::Head;
use crate::source::keys::{CRYPT_DATA_AFTER_XDES, SpaceKey};
use crate::source::read_up_to;

/// What is read of a tablespace at a time, to find an encrypted page: whole pages of every size.
const PIECE: usize = 64 << 10;
/// So many pieces, and the last one: threads that encrypt or decrypt a tablespace go through it from its start to its end.
const PIECES: u64 = 16;

/// The encryption of one tablespace.
#[derive(Debug, Default)]
pub(super) struct SpaceCrypt {
    /// What opens its pages.
    pub key: SpaceKey,
    /// Whether its pages are to be encrypted.
    encrypts: bool,
    mode: Option<CipherMode>,
}

impl SpaceCrypt {
    /// What the first page of a tablespace says, as it is in the file (`now`) and as the log makes it (`then`); and the format of pages
    /// that may be encrypted where either says so.
    pub fn find(
        path: &Path,
        now: Option<&[u8]>,
        then: &[u8],
        format: SpaceFormat,
        keys: &KeyStore,
    ) -> Result<(Self, SpaceFormat)> {
        let unusable = |error: &UnlockError| refused(format!("{}: {error}", path.display()));
        let (data_now, data_then) =
            match (now.map_or(Ok(None), |page0| crypt_data(page0, &format)), crypt_data(then, &format)) {
                (Ok(now), Ok(then)) => (now, then),
                (Err(error), _) | (_, Err(error)) => return unusable(&error),
            };
        let is_needed = [&data_now, &data_then].into_iter().flatten().any(CryptData::is_encrypted);
        let page0 = if data_then.is_some() { then } else { now.unwrap_or_default() };
        let Some(key_id) = data_then.as_ref().or(data_now.as_ref()).map(|data| data.key_id) else {
            return Ok((Self::default(), format));
        };
        let encrypted = format.with_encryption(Encryption::MariaDb);
        let key = match SpaceKey::unlock(page0, &encrypted, keys) {
            Ok(SpaceKey::None) if is_needed => {
                let name = path.display();
                return refused(format!(
                    "{name} is encrypted with key {key_id}: name the server's key file (--key-file)"
                ));
            }
            Err(error) if is_needed => return unusable(&error),
            // It was encrypted once, or never: nothing of it should be by now.
            Ok(SpaceKey::None) | Err(_) => return Ok((Self::default(), format)),
            Ok(key) => key,
        };
        let encrypts = data_then.is_some_and(|data| data.is_encrypted() && data.mode != CryptMode::Off);
        Ok((Self { key, encrypts, mode: None }, encrypted))
    }

    /// Seals a page of the tablespace, encrypted if that is how its pages are to be.
    pub fn seal(&self, page: &mut [u8], id: PageId, format: &SpaceFormat) -> std::result::Result<(), SealError> {
        match (self.keys(), self.mode) {
            (Some(keys), Some(mode)) if self.encrypts => seal_encrypted(page, id, format, keys, mode),
            _ if self.encrypts => Err(SealError::NoKey),
            _ => seal_recovered(page, id, format),
        }
    }

    /// Whether pages are encrypted before they are written.
    pub const fn encrypts(&self) -> bool {
        self.encrypts
    }

    fn keys(&self) -> Option<&SpaceKeys> {
        match &self.key {
            SpaceKey::MariaDb(keys) => Some(keys),
            _ => None,
        }
    }
}

fn crypt_data(page0: &[u8], format: &SpaceFormat) -> std::result::Result<Option<CryptData>, UnlockError> {
    let at = fsp::xdes_array_end(format.logical(), format.physical()) + CRYPT_DATA_AFTER_XDES;
    CryptData::parse(page0.get(at..).unwrap_or_default())
}

/// Holds the keys against encrypted pages of each tablespace, as far as there are any, and finds the mode. `of_log` is the mode of an
/// encrypted log; `others` are the files of all tablespaces, whether the log changes them or not.
pub(super) fn prove<'s>(
    datadir: &Path,
    spaces: impl Iterator<Item = &'s mut Space>,
    others: impl Iterator<Item = &'s PathBuf>,
    of_log: Option<CipherMode>,
    keys: &KeyStore,
) -> Result<()> {
    let mut mode = of_log;
    let mut encrypted = Vec::new();
    for space in spaces.filter(|space| space.crypt.keys().is_some()) {
        let path = datadir.join(space.renamed_from.as_ref().unwrap_or(&space.path));
        let found = if path.exists() { mode_of(&path, &space.format, &space.crypt.key)? } else { None };
        mode = mode.or(found);
        encrypted.push(space);
    }
    if !encrypted.iter().any(|space| space.crypt.encrypts) {
        return Ok(());
    }
    for path in others.map(|path| datadir.join(path)) {
        if mode.is_some() {
            break;
        }
        let Some(head) = Head::read(&path)? else { continue };
        // What the log does not change need not be opened.
        let Ok(key) = SpaceKey::unlock(&head.page0, &head.format, keys) else { continue };
        mode = mode_of(&path, &head.format, &key)?;
    }
    if mode.is_none() {
        return refused(
            "tablespaces are to be encrypted, but nothing is encrypted yet that would tell whether the server does it by aes_cbc \
             or by aes_ctr, nor whether the keys are its own: start the server on it",
        );
    }
    encrypted.into_iter().for_each(|space| space.crypt.mode = mode);
    Ok(())
}

/// In which mode pages of the tablespace are encrypted; `None` if no encrypted page was found. Fails if there are some and none of
/// them opens.
fn mode_of(path: &Path, format: &SpaceFormat, key: &SpaceKey) -> Result<Option<CipherMode>> {
    let file = File::open(path).map_err(failed(path, "opening the tablespace"))?;
    let len = file.metadata().map_err(failed(path, "looking at the file"))?.len();
    let pieces = len.div_ceil(PIECE as u64);
    let last = pieces.checked_sub(1).filter(|last| *last >= PIECES);
    let size = format.physical().bytes();
    let context = key.context(format);
    let mut scratch = Scratch::new();
    let mut wrong: Option<CodecError> = None;
    for piece in (0..pieces.min(PIECES)).chain(last) {
        let offset = piece * PIECE as u64;
        let bytes = read_up_to(&file, offset, PIECE).map_err(failed(path, "reading pages"))?;
        for (page, number) in bytes.chunks_exact(size).zip(offset / size as u64..) {
            let id = PageId::new(format.space().0, u32::try_from(number).unwrap_or(u32::MAX));
            if format.is_doublewrite_slot(id) || !steps(page, id, &context).decrypt {
                continue;
            }
            match cipher_mode(page, id, &context, &mut scratch) {
                Ok(Some(mode)) => return Ok(Some(mode)),
                // Nothing is wrong with the page itself.
                Err(error) if matches!(verify_page(page, id, format), Verdict::Ok(_)) => wrong = Some(error),
                Ok(None) | Err(_) => {}
            }
        }
    }
    wrong.map_or(Ok(None), |error| refused(format!("{}: {error}", path.display())))
}
