//! SDI as JSON that a parser accepts. MySQL copies the text of expressions into it byte by byte, in the charset of the client that wrote them.

use std::borrow::Cow;

/// A byte that is not UTF-8 becomes the character with this number plus the byte, which is for private use: no name has it.
const RAW: u32 = 0x10_FF00;

/// The object with each byte that is not UTF-8 replaced, so that what is beside such an expression can be read.
pub(super) fn utf8(json: &[u8]) -> Cow<'_, [u8]> {
    if std::str::from_utf8(json).is_ok() {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 16);
    for chunk in json.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(chunk.invalid().iter().filter_map(|byte| char::from_u32(RAW + u32::from(*byte))));
    }
    Cow::Owned(out.into_bytes())
}

/// The byte that became this character.
fn raw(c: char) -> Option<u8> {
    u32::from(c).checked_sub(RAW).and_then(|byte| u8::try_from(byte).ok()).filter(|byte| !byte.is_ascii())
}

/// Whether the text was in another charset.
pub(super) fn has_raw(text: &str) -> bool {
    text.chars().any(|c| raw(c).is_some())
}

/// The text with such bytes read as Latin-1, the only charset in which every byte is a character.
pub(super) fn as_latin1(text: &str) -> String {
    text.chars().map(|c| raw(c).map_or(c, char::from)).collect()
}
