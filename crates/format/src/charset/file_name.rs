//! The charset of file names, in which the servers encode names of databases and tables.
//!
//! Facts: MariaDB 10.11's files for names with every letter that has a code; both servers have used the same codes since 5.1.

/// Codes of two characters, each followed by its letter.
const LETTERS: &str = include_str!("filename.txt");

/// The name encoded in a file name: `odd@002dname` is `odd-name`. Accented letters have codes of two characters; other characters that a
/// file system may not accept have four hexadecimal digits. Anything that is not a code stays unchanged.
#[must_use]
pub fn decoded(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    let mut rest = name;
    while let Some((before, after)) = rest.split_once('@') {
        text.push_str(before);
        let (decoded, len) = code(after).map_or(('@', 0), |(letter, len)| (letter, len));
        text.push(decoded);
        rest = after.get(len..).unwrap_or("");
    }
    text.push_str(rest);
    text
}

/// The letter for a code, and the code's length.
fn code(after: &str) -> Option<(char, usize)> {
    let digits = after.get(..4).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    if let Some(letter) = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()).and_then(char::from_u32) {
        return Some((letter, 4));
    }
    let wanted = after.get(..2)?;
    let letter = LETTERS.split_whitespace().find_map(|entry| entry.strip_prefix(wanted)?.chars().next())?;
    Some((letter, 2))
}

#[cfg(test)]
mod tests {
    use super::decoded;

    #[test]
    fn names_are_those_that_the_server_shows() {
        let cases = [
            ("odd@002dname", "odd-name"),
            ("t@0k@0020ble@002d1", "tä ble-1"),
            ("a@0040b@", "a@b@"),
            ("@zz@00zz", "@zz@00zz"),
            ("plain", "plain"),
            ("@00zz", "@00zz"),
            ("@20ac", "\u{20ac}"),
            ("@d800", "@d800"),
            ("€@", "€@"),
        ];
        for (file, name) in cases {
            assert_eq!(decoded(file), name);
        }
    }
}
