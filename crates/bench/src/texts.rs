//! What converting text to UTF-8 costs, charset by charset. Values are as long as those of a column: the cost of starting each counts.

use std::hint::black_box;

use encoding_rs::{GBK, SHIFT_JIS};
use format::charset::Charset;

/// Bytes of a value in its charset; values fill every page.
const VALUE_LEN: usize = 128;
const ENGLISH: &str = "The quick brown fox jumps over the lazy dog, and 1,234 more of them follow at 10:30. ";
const FRENCH: &str = "Dès Noël, où un zéphyr haï me vêt de glaçons würmiens, je dîne d'exquis rôtis de boeuf. ";
const CHINESE: &str = "数据库的页面在磁盘上，恢复日志记录每一次修改。InnoDB 备份之后再检查。";
const JAPANESE: &str = "データベースのページを検査し、バックアップから行を読む。InnoDB の表です。";

/// A text in its charset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Text {
    English,
    French,
    EnglishUtf16,
    ChineseUtf16,
    Chinese,
    Japanese,
}

/// One way to convert a text.
pub(super) struct TextKernel {
    pub name: &'static str,
    pub path: &'static str,
    /// Whether innokit takes this way.
    pub taken: bool,
    pub text: Text,
    /// Appends a value to the output as UTF-8.
    pub convert: fn(&[u8], &mut Vec<u8>),
}

impl Text {
    /// A value: as much of the text as fits, and spaces.
    fn value(self) -> [u8; VALUE_LEN] {
        let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<u8>>();
        let encoded = |character: &str| match self {
            Self::English => character.as_bytes().to_vec(),
            Self::French => character.chars().map(|character| u8::try_from(character).unwrap_or(b'?')).collect(),
            Self::EnglishUtf16 | Self::ChineseUtf16 => utf16(character),
            Self::Chinese => GBK.encode(character).0.into_owned(),
            Self::Japanese => SHIFT_JIS.encode(character).0.into_owned(),
        };
        let text = match self {
            Self::English | Self::EnglishUtf16 => ENGLISH,
            Self::French => FRENCH,
            Self::Chinese | Self::ChineseUtf16 => CHINESE,
            Self::Japanese => JAPANESE,
        };
        let spaces = std::iter::repeat(encoded(" "));
        let characters = text.chars().cycle().map(|character| encoded(character.encode_utf8(&mut [0; 4])));
        let mut value = Vec::with_capacity(VALUE_LEN);
        for (character, space) in characters.zip(spaces) {
            let next = if value.len() + character.len() <= VALUE_LEN { character } else { space };
            value.extend(next);
            if value.len() >= VALUE_LEN {
                break;
            }
        }
        value.try_into().unwrap_or([b' '; VALUE_LEN])
    }

    /// Fills `bytes` with values.
    pub fn fill(self, bytes: &mut [u8]) {
        let value = self.value();
        bytes.as_chunks_mut().0.fill(value);
    }
}

/// Converts all values of all pages; the sum of the outputs' lengths.
pub(super) fn sum(convert: fn(&[u8], &mut Vec<u8>), bytes: &[u8], page_size: usize) -> u32 {
    let mut out = Vec::with_capacity(page_size * 2);
    bytes.chunks(page_size).fold(0, |all, page| {
        out.clear();
        page.chunks(VALUE_LEN).for_each(|value| convert(black_box(value), &mut out));
        all + u32::try_from(black_box(&out).len()).unwrap_or(u32::MAX)
    })
}

/// Every conversion by every way, innokit's last.
pub(super) fn all() -> Vec<TextKernel> {
    let row = |name, path, taken, text, convert| TextKernel { name, path, taken, text, convert };
    let own = |name, path, text, convert| row(name, path, true, text, convert);
    let plain = |name, path, text, convert| row(name, path, false, text, convert);
    vec![
        plain("latin1, English, to UTF-8", CHARACTERS, Text::English, latin1),
        own("latin1, English, to UTF-8", RUNS, Text::English, |value, out| of(LATIN1).to_utf8(value, out)),
        plain("latin1, French, to UTF-8", CHARACTERS, Text::French, latin1),
        own("latin1, French, to UTF-8", RUNS, Text::French, |value, out| of(LATIN1).to_utf8(value, out)),
        plain("utf16, English, to UTF-8", CHARACTERS, Text::EnglishUtf16, utf16),
        own("utf16, English, to UTF-8", RUNS_OF_UNITS, Text::EnglishUtf16, |value, out| of(UTF16).to_utf8(value, out)),
        plain("utf16, Chinese, to UTF-8", CHARACTERS, Text::ChineseUtf16, utf16),
        own("utf16, Chinese, to UTF-8", RUNS_OF_UNITS, Text::ChineseUtf16, |value, out| of(UTF16).to_utf8(value, out)),
        plain("gbk, Chinese, to UTF-8", DECODERS, Text::Chinese, |value, out| each_decoded(GBK, value, out)),
        own("gbk, Chinese, to UTF-8", "encoding_rs", Text::Chinese, |value, out| of(GBK_COLLATION).to_utf8(value, out)),
        plain("sjis, Japanese, to UTF-8", DECODERS, Text::Japanese, |value, out| each_decoded(SHIFT_JIS, value, out)),
        own("sjis, Japanese, to UTF-8", "encoding_rs, run by run", Text::Japanese, |value, out| {
            of(SJIS).to_utf8(value, out);
        }),
    ]
}

const CHARACTERS: &str = "portable: character by character";
const DECODERS: &str = "encoding_rs, character by character";
const RUNS_OF_UNITS: &str = "runs of ASCII by vectors, others one by one";
const RUNS: &str = "runs of ASCII by vectors, others by table";
/// `latin1_swedish_ci`, `utf16_general_ci`, `gbk_chinese_ci`, `sjis_japanese_ci`.
const LATIN1: u16 = 8;
const UTF16: u16 = 54;
const GBK_COLLATION: u16 = 28;
const SJIS: u16 = 13;

fn of(collation: u16) -> Charset {
    Charset::of(black_box(collation))
}

fn push(character: char, out: &mut Vec<u8>) {
    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
}

fn latin1(value: &[u8], out: &mut Vec<u8>) {
    value.iter().for_each(|byte| push(char::from(*byte), out));
}

fn utf16(value: &[u8], out: &mut Vec<u8>) {
    let units = value.as_chunks::<2>().0.iter().map(|unit| u16::from_be_bytes(*unit));
    char::decode_utf16(units).for_each(|character| push(character.unwrap_or(char::REPLACEMENT_CHARACTER), out));
}

/// What it costs to ask for each character of one or two bytes by itself.
fn each_decoded(encoding: &'static encoding_rs::Encoding, mut value: &[u8], out: &mut Vec<u8>) {
    while let [first, ..] = value {
        let len = if first.is_ascii() { 1 } else { 2 };
        let (character, rest) = value.split_at(len.min(value.len()));
        out.extend_from_slice(encoding.decode_without_bom_handling(character).0.as_bytes());
        value = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_of_one_conversion_have_one_result_which_is_the_text() {
        for kernel in all() {
            let (value, mut out) = (kernel.text.value(), Vec::new());
            (kernel.convert)(&value, &mut out);
            let text = String::from_utf8(out).unwrap_or_default();
            let source = match kernel.text {
                Text::English | Text::EnglishUtf16 => ENGLISH,
                Text::French => FRENCH,
                Text::Chinese | Text::ChineseUtf16 => CHINESE,
                Text::Japanese => JAPANESE,
            };
            let repeated = source.repeat(3);
            assert!(text.trim_end().len() > 50, "{}: {text}", kernel.name);
            assert!(repeated.starts_with(text.trim_end()), "{}, {}: {text}", kernel.name, kernel.path);
        }
    }
}
