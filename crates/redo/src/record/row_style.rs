//! The two formats of index records, as logs distinguish them.

/// The two formats of index records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RowStyle {
    /// ROW_FORMAT=REDUNDANT, and the internal tables of every server.
    Redundant,
    /// ROW_FORMAT=COMPACT and DYNAMIC.
    Dynamic,
}
