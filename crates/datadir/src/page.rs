//! A page from its stored bytes to what its server works on: verified, decrypted, inflated. All jobs open pages here, so they agree on what
//! is sound and what is readable.

use format::codec::{self, CipherMode, CodecError, Opened, Scratch, Steps};
use format::{Corruption, PageId, SpaceFormat, Verdict, damage_inside, verify_inside, verify_page};

use super::keys::SpaceKey;

/// A place in a tablespace, with the format and the key that judge and open the page there.
#[derive(Clone, Copy, Debug)]
pub struct PageAt<'s> {
    /// The place.
    pub id: PageId,
    /// The format of the tablespace.
    pub format: &'s SpaceFormat,
    /// The key for its pages.
    pub key: &'s SpaceKey,
}

impl PageAt<'_> {
    /// The steps to undo before the page can be read.
    #[must_use]
    pub fn steps(&self, stored: &[u8]) -> Steps {
        codec::steps(stored, self.id, &self.key.context(self.format))
    }
}

/// Judges and opens pages; owns the buffers for that, so each worker has one.
#[derive(Debug, Default)]
pub struct PageOpener {
    scratch: Scratch,
}

impl PageOpener {
    /// Starts with empty buffers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The verdict on a page: on its stored bytes and, if they are compressed or can be decrypted, on what is inside.
    pub fn verdict(&mut self, stored: &[u8], at: PageAt<'_>) -> Verdict {
        self.verdict_inside(stored, at, verify_page(stored, at.id, at.format))
    }

    /// Like [`PageOpener::verdict`], given the verdict on the stored bytes.
    pub fn verdict_inside(&mut self, stored: &[u8], at: PageAt<'_>, outside: Verdict) -> Verdict {
        verify_inside(stored, at.id, at.format, &at.key.context(at.format), &mut self.scratch, outside)
    }

    /// What is wrong inside a page that the key fails to open although it is known to be right.
    pub fn damage_inside(&mut self, stored: &[u8], at: PageAt<'_>) -> Option<Corruption> {
        damage_inside(stored, at.id, at.format, &at.key.context(at.format), &mut self.scratch)
    }

    /// The page as its server works on it: decrypted and inflated, as its own header demands. Does not say whether the page is sound.
    ///
    /// # Errors
    /// The step that could not be undone, and why.
    pub fn open<'p>(&'p mut self, stored: &'p [u8], at: PageAt<'_>) -> Result<Opened<'p>, CodecError> {
        codec::open_page(stored, at.id, &at.key.context(at.format), &mut self.scratch)
    }

    /// The mode in which MariaDB encrypted the page; `None` if it is not encrypted, or the page does not tell.
    ///
    /// # Errors
    /// As [`PageOpener::open`].
    pub fn cipher_mode(&mut self, stored: &[u8], at: PageAt<'_>) -> Result<Option<CipherMode>, CodecError> {
        codec::cipher_mode(stored, at.id, &at.key.context(at.format), &mut self.scratch)
    }
}
