//! Systems that do not say which memory is near which processor.

/// Nobody's nodes.
#[derive(Debug)]
pub(crate) enum Nodes {}

impl Nodes {
    /// `None`.
    pub(crate) fn here() -> Option<Self> {
        None
    }

    /// Never called.
    pub(crate) fn stay(&self, _worker: usize) {}
}
