//! Which text a server stores again as the same bytes if a statement has it in UTF-8. The rest is written as bytes.
//!
//! Facts: every code of one and two bytes, and every ASCII character after another, converted to utf8mb4 and back by MySQL 9.7 and, but for
//! `gb18030`, by MariaDB 11.8.

use super::{Charset, Multi, NO_CHARACTER, code, single_characters};

/// A charset, and which of its codes come back.
#[derive(Debug, Clone)]
pub struct Reversible {
    charset: Charset,
    /// Of a charset of single bytes: bit `n` for byte `128 + n`.
    upper: u128,
}

impl Reversible {
    /// Prepares the test for text of this charset.
    #[must_use]
    pub fn new(charset: Charset) -> Self {
        let characters = single_characters(charset);
        let comes_back = |byte: &usize| {
            let character = characters.get(*byte);
            let count = characters.iter().filter(|other| Some(*other) == character).count();
            count == 1 && character != Some(&NO_CHARACTER)
        };
        let upper = (128..characters.len()).filter(comes_back).fold(0, |bits, byte| bits | 1 << (byte - 128));
        Self { charset, upper }
    }

    /// Whether both servers make these bytes of the text that [`Charset::to_utf8`] makes of them.
    #[must_use]
    pub fn is(&self, bytes: &[u8]) -> bool {
        match self.charset {
            Charset::Binary => true,
            // A server keeps bytes that are no UTF-8 if they reached it as such, and refuses them in a statement.
            Charset::Utf8 => str::from_utf8(bytes).is_ok(),
            Charset::Ascii => bytes.is_ascii(),
            Charset::FileName => bytes.iter().all(u8::is_ascii_alphanumeric),
            Charset::Swe7 => bytes.iter().all(|byte| *byte < 0x7F),
            Charset::Single(_) => bytes.iter().all(|byte| byte.is_ascii() || self.upper >> (byte & 0x7F) & 1 == 1),
            // A range may have codes whose second byte the charset does not have.
            Charset::Multi(multi) => multi.has_reversible_codes(bytes) && self.has_only_characters(bytes),
            Charset::Ucs2 | Charset::Utf16 | Charset::Utf16Le | Charset::Utf32 => self.has_only_characters(bytes),
        }
    }

    fn has_only_characters(&self, bytes: &[u8]) -> bool {
        let mut text = Vec::new();
        self.charset.to_utf8(bytes, &mut text);
        !String::from_utf8_lossy(&text).contains(NO_CHARACTER)
    }
}

impl Multi {
    fn has_reversible_codes(self, mut bytes: &[u8]) -> bool {
        let ranges = self.reversible();
        while let Some(first) = bytes.first() {
            if first.is_ascii() {
                // Its backslash is read as one, and a backslash is stored as the wide one, 0x815F.
                if *first == b'\\' && self == Self::Sjis {
                    return false;
                }
                bytes = bytes.get(1..).unwrap_or_default();
                continue;
            }
            let Some((character, rest)) = bytes.split_at_checked(self.length(bytes)) else { return false };
            let code = code(character);
            let at = ranges.partition_point(|(_, last)| *last < code);
            if ranges.get(at).is_none_or(|(from, _)| code < *from) {
                return false;
            }
            bytes = rest;
        }
        true
    }

    /// The codes that come back, first and last of each range, in order. Ranges of fewer than nine codes and codes of three and four bytes are
    /// left out.
    const fn reversible(self) -> &'static [(u32, u32)] {
        match self {
            Self::Big5 => BIG5,
            Self::Cp932 => CP932,
            Self::EucJpMs => EUCJPMS,
            Self::EucKr => EUCKR,
            Self::Gb18030 => GB18030,
            Self::Gb2312 => GB2312,
            Self::Gbk => GBK,
            Self::Sjis => SJIS,
            Self::Ujis => UJIS,
        }
    }
}

const BIG5: &[(u32, u32)] = &[
    (0xA140, 0xA159),
    (0xA15B, 0xA1C2),
    (0xA1C6, 0xA1FD),
    (0xA241, 0xA2CB),
    (0xA2CD, 0xA3BF),
    (0xA440, 0xC7FC),
    (0xC940, 0xF9DC),
];
const CP932: &[(u32, u32)] = &[
    (0x00A1, 0x00DF),
    (0x8140, 0x81AC),
    (0x81DA, 0x81E8),
    (0x824F, 0x8258),
    (0x8260, 0x8279),
    (0x8281, 0x829A),
    (0x829F, 0x82F1),
    (0x8340, 0x8396),
    (0x839F, 0x83B6),
    (0x83BF, 0x83D6),
    (0x8440, 0x8460),
    (0x8470, 0x8491),
    (0x849F, 0x84BE),
    (0x8740, 0x875D),
    (0x875F, 0x8775),
    (0x877E, 0x878F),
    (0x889F, 0x9872),
    (0x989F, 0xEAA4),
    (0xF040, 0xFA49),
    (0xFA5C, 0xFC4B),
];
const EUCJPMS: &[(u32, u32)] = &[
    (0x8EA1, 0x8EDF),
    (0xA1A1, 0xA2AE),
    (0xA2DC, 0xA2EA),
    (0xA3B0, 0xA3B9),
    (0xA3C1, 0xA3DA),
    (0xA3E1, 0xA3FA),
    (0xA4A1, 0xA4F3),
    (0xA5A1, 0xA5F6),
    (0xA6A1, 0xA6B8),
    (0xA6C1, 0xA6D8),
    (0xA7A1, 0xA7C1),
    (0xA7D1, 0xA7F1),
    (0xA8A1, 0xA8C0),
    (0xADA1, 0xADBE),
    (0xADC0, 0xADD6),
    (0xADDF, 0xADEF),
    (0xB0A1, 0xCFD3),
    (0xD0A1, 0xF4A6),
    (0xF5A1, 0xFEFE),
];
const EUCKR: &[(u32, u32)] = &[
    (0x8141, 0xA2E7),
    (0xA341, 0xA5AA),
    (0xA5B0, 0xA5B9),
    (0xA5C1, 0xA5D8),
    (0xA5E1, 0xA5F8),
    (0xA641, 0xA6E4),
    (0xA741, 0xA7EF),
    (0xA841, 0xA8A4),
    (0xA8B1, 0xAAF3),
    (0xAB41, 0xABF6),
    (0xAC41, 0xACC1),
    (0xACD1, 0xACF1),
    (0xAD41, 0xADA0),
    (0xAE41, 0xAEA0),
    (0xAF41, 0xAFA0),
    (0xB041, 0xC652),
    (0xC6A1, 0xC6FE),
    (0xC7A1, 0xC7FE),
    (0xC8A1, 0xC8FE),
    (0xCAA1, 0xCAFE),
    (0xCBA1, 0xCBFE),
    (0xCCA1, 0xCCFE),
    (0xCDA1, 0xCDFE),
    (0xCEA1, 0xCEFE),
    (0xCFA1, 0xCFFE),
    (0xD0A1, 0xD0FE),
    (0xD1A1, 0xD1FE),
    (0xD2A1, 0xD2FE),
    (0xD3A1, 0xD3FE),
    (0xD4A1, 0xD4FE),
    (0xD5A1, 0xD5FE),
    (0xD6A1, 0xD6FE),
    (0xD7A1, 0xD7FE),
    (0xD8A1, 0xD8FE),
    (0xD9A1, 0xD9FE),
    (0xDAA1, 0xDAFE),
    (0xDBA1, 0xDBFE),
    (0xDCA1, 0xDCFE),
    (0xDDA1, 0xDDFE),
    (0xDEA1, 0xDEFE),
    (0xDFA1, 0xDFFE),
    (0xE0A1, 0xE0FE),
    (0xE1A1, 0xE1FE),
    (0xE2A1, 0xE2FE),
    (0xE3A1, 0xE3FE),
    (0xE4A1, 0xE4FE),
    (0xE5A1, 0xE5FE),
    (0xE6A1, 0xE6FE),
    (0xE7A1, 0xE7FE),
    (0xE8A1, 0xE8FE),
    (0xE9A1, 0xE9FE),
    (0xEAA1, 0xEAFE),
    (0xEBA1, 0xEBFE),
    (0xECA1, 0xECFE),
    (0xEDA1, 0xEDFE),
    (0xEEA1, 0xEEFE),
    (0xEFA1, 0xEFFE),
    (0xF0A1, 0xF0FE),
    (0xF1A1, 0xF1FE),
    (0xF2A1, 0xF2FE),
    (0xF3A1, 0xF3FE),
    (0xF4A1, 0xF4FE),
    (0xF5A1, 0xF5FE),
    (0xF6A1, 0xF6FE),
    (0xF7A1, 0xF7FE),
    (0xF8A1, 0xF8FE),
    (0xF9A1, 0xF9FE),
    (0xFAA1, 0xFAFE),
    (0xFBA1, 0xFBFE),
    (0xFCA1, 0xFCFE),
    (0xFDA1, 0xFDFE),
];
const GB18030: &[(u32, u32)] = &[(0x8140, 0xFEFE)];
const GB2312: &[(u32, u32)] = &[
    (0xA1A1, 0xA1FE),
    (0xA2B1, 0xA2E2),
    (0xA2E5, 0xA2EE),
    (0xA2F1, 0xA2FC),
    (0xA3A1, 0xA4F3),
    (0xA5A1, 0xA5F6),
    (0xA6A1, 0xA6B8),
    (0xA6C1, 0xA6D8),
    (0xA7A1, 0xA7C1),
    (0xA7D1, 0xA7F1),
    (0xA8A1, 0xA8BA),
    (0xA8C5, 0xA8E9),
    (0xA9A4, 0xA9EF),
    (0xB0A1, 0xD7F9),
    (0xD8A1, 0xF7FE),
];
const GBK: &[(u32, u32)] = &[
    (0x8140, 0xA0FE),
    (0xA1A1, 0xA1FE),
    (0xA2A1, 0xA2AA),
    (0xA2B1, 0xA2E2),
    (0xA2E5, 0xA2EE),
    (0xA2F1, 0xA2FC),
    (0xA3A1, 0xA3FE),
    (0xA4A1, 0xA4F3),
    (0xA5A1, 0xA5F6),
    (0xA6A1, 0xA6B8),
    (0xA6C1, 0xA6D8),
    (0xA6E0, 0xA6EB),
    (0xA7A1, 0xA7C1),
    (0xA7D1, 0xA7F1),
    (0xA840, 0xA895),
    (0xA8A1, 0xA8BB),
    (0xA8C5, 0xA8E9),
    (0xA940, 0xA957),
    (0xA960, 0xA988),
    (0xA9A4, 0xA9EF),
    (0xAA40, 0xAAA0),
    (0xAB40, 0xABA0),
    (0xAC40, 0xACA0),
    (0xAD40, 0xADA0),
    (0xAE40, 0xAEA0),
    (0xAF40, 0xAFA0),
    (0xB040, 0xD7F9),
    (0xD840, 0xF8A0),
    (0xF940, 0xF9A0),
    (0xFA40, 0xFAA0),
    (0xFB40, 0xFBA0),
    (0xFC40, 0xFCA0),
    (0xFD40, 0xFDA0),
    (0xFE40, 0xFE4F),
];
const SJIS: &[(u32, u32)] = &[
    (0x00A1, 0x00DF),
    (0x8140, 0x81AC),
    (0x81DA, 0x81E8),
    (0x824F, 0x8258),
    (0x8260, 0x8279),
    (0x8281, 0x829A),
    (0x829F, 0x82F1),
    (0x8340, 0x8396),
    (0x839F, 0x83B6),
    (0x83BF, 0x83D6),
    (0x8440, 0x8460),
    (0x8470, 0x8491),
    (0x849F, 0x84BE),
    (0x889F, 0x9872),
    (0x989F, 0xEAA4),
];
const UJIS: &[(u32, u32)] = &[
    (0x8EA1, 0x8EDF),
    (0xA1A1, 0xA1BF),
    (0xA1C1, 0xA2AE),
    (0xA2DC, 0xA2EA),
    (0xA3B0, 0xA3B9),
    (0xA3C1, 0xA3DA),
    (0xA3E1, 0xA3FA),
    (0xA4A1, 0xA4F3),
    (0xA5A1, 0xA5F6),
    (0xA6A1, 0xA6B8),
    (0xA6C1, 0xA6D8),
    (0xA7A1, 0xA7C1),
    (0xA7D1, 0xA7F1),
    (0xA8A1, 0xA8C0),
    (0xB0A1, 0xCFD3),
    (0xD0A1, 0xF4A6),
    (0xF5A1, 0xFEFE),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn comes_back(collation: u16, bytes: &[u8]) -> bool {
        Reversible::new(Charset::of(collation)).is(bytes)
    }

    #[test]
    fn common_text_comes_back_and_codes_without_a_character_do_not() {
        const LATIN1: u16 = 8;
        const ARMSCII8: u16 = 32;
        const CP1251: u16 = 51;
        const BIG5: u16 = 1;
        const CP932: u16 = 95;
        const SJIS: u16 = 13;
        const UTF8MB4: u16 = 45;
        const UTF16: u16 = 54;
        let bytes: Vec<u8> = (0..=255).collect();
        assert!(comes_back(LATIN1, &bytes));
        assert!(comes_back(CP1251, &bytes[..0x98]) && !comes_back(CP1251, &bytes[..0x99]));
        // A second parenthesis: the server would store the first one.
        assert!(!comes_back(ARMSCII8, &[0xA4]) && comes_back(ARMSCII8, &[0xA6]));
        assert!(comes_back(BIG5, &[b'a', 0xA4, 0x40, b'b']) && !comes_back(BIG5, &[0xA3, 0xC0]));
        assert!(comes_back(CP932, &[0xB1, 0x93, 0xFA]) && !comes_back(CP932, &[0x81, 0xAD]));
        assert!(comes_back(CP932, b"a\\b") && !comes_back(SJIS, b"a\\b"));
        assert!(!comes_back(CP932, &[0x93]) && !comes_back(BIG5, &[0xA4, 0x20]));
        assert!(comes_back(UTF8MB4, "żółw".as_bytes()) && !comes_back(UTF8MB4, &[0xC3]));
        assert!(comes_back(UTF16, &[0xD8, 0x3D, 0xDE, 0x00]) && !comes_back(UTF16, &[0xD8, 0x3D]));
    }
}
