//! placeholder
use std::path::Path;
/// x
#[derive(Default)]
pub struct RedoLogs;
impl RedoLogs {
    /// x
    pub fn pending_for(&mut self, _path: &Path) -> Option<&str> {
        None
    }
}
