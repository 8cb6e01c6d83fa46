//! Converts text of every charset the servers know to UTF-8.
//!
//! ```text
//! collation number -> Charset -> to_utf8: runs of ASCII by vector instructions, the rest by table or by `encoding_rs`
//! ```
//!
//! A byte sequence that is not a character of its charset becomes U+FFFD, where the servers print a question mark. UTF-8 is copied
//! unchanged, even if a client stored bytes that are not valid UTF-8.

mod tables;

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
        match super::schema::charset::character_bytes(collation) {
            (1, 1) => Self::single(collation),
            (1, 3 | 4) => match collation {
                97 | 98 | 1121 | 1122 => Self::Multi(Multi::EucJpMs),
                12 | 91 | 1036 | 1115 => Self::Multi(Multi::Ujis),
                248..=250 => Self::Multi(Multi::Gb18030),
                _ => Self::Utf8,
            },
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
            Self::Ucs2 => {
                let (characters, rest) = bytes.as_chunks::<2>();
                characters.iter().for_each(|code| push(char::from_u32(u16::from_be_bytes(*code).into()), out));
                if !rest.is_empty() {
                    push(None, out);
                }
            }
            Self::Utf16 => utf16(bytes, out, u16::from_be_bytes),
            Self::Utf16Le => utf16(bytes, out, |[low, high]| u16::from_be_bytes([high, low])),
            Self::Utf32 => {
                let (characters, rest) = bytes.as_chunks::<4>();
                characters.iter().for_each(|code| push(char::from_u32(u32::from_be_bytes(*code)), out));
                if !rest.is_empty() {
                    push(None, out);
                }
            }
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
    let (units, rest) = bytes.as_chunks::<2>();
    char::decode_utf16(units.iter().map(|bytes| unit(*bytes))).for_each(|character| push(character.ok(), out));
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

    fn character(self, bytes: &[u8], out: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let code = bytes.iter().fold(0, |code: u32, byte| code << 8 | u32::from(*byte));
        let exceptions = self.exceptions();
        if let Ok(at) = exceptions.binary_search_by_key(&code, |(code, _)| *code) {
            return push(exceptions.get(at).and_then(|(_, character)| char::from_u32((*character).into())), out);
        }
        if let (Self::Ujis | Self::EucJpMs, Some(own)) = (self, user_defined(code)) {
            return push(Some(own), out);
        }
        let (text, is_none) = self.encoding().decode_without_bom_handling(bytes);
        if is_none { push(None, out) } else { out.extend_from_slice(text.as_bytes()) }
    }
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
