//! The results of jobs, as data with stable names.

pub mod document;
pub mod hurt;
pub mod table_finding;
pub mod watcher;

use std::path::Path;

/// A path as shown in reports, unchanged if it is UTF-8. An invalid byte becomes U+FFFD and two hexadecimal digits, and U+FFFD itself is
/// doubled, so that the two can be told apart.
#[must_use]
pub fn shown(path: &Path) -> String {
    let mut text = String::new();
    for chunk in path.as_os_str().as_encoded_bytes().utf8_chunks() {
        text.push_str(&chunk.valid().replace('\u{FFFD}', "\u{FFFD}\u{FFFD}"));
        for byte in chunk.invalid() {
            text.push_str(&format!("\u{FFFD}{byte:02x}"));
        }
    }
    text
}
