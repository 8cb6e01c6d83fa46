//! The names of collations.
//!
//! Facts: `information_schema` of MySQL 9.7 and MariaDB 10.11 and 11.8, where each number means a single collation, though not always under
//! the same name.

use std::borrow::Cow;

use crate::kind::Family;

/// Number, name, and a star if MySQL uses the collation as its charset's default.
const NAMES: &str = include_str!("collations.txt");

/// MariaDB numbers its Unicode 14 collations by charset, language and strength.
const UCA1400: u16 = 2048;
const UCA1400_CHARSETS: [&str; 5] = ["utf8mb3", "utf8mb4", "ucs2", "utf16", "utf32"];
const UCA1400_BY_CHARSET: u16 = 256;
const UCA1400_STRENGTHS: [&str; 8] =
    ["ai_ci", "ai_cs", "as_ci", "as_cs", "nopad_ai_ci", "nopad_ai_cs", "nopad_as_ci", "nopad_as_cs"];
/// Language numbers that no server uses yet.
const UNUSED: &str = "?";
const UCA1400_LANGUAGES: [&str; 25] = [
    "",
    "icelandic",
    "latvian",
    "romanian",
    "slovenian",
    "polish",
    "estonian",
    "spanish",
    "swedish",
    "turkish",
    "czech",
    "danish",
    "lithuanian",
    "slovak",
    "spanish2",
    "roman",
    "persian",
    "esperanto",
    "hungarian",
    "sinhala",
    "german2",
    UNUSED,
    UNUSED,
    "vietnamese",
    "croatian",
];

/// A collation with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collation {
    /// Its name.
    pub name: String,
    /// Whether MySQL uses it if only the charset is named.
    pub is_default: bool,
}

impl Collation {
    /// The collation with this number, under this server's name; `None` if no server has it.
    #[must_use]
    pub fn of(number: u16, family: Family) -> Option<Self> {
        if number >= UCA1400 {
            return uca1400(number).map(|name| Self { name, is_default: false });
        }
        let wanted = number.to_string();
        let mut line = NAMES.lines().find_map(|line| line.strip_prefix(&wanted)?.strip_prefix(' '))?.split(' ');
        let (name, is_default) = (line.next()?, line.next().is_some());
        let name = name_for(number, name, family).into_owned();
        Some(Self { name, is_default })
    }

    /// The number for a name, in any case, as understood by a server of that family.
    #[must_use]
    pub fn number(name: &str, family: Family) -> Option<u16> {
        let name = name.to_ascii_lowercase();
        let listed = NAMES.lines().filter_map(|line| {
            let mut words = line.split(' ');
            Some((words.next()?.parse().ok()?, words.next()?))
        });
        let mut meant = listed.filter(|(number, listed)| name_for(*number, listed, family) == name);
        let by_rule = || (UCA1400..UCA1400 + 5 * UCA1400_BY_CHARSET).find(|at| uca1400(*at).as_ref() == Some(&name));
        meant.next().map(|(number, _)| number).or_else(by_rule)
    }

    /// The number of MySQL's default collation for a charset.
    #[must_use]
    pub fn default_of(charset: &str) -> Option<u16> {
        let charset = match charset.to_ascii_lowercase().as_str() {
            "utf8" => "utf8mb3".to_owned(),
            other => other.to_owned(),
        };
        NAMES.lines().find_map(|line| {
            let mut words = line.split(' ');
            let number = words.next()?.parse().ok()?;
            (charset_of(words.next()?) == charset && words.next().is_some()).then_some(number)
        })
    }

    /// The name of its charset.
    #[must_use]
    pub fn charset(&self) -> &str {
        charset_of(&self.name)
    }
}

/// The name of a collation in one family. MariaDB renames MySQL's Croatian collations, because it has its own under the same names.
fn name_for(number: u16, name: &str, family: Family) -> Cow<'_, str> {
    match family {
        Family::MariaDb if number < 576 => name.replace("_croatian_ci", "_croatian_mysql561_ci").into(),
        _ => name.into(),
    }
}

fn charset_of(name: &str) -> &str {
    name.split_once('_').map_or(name, |(charset, _)| charset)
}

fn uca1400(number: u16) -> Option<String> {
    let own = number.checked_sub(UCA1400)?;
    let charset = UCA1400_CHARSETS.get(usize::from(own / UCA1400_BY_CHARSET))?;
    let language = UCA1400_LANGUAGES.get(usize::from(own % UCA1400_BY_CHARSET / 8)).filter(|name| **name != UNUSED)?;
    let strength = UCA1400_STRENGTHS.get(usize::from(own % 8))?;
    let between = if language.is_empty() { "" } else { "_" };
    Some(format!("{charset}_uca1400{between}{language}_{strength}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::charset::{Charset, character_bytes};

    /// The lists of numbers by charset and by length of its characters are made by hand.
    #[test]
    fn all_collations_of_a_charset_have_its_characters() {
        let numbers =
            NAMES.lines().filter_map(|line| line.split(' ').next()?.parse().ok()).chain(UCA1400..UCA1400 + 1280);
        let mut charsets: BTreeMap<String, (Charset, (u8, u8), String)> = BTreeMap::new();
        for number in numbers {
            let Some(collation) = Collation::of(number, Family::MariaDb) else { continue };
            let (charset, bytes) = (Charset::of(number), character_bytes(number));
            let known = charsets
                .entry(collation.charset().to_owned())
                .or_insert_with(|| (charset, bytes, collation.name.clone()));
            assert_eq!((known.0, known.1), (charset, bytes), "{} and {}", known.2, collation.name);
        }
        let lengths = [
            ("big5", (1, 2)),
            ("eucjpms", (1, 3)),
            ("filename", (1, 5)),
            ("utf16", (2, 4)),
            ("utf8mb3", (1, 3)),
            ("utf8mb4", (1, 4)),
        ];
        for (charset, bytes) in lengths {
            assert_eq!(charsets[charset].1, bytes, "{charset}");
        }
        assert_eq!(charsets.len(), 42);
    }
}
