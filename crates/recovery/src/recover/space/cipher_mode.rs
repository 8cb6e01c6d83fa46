//! Determines the server's AES mode, and whether the keys are the server's. Both must be known before anything is written. The mode is not
//! stored anywhere, but an encrypted log or any encrypted page reveals it.

use std::path::{Path, PathBuf};

use format::codec::{CipherMode, CodecError};
use format::keyring::KeyStore;
use format::{PageId, SpaceFormat, Verdict, verify_page};

use super::PlannedSpace;
use super::head::Head;
use crate::door;
use crate::recover::error::{Result, failed, locked_out};
use datadir::files::AskPath;
use datadir::keys::SpaceKey;
use datadir::page::{PageAt, PageOpener};
use datadir::reading::read_up_to;

/// Bytes read at a time to find an encrypted page: a multiple of every page size.
const PIECE: usize = 64 << 10;
/// Pieces sampled from the start, besides the last one: a server encrypts or decrypts a tablespace from start to end, so one end shows it.
const PIECES: u64 = 16;

/// Checks the keys against encrypted pages of each tablespace, if there are any, and finds the mode. `of_log` is the mode of an encrypted
/// log; `others` are the files of all tablespaces, whether or not the log changes them.
pub(in crate::recover) fn prove<'s>(
    datadir: &Path,
    spaces: impl Iterator<Item = &'s mut PlannedSpace>,
    others: impl Iterator<Item = &'s PathBuf>,
    of_log: Option<CipherMode>,
    keys: &KeyStore,
) -> Result<()> {
    let mut mode = of_log;
    let mut encrypted = Vec::new();
    for space in spaces.filter(|space| space.crypt.keys().is_some()) {
        let path = datadir.join(space.renamed_from.as_ref().unwrap_or(&space.path));
        let found = if path.is_there() { mode_of(&path, &space.format, &space.crypt.key)? } else { None };
        mode = mode.or(found);
        encrypted.push(space);
    }
    if !encrypted.iter().any(|space| space.crypt.encrypts()) {
        return Ok(());
    }
    for path in others.map(|path| datadir.join(path)) {
        if mode.is_some() {
            break;
        }
        let Some(head) = Head::read(&path)? else { continue };
        // A tablespace that the log does not change need not be opened.
        let Ok(key) = SpaceKey::unlock(&head.page0, &head.format, keys) else { continue };
        mode = mode_of(&path, &head.format, &key)?;
    }
    if mode.is_none() {
        return locked_out(
            "tablespaces are to be encrypted, but nothing encrypted so far shows whether the server uses aes_cbc or aes_ctr, or whether the keys are right: start the server on this datadir once",
        );
    }
    encrypted.into_iter().for_each(|space| space.crypt.mode = mode);
    Ok(())
}

/// The mode in which the tablespace's pages are encrypted; `None` if no encrypted page was found. Fails if encrypted pages were found and
/// none of them opens.
fn mode_of(path: &Path, format: &SpaceFormat, key: &SpaceKey) -> Result<Option<CipherMode>> {
    let file = door::open_file(path).map_err(failed(path, "opening the tablespace"))?;
    let len = file.metadata().map_err(failed(path, "looking at the file"))?.len();
    let pieces = len.div_ceil(PIECE as u64);
    let last = pieces.checked_sub(1).filter(|last| *last >= PIECES);
    let size = format.physical().bytes();
    let mut opener = PageOpener::new();
    let mut wrong: Option<CodecError> = None;
    for piece in (0..pieces.min(PIECES)).chain(last) {
        let offset = piece * PIECE as u64;
        let bytes = read_up_to(&file, offset, PIECE).map_err(failed(path, "reading pages"))?;
        for (page, number) in bytes.chunks_exact(size).zip(offset / size as u64..) {
            let id = PageId::new(format.space().0, u32::try_from(number).unwrap_or(u32::MAX));
            let at = PageAt { id, format, key };
            if format.is_doublewrite_slot(id) || !at.steps(page).decrypt {
                continue;
            }
            match opener.cipher_mode(page, at) {
                Ok(Some(mode)) => return Ok(Some(mode)),
                // The page itself is sound, so the key is wrong.
                Err(error) if matches!(verify_page(page, id, format), Verdict::Ok(_)) => wrong = Some(error),
                Ok(None) | Err(_) => {}
            }
        }
    }
    wrong.map_or(Ok(None), |error| locked_out(format!("{}: {error}", path.display())))
}
