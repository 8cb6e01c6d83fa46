//! A page from its stored bytes to what its server works on: verified, decrypted, inflated. Every job opens its pages here, so that none of
//! them takes for sound, or for readable, what another does not.

use format::codec::{self, CipherMode, CodecError, Opened, Scratch, Steps};
use format::{Corruption, PageId, SpaceFormat, Verdict, damage_inside, verify_inside, verify_page};

use super::keys::SpaceKey;

/// A place in a tablespace, and what a page there is judged and opened by.
#[derive(Clone, Copy, Debug)]
pub struct PageAt<'s> {
    /// The place.
    pub id: PageId,
    /// The format of the tablespace.
    pub format: &'s SpaceFormat,
    /// What opens its pages.
    pub key: &'s SpaceKey,
}

impl PageAt<'_> {
    /// What has to be undone before the page can be read.
    #[must_use]
    pub fn steps(&self, stored: &[u8]) -> Steps {
        codec::steps(stored, self.id, &self.key.context(self.format))
    }
}

/// Judges and opens pages; owns the buffers that this takes, so each worker has one.
#[derive(Debug, Default)]
pub struct PageOpener {
    scratch: Scratch,
}

impl PageOpener {
    /// One with empty buffers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The verdict on a page: on its stored bytes and, where they are compressed or can be decrypted, on what is inside.
    pub fn verdict(&mut self, stored: &[u8], at: PageAt<'_>) -> Verdict {
        self.verdict_inside(stored, at, verify_page(stored, at.id, at.format))
    }

    /// The same, where the verdict on the stored bytes is known.
    pub fn verdict_inside(&mut self, stored: &[u8], at: PageAt<'_>, outside: Verdict) -> Verdict {
        verify_inside(stored, at.id, at.format, &at.key.context(at.format), &mut self.scratch, outside)
    }

    /// What is wrong inside a page that the key does not open, where the key is known to be the right one.
    pub fn damage_inside(&mut self, stored: &[u8], at: PageAt<'_>) -> Option<Corruption> {
        damage_inside(stored, at.id, at.format, &at.key.context(at.format), &mut self.scratch)
    }

    /// The page as its server works on it: decrypted and inflated, as far as its own marks ask for it. It says nothing about whether the
    /// page is sound.
    ///
    /// # Errors
    /// The step that could not be undone, and why.
    pub fn open<'p>(&'p mut self, stored: &'p [u8], at: PageAt<'_>) -> Result<Opened<'p>, CodecError> {
        codec::open_page(stored, at.id, &at.key.context(at.format), &mut self.scratch)
    }

    /// In which mode MariaDB encrypted the page; `None` where it did not, or where the page does not tell.
    ///
    /// # Errors
    /// As [`PageOpener::open`].
    pub fn cipher_mode(&mut self, stored: &[u8], at: PageAt<'_>) -> Result<Option<CipherMode>, CodecError> {
        codec::cipher_mode(stored, at.id, &at.key.context(at.format), &mut self.scratch)
    }
}
