//! Names and text in quotes, as the servers write them in SQL.

use crate::charset::Charset;

/// A name in backquotes.
#[must_use]
pub fn quoted_name(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// Bytes of the word at the beginning of `text`, which begins with `quote` and ends with the next one that is not doubled.
pub(crate) fn end(text: &str, quote: char) -> usize {
    let mut marks = text.char_indices().skip(1).filter(|(_, character)| *character == quote).peekable();
    while let Some((at, _)) = marks.next() {
        if marks.next_if(|(next, _)| *next == at + 1).is_none() {
            return at + 1;
        }
    }
    text.len()
}

/// Text in quotes, as the servers escape it.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut out = String::from("'");
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '\0' => out.push_str("\\0"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\'' => out.push_str("''"),
            other => out.push(other),
        }
    }
    out.push('\'');
    out
}

/// Bytes of text in their charset, in quotes.
pub(crate) fn quoted_bytes(collation: u16, bytes: &[u8]) -> String {
    let mut utf8 = Vec::new();
    Charset::of(collation).to_utf8(bytes, &mut utf8);
    quoted(&String::from_utf8_lossy(&utf8))
}
