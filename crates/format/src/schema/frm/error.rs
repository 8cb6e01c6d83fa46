//! Why a file defines no table.

use thiserror::Error;

use super::super::fields::BuildError;

/// Why a file is not a table's definition, or not one that can be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FrmError {
    /// Not the bytes that begin such a file: a view's definition, for one.
    #[error("this is not the definition of a table")]
    NotATable,
    /// Cut off, or damaged.
    #[error("the definition ends too early, or is damaged: nothing lies at byte {at} for its {what}")]
    Truncated {
        /// Where something was looked for.
        at: usize,
        /// What.
        what: &'static str,
    },
    /// Something that only a newer server, or one much older, writes.
    #[error("the definition has {what}, which innokit does not know")]
    Unknown {
        /// What it has.
        what: &'static str,
    },
    /// The table's indexes cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
}
