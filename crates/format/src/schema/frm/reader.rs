//! Checked access to the bytes of a `.frm` file.

use super::error::FrmError;

/// Length of the header; names or typed values follow.
pub(super) const HEADER: usize = 64;
pub(super) const OPTION_PACK_RECORD: u16 = 1;
use crate::bytes::le;

/// A `.frm` file.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn u8(&self, at: usize, what: &'static str) -> Result<u8, FrmError> {
        self.0.get(at).copied().ok_or(FrmError::Truncated { at, what })
    }

    pub(super) fn u16(&self, at: usize, what: &'static str) -> Result<u16, FrmError> {
        le::u16_at(self.0, at).ok_or(FrmError::Truncated { at, what })
    }

    pub(super) fn u32(&self, at: usize, what: &'static str) -> Result<u32, FrmError> {
        le::u32_at(self.0, at).ok_or(FrmError::Truncated { at, what })
    }

    pub(super) fn bytes(&self, at: usize, len: usize, what: &'static str) -> Result<&'a [u8], FrmError> {
        at.checked_add(len).and_then(|end| self.0.get(at..end)).ok_or(FrmError::Truncated { at, what })
    }

    /// `count` names, each preceded by a byte FF.
    pub(super) fn names(&self, at: usize, count: usize, what: &'static str) -> Result<Vec<String>, FrmError> {
        let list = self.0.get(at..).unwrap_or(&[]);
        let names = list.strip_prefix(&[0xFF]).unwrap_or(&[]).split(|byte| *byte == 0xFF);
        let names: Vec<String> = names.take(count).map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        if names.len() == count { Ok(names) } else { Err(FrmError::Truncated { at, what }) }
    }
}
