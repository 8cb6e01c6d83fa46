//! Converts text of every charset the servers know to UTF-8.
//!
//! ```text
//! collation number -> Charset -> to_utf8: runs of ASCII by vector instructions, other runs by table or by `encoding_rs`
//! ```
//!
//! A byte sequence that is not a character of its charset becomes U+FFFD, where the servers print a question mark. UTF-8 is copied
//! unchanged, even if a client stored bytes that are not valid UTF-8.

mod file_name;
mod reversible;
mod tables;
mod width;

pub use file_name::decoded;
pub use reversible::Reversible;
pub use width::character_bytes;

use encoding_rs::Encoding;

/// How to read bytes of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charset {
    /// Not text.
    Binary,
    /// utf8mb3, utf8mb4.
    Utf8,
    /// ASCII for the lower half, this table for the upper.
    Single(&'static [u16; 128]),
    /// US-ASCII.
    Ascii,
    /// Swedish, with letters in place of some ASCII signs.
    Swe7,
    /// Two bytes per character.
    Ucs2,
    /// UTF-16, big-endian.
    Utf16,
    /// UTF-16, little-endian.
    Utf16Le,
    /// Four bytes per character.
    Utf32,
    /// ASCII, other characters as the servers name files: `@` and hexadecimal digits. Only MariaDB lets a table use it.
    FileName,
    /// A charset with several bytes per character.
    Multi(Multi),
}

/// The charsets of East Asia.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the servers' own")]
pub enum Multi {
    Big5,
    Cp932,
    EucJpMs,
    EucKr,
    Gb18030,
    Gb2312,
    Gbk,
    Sjis,
    Ujis,
}

const NO_CHARACTER: char = char::REPLACEMENT_CHARACTER;

impl Charset {
    /// The charset of a collation. Numbers that no server uses count as latin1.
    #[must_use]
    pub const fn of(collation: u16) -> Self {
        match character_bytes(collation) {
            (1, 1) => Self::single(collation),
            (1, 3 | 4) => match collation {
                97 | 98 | 1121 | 1122 => Self::Multi(Multi::EucJpMs),
                12 | 91 | 1036 | 1115 => Self::Multi(Multi::Ujis),
                248..=250 => Self::Multi(Multi::Gb18030),
                _ => Self::Utf8,
            },
            (1, 5) => Self::FileName,
            (1, _) => Self::Multi(match collation {
                1 | 84 | 1025 | 1108 => Multi::Big5,
                95 | 96 | 1119 | 1120 => Multi::Cp932,
                19 | 85 | 1043 | 1109 => Multi::EucKr,
                24 | 86 | 1048 | 1110 => Multi::Gb2312,
                28 | 87 | 1052 | 1111 => Multi::Gbk,
                _ => Multi::Sjis,
            }),
            (2, 2) => Self::Ucs2,
            (2, _) => match collation {
                56 | 62 | 1080 | 1086 => Self::Utf16Le,
                _ => Self::Utf16,
            },
            _ => Self::Utf32,
        }
    }

    const fn single(collation: u16) -> Self {
        Self::Single(match collation {
            63 => return Self::Binary,
            11 | 65 | 1035 | 1089 => return Self::Ascii,
            10 | 82 | 1034 | 1106 => return Self::Swe7,
            32 | 64 | 1056 | 1088 => &tables::ARMSCII8,
            26 | 34 | 44 | 66 | 99 | 1050 | 1090 => &tables::CP1250,
            14 | 23 | 50..=52 | 1074 | 1075 => &tables::CP1251,
            57 | 67 | 1081 | 1091 => &tables::CP1256,
            29 | 58 | 59 | 1082 | 1083 => &tables::CP1257,
            4 | 80 | 1028 | 1104 => &tables::CP850,
            40 | 81 | 1064 | 1105 => &tables::CP852,
            36 | 68 | 1060 | 1092 => &tables::CP866,
            3 | 69 | 1027 | 1093 => &tables::DEC8,
            92 | 93 | 1116 | 1117 => &tables::GEOSTD8,
            25 | 70 | 1049 | 1094 => &tables::GREEK,
            16 | 71 | 1040 | 1095 => &tables::HEBREW,
            6 | 72 | 1030 | 1096 => &tables::HP8,
            37 | 73 | 1061 | 1097 => &tables::KEYBCS2,
            7 | 74 | 1031 | 1098 => &tables::KOI8R,
            22 | 75 | 1046 | 1099 => &tables::KOI8U,
            2 | 9 | 21 | 27 | 77 | 1033 | 1101 => &tables::LATIN2,
            30 | 78 | 1054 | 1102 => &tables::LATIN5,
            20 | 41 | 42 | 79 | 1065 | 1103 => &tables::LATIN7,
            38 | 43 | 1062 | 1067 => &tables::MACCE,
            39 | 53 | 1063 | 1077 => &tables::MACROMAN,
            18 | 89 | 1042 | 1113 => &tables::TIS620,
            _ => &tables::LATIN1,
        })
    }

    /// Appends `bytes` to `out` as UTF-8. Bytes that are not text are copied unchanged.
    pub fn to_utf8(self, bytes: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Binary | Self::Utf8 => out.extend_from_slice(bytes),
            Self::Single(upper) => single(bytes, out, |byte| upper.get(usize::from(byte & 0x7F)).copied()),
            Self::Ascii => single(bytes, out, |_| None),
            Self::Swe7 => bytes.iter().for_each(|byte| push(swe7(*byte), out)),
            Self::Ucs2 => units(bytes, out, u16::from_be_bytes, |units, out| {
                units.iter().for_each(|unit| push(char::from_u32(u16::from_be_bytes(*unit).into()), out));
            }),
            Self::Utf16 => utf16(bytes, out, u16::from_be_bytes),
            Self::Utf16Le => utf16(bytes, out, u16::from_le_bytes),
            Self::Utf32 => {
                let (characters, rest) = bytes.as_chunks::<4>();
                characters.iter().for_each(|code| push(char::from_u32(u32::from_be_bytes(*code)), out));
                if !rest.is_empty() {
                    push(None, out);
                }
            }
            Self::FileName => out.extend_from_slice(decoded(&String::from_utf8_lossy(bytes)).as_bytes()),
            Self::Multi(multi) => multi.to_utf8(bytes, out),
        }
    }
}

fn push(character: Option<char>, out: &mut Vec<u8>) {
    let mut utf8 = [0; 4];
    out.extend_from_slice(character.unwrap_or(NO_CHARACTER).encode_utf8(&mut utf8).as_bytes());
}

/// Copies ASCII in runs and maps other bytes with `upper`.
fn single(mut bytes: &[u8], out: &mut Vec<u8>, upper: impl Fn(u8) -> Option<u16>) {
    while !bytes.is_empty() {
        let (ascii, rest) = bytes.split_at(Encoding::ascii_valid_up_to(bytes));
        out.extend_from_slice(ascii);
        // This text rarely has an ASCII byte between two others, so do not look for a new run of ASCII after each byte.
        let end = rest.iter().position(u8::is_ascii).unwrap_or(rest.len());
        let (others, rest) = rest.split_at(end);
        others.iter().for_each(|byte| push(upper(*byte).and_then(|code| char::from_u32(code.into())), out));
        bytes = rest;
    }
}

/// The characters of a charset of single bytes, by byte. Empty for any other.
fn single_characters(charset: Charset) -> Vec<char> {
    let Charset::Single(upper) = charset else { return Vec::new() };
    let ascii = (0..0x80_u8).map(char::from);
    let others = upper.iter().map(|code| char::from_u32((*code).into()).unwrap_or(NO_CHARACTER));
    ascii.chain(others).collect()
}

const fn swe7(byte: u8) -> Option<char> {
    Some(match byte {
        b'@' => 'É',
        b'[' => 'Ä',
        b'\\' => 'Ö',
        b']' => 'Å',
        b'^' => 'Ü',
        b'`' => 'é',
        b'{' => 'ä',
        b'|' => 'ö',
        b'}' => 'å',
        b'~' => 'ü',
        0..=0x7E => byte as char,
        _ => return None,
    })
}

fn utf16(bytes: &[u8], out: &mut Vec<u8>, unit: impl Fn([u8; 2]) -> u16) {
    units(bytes, out, &unit, |units, out| {
        char::decode_utf16(units.iter().map(|bytes| unit(*bytes))).for_each(|character| push(character.ok(), out));
    });
}

/// Copies ASCII in runs and leaves runs of other units to `others`. No character has units of both kinds.
fn units(bytes: &[u8], out: &mut Vec<u8>, unit: impl Fn([u8; 2]) -> u16, others: impl Fn(&[[u8; 2]], &mut Vec<u8>)) {
    /// Units tested together: a vector's worth.
    const TOGETHER: usize = 16;
    let is_ascii = |bytes: &[u8; 2]| unit(*bytes) < 0x80;
    let (mut units, rest) = bytes.as_chunks::<2>();
    while !units.is_empty() {
        let all = units.as_chunks::<TOGETHER>().0.iter();
        let whole =
            all.take_while(|some| some.iter().fold(0, |bits, bytes| bits | unit(*bytes)) < 0x80).count() * TOGETHER;
        let tail = units.get(whole..).unwrap_or_default();
        let (ascii, more) =
            units.split_at(whole + tail.iter().position(|bytes| !is_ascii(bytes)).unwrap_or(tail.len()));
        out.extend(ascii.iter().map(|bytes| unit(*bytes) as u8));
        let (run, more) = more.split_at(more.iter().position(is_ascii).unwrap_or(more.len()));
        others(run, out);
        units = more;
    }
    if !rest.is_empty() {
        push(None, out);
    }
}

impl Multi {
    fn encoding(self) -> &'static Encoding {
        match self {
            Self::Big5 => encoding_rs::BIG5,
            Self::Cp932 | Self::Sjis => encoding_rs::SHIFT_JIS,
            Self::EucJpMs | Self::Ujis => encoding_rs::EUC_JP,
            Self::EucKr => encoding_rs::EUC_KR,
            Self::Gb18030 => encoding_rs::GB18030,
            Self::Gb2312 | Self::Gbk => encoding_rs::GBK,
        }
    }

    /// Codes that the servers read differently.
    const fn exceptions(self) -> &'static [(u32, u16)] {
        match self {
            Self::Big5 => &tables::BIG5,
            Self::Sjis => &tables::SJIS,
            Self::EucJpMs => &tables::EUCJPMS,
            Self::Ujis => &tables::UJIS,
            Self::Gb18030 => &tables::GB18030,
            Self::Gb2312 => &tables::GB2312,
            Self::Cp932 | Self::EucKr | Self::Gbk => &[],
        }
    }

    fn to_utf8(self, mut bytes: &[u8], out: &mut Vec<u8>) {
        if self.exceptions().is_empty() {
            let (text, _) = self.encoding().decode_without_bom_handling(bytes);
            return out.extend_from_slice(text.as_bytes());
        }
        while !bytes.is_empty() {
            let (run, rest) = bytes.split_at(self.run(bytes));
            match self.encoding().decode_without_bom_handling_and_without_replacement(run) {
                Some(text) => out.extend_from_slice(text.as_bytes()),
                // The decoder may resume in the middle of what the servers count as one character.
                None => self.one_by_one(run, out),
            }
            let (ascii, others) = rest.split_at(Encoding::ascii_valid_up_to(rest));
            out.extend_from_slice(ascii);
            let (character, rest) = others.split_at(self.length(others).min(others.len()));
            self.character(character, out);
            bytes = rest;
        }
    }

    /// Bytes of the characters at the start of `bytes` that `encoding_rs` reads as the servers do, if all of them exist.
    fn run(self, bytes: &[u8]) -> usize {
        let mut len = 0;
        while let Some((rest, &first)) = bytes.get(len..).and_then(|rest| Some((rest, rest.first()?))) {
            if first.is_ascii() {
                len += Encoding::ascii_valid_up_to(rest);
                continue;
            }
            let Some(character) = rest.get(..self.length(rest)) else { break };
            if !self.is_character(character) || self.own(code(character)).is_some() {
                break;
            }
            len += character.len();
        }
        len
    }

    /// Whether `encoding_rs`, if it accepts the bytes at all, reads them as one character.
    const fn is_character(self, bytes: &[u8]) -> bool {
        match self {
            Self::Sjis => matches!(bytes, [0xA1..=0xDF] | [0x81..=0x9F | 0xE0..=0xFC, 0x40..=0xFF]),
            Self::Gb18030 => matches!(bytes, [0x81..=0xFE, ..]),
            // Its GBK reads digits in the second place as GB18030 does, and 0x80 as the sign of the euro.
            _ => matches!(bytes, [0x81..=0xFE, 0x40..=0xFF, ..]),
        }
    }

    fn one_by_one(self, mut bytes: &[u8], out: &mut Vec<u8>) {
        while !bytes.is_empty() {
            let (ascii, rest) = bytes.split_at(Encoding::ascii_valid_up_to(bytes));
            out.extend_from_slice(ascii);
            let (character, rest) = rest.split_at(self.length(rest).min(rest.len()));
            self.character(character, out);
            bytes = rest;
        }
    }

    /// Length in bytes of the character that starts here, which is not ASCII.
    fn length(self, bytes: &[u8]) -> usize {
        match (self, bytes) {
            (_, []) => 0,
            (Self::Sjis | Self::Cp932, [0xA0..=0xDF, ..]) => 1,
            (Self::Ujis | Self::EucJpMs, [0x8F, ..]) => 3,
            (Self::Gb18030, [_, b'0'..=b'9', ..]) => 4,
            _ => 2,
        }
    }

    /// The character that the servers read in this code, or `Some(None)` if they read none, where `encoding_rs` does otherwise.
    fn own(self, code: u32) -> Option<Option<char>> {
        let exceptions = self.exceptions();
        if let Ok(at) = exceptions.binary_search_by_key(&code, |(code, _)| *code) {
            return Some(exceptions.get(at).and_then(|(_, character)| char::from_u32((*character).into())));
        }
        let is_euc = matches!(self, Self::Ujis | Self::EucJpMs);
        if is_euc { user_defined(code).map(Some) } else { None }
    }

    fn character(self, bytes: &[u8], out: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        if let Some(own) = self.own(code(bytes)) {
            return push(own, out);
        }
        let (text, is_none) = self.encoding().decode_without_bom_handling(bytes);
        if is_none { push(None, out) } else { out.extend_from_slice(text.as_bytes()) }
    }
}

/// The bytes of a character as one number.
fn code(character: &[u8]) -> u32 {
    character.iter().fold(0, |code: u32, byte| code << 8 | u32::from(*byte))
}

/// Ten rows at the end of both planes of EUC-JP are for user-defined characters.
fn user_defined(code: u32) -> Option<char> {
    let (row, cell) = (code >> 8 & 0xFF, code & 0xFF);
    let plane = match code >> 16 {
        0 => 0xE000,
        0x8F => 0xE3AC,
        _ => return None,
    };
    let is_own = (0xF5..=0xFE).contains(&row) && (0xA1..=0xFE).contains(&cell);
    if is_own { char::from_u32(plane + (row - 0xF5) * 94 + (cell - 0xA1)) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Multi::{Big5, EucJpMs, Gb2312, Gb18030, Sjis, Ujis};
    use proptest::prelude::*;

    /// Every other byte is likely to belong to a character; the rest is anything.
    fn text() -> impl Strategy<Value = Vec<u8>> {
        let pair = [0x81..=0xFE_u8, 0x30..=0xFE].prop_map(|pair| pair.to_vec());
        let piece = prop_oneof![
            4 => pair,
            2 => "[ -~]{1,20}".prop_map(String::into_bytes),
            1 => any::<[u8; 1]>().prop_map(|byte| byte.to_vec()),
            1 => Just(vec![0x8F, 0xA2, 0xB7]),
            1 => Just(vec![0x81, 0x5F]),
        ];
        proptest::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn runs_are_read_as_their_characters_are_one_by_one(bytes in text()) {
            for multi in [Big5, EucJpMs, Gb18030, Gb2312, Sjis, Ujis] {
                let (mut runs, mut singles) = (Vec::new(), Vec::new());
                multi.to_utf8(&bytes, &mut runs);
                multi.one_by_one(&bytes, &mut singles);
                prop_assert_eq!(runs, singles, "{:?}", multi);
            }
        }
    }

    proptest! {
        #[test]
        fn runs_of_units_are_read_as_their_characters_are_one_by_one(
            units in proptest::collection::vec(prop_oneof![3 => 0x20_u16..0x80, 1 => any::<u16>(), 1 => 0xD800..=0xDFFF_u16], 0..80),
            is_odd: bool,
        ) {
            let characters = char::decode_utf16(units.iter().copied()).map(|unit| unit.unwrap_or(NO_CHARACTER));
            let expected: String = characters.chain(is_odd.then_some(NO_CHARACTER)).collect();
            let bytes = |bytes: fn(u16) -> [u8; 2]| {
                units.iter().flat_map(|unit| bytes(*unit)).chain(is_odd.then_some(0)).collect::<Vec<u8>>()
            };
            for (charset, bytes) in [(Charset::Utf16, bytes(u16::to_be_bytes)), (Charset::Utf16Le, bytes(u16::to_le_bytes))] {
                let mut out = Vec::new();
                charset.to_utf8(&bytes, &mut out);
                prop_assert_eq!(&String::from_utf8_lossy(&out), &expected);
            }
            let mut out = Vec::new();
            Charset::Ucs2.to_utf8(&bytes(u16::to_be_bytes), &mut out);
            let single = |unit: &u16| char::from_u32((*unit).into()).unwrap_or(NO_CHARACTER);
            let expected: String = units.iter().map(single).chain(is_odd.then_some(NO_CHARACTER)).collect();
            prop_assert_eq!(&String::from_utf8_lossy(&out), &expected);
        }
    }

    #[test]
    fn sound_text_is_one_run_up_to_a_character_that_the_servers_read_otherwise() {
        let (text, _, is_lossy) = encoding_rs::SHIFT_JIS.encode("日本語 text テキスト");
        assert!(!is_lossy);
        assert_eq!(Sjis.run(&text), text.len());
        let dash = [&text[..], &[0x81, 0x7C], &text[..]].concat();
        assert_eq!(Sjis.run(&dash), text.len());
        let mut out = Vec::new();
        Sjis.to_utf8(&dash, &mut out);
        assert_eq!(String::from_utf8_lossy(&out), "日本語 text テキスト\u{2212}日本語 text テキスト");
    }
}
