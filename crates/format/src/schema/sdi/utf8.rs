//! SDI as JSON that a parser accepts. MySQL copies the text of expressions into it byte by byte, in the charset of the client that wrote them.

use std::borrow::Cow;

/// The object with each byte that is not UTF-8 read as Latin-1, the only charset in which every byte is a character: what is beside such an
/// expression must be read whatever its charset was.
pub(super) fn utf8(json: &[u8]) -> Cow<'_, [u8]> {
    if std::str::from_utf8(json).is_ok() {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 16);
    for chunk in json.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(chunk.invalid().iter().copied().map(char::from));
    }
    Cow::Owned(out.into_bytes())
}
