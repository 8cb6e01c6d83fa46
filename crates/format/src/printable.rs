//! Text out of a file, made fit to be shown: the one place that decides what a terminal, a log or a comment in SQL is given.
//!
//! Names and notes in a set of files are chosen by those who made the set. An escape sequence in one can rewrite what the terminal shows, a
//! newline can forge a line of a report or end a comment in SQL, and bidirectional controls reverse the order of what is read.

use std::borrow::Cow;

/// Whether a character only shows itself: no control character (C0, DEL, C1), no control of direction, no separator of lines.
#[must_use]
pub fn is_printable(letter: char) -> bool {
    // ALM, LRM, RLM; separators of lines and paragraphs, embeddings and overrides; isolates.
    !letter.is_control()
        && !matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The text with every other character written as an escape: `\n`, `\u{1b}`.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_printable) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        if is_printable(letter) { shown.push(letter) } else { shown.extend(letter.escape_default()) }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_shown_as_an_escape() {
        assert_eq!(printable("orders"), "orders");
        assert_eq!(printable("größe 表 🙂"), "größe 表 🙂");
        assert_eq!(printable("a\x1b]0;x\x07\nb\u{9b}\u{7f}"), "a\\u{1b}]0;x\\u{7}\\nb\\u{9b}\\u{7f}");
        for letter in
            "\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}\u{200e}\u{200f}\u{61c}".chars()
        {
            assert_eq!(printable(&letter.to_string()), format!("\\u{{{:x}}}", u32::from(letter)));
        }
    }
}
