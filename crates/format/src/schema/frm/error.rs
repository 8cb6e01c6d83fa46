//! Why a `.frm` file yields no table.

use thiserror::Error;

use super::super::fields::BuildError;

/// Why a file is not a usable table definition.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FrmError {
    /// The file has other first bytes, as the definition of a view has.
    #[error("this is not the definition of a table")]
    NotATable,
    /// The file is cut short or damaged.
    #[error("the definition ends too early or is damaged: there is nothing at byte {at} for its {what}")]
    Truncated {
        /// The offset at which something was expected.
        at: usize,
        /// What was expected.
        what: &'static str,
    },
    /// A feature that only a much newer or much older server writes.
    #[error("the definition has {what}, which innokit does not know")]
    Unknown {
        /// The feature.
        what: &'static str,
    },
    /// The table's indexes cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
}
