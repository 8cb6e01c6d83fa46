//! The two layouts of index records, as logs tell them apart.

/// The two layouts of index records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RowStyle {
    /// ROW_FORMAT=REDUNDANT, and the internal tables of every server.
    Redundant,
    /// ROW_FORMAT=COMPACT and DYNAMIC.
    Dynamic,
}
