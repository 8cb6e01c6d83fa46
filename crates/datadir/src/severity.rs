//! How bad a finding is.

use std::path::Path;

use serde::Serialize;

use crate::fault;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Bytes are not what the server wrote: exit status 1.
    Damage,
    /// Something could not be read or decided: exit status 2.
    Undecided,
    /// Worth knowing, nothing to repair: exit status unchanged.
    Notice,
}

impl Severity {
    /// Of something about this path that a file which could not be read may explain, such as a missing table.
    pub fn unless_unread(self, path: &Path) -> Self {
        if self == Self::Damage && fault::is_any_near(path) { Self::Undecided } else { self }
    }
}
