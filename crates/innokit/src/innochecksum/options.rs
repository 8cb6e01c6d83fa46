//! The command line, by the rules of the originals' option parser: exact names (`_` equals `-`), prefixes such as `--skip-`, clusters of
//! letters, `--name=value` and `--name value`, and options anywhere between file names.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use recovery::innochecksum::ChecksumKind;

use super::fault::Fault;
use super::numbers;

/// The program's name when it replaces the original.
pub const NAME: &str = "innochecksum";

/// The checksum with this name, or with this number, which the original also accepts.
fn parse_checksum(text: &str) -> Option<ChecksumKind> {
    let all = ChecksumKind::ALL;
    let by_name = all.into_iter().find(|checksum| checksum.name().eq_ignore_ascii_case(text));
    // Each has two numbers: the original also counts the strict forms, which it does not accept by name.
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    by_name.or_else(|| all.get(text.parse::<usize>().ok().filter(|_| digits)? / 2).copied())
}

/// What a run should do.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `-v`
    pub verbose: bool,
    /// `-c`
    pub count: bool,
    /// `-s`
    pub start: u64,
    /// `-e`
    pub end: u64,
    /// Whether an end was given.
    pub use_end: bool,
    /// `-p`: only for display; start and end already include it.
    pub page: u64,
    /// Whether `-p` was given.
    pub one_page: bool,
    /// `-C`
    pub strict: Option<ChecksumKind>,
    /// `-n`
    pub no_check: bool,
    /// `-a`
    pub allow: u64,
    /// `-w`
    pub write: Option<ChecksumKind>,
    /// `-S`
    pub summary: bool,
    /// `-D`
    pub dump: Option<PathBuf>,
    /// `-l`
    pub log: Option<PathBuf>,
    /// `-i`, of MariaDB's tool.
    pub per_page: bool,
    /// `-f`, of MariaDB's tool.
    pub leaf: bool,
    /// `-m`, of MariaDB's tool.
    pub merge: u64,
    /// `-r`, of MariaDB's tool.
    pub skip_freed: bool,
    /// `--tablespace-flags`, of MariaDB's tool.
    pub flags: Option<u32>,
    /// The files to examine, in order.
    pub files: Vec<PathBuf>,
}

impl Options {
    /// The conflict between options that exclude each other, checked in the original's order.
    pub fn conflict(&self) -> Option<Fault> {
        if self.strict.is_some() && self.no_check {
            Some(Fault::StrictWithoutCheck)
        } else if self.no_check && self.write.is_none() {
            Some(Fault::NoCheckAlone)
        } else {
            None
        }
    }
}

/// The parsed command line.
#[derive(Debug)]
pub struct Parsed {
    /// Warnings and errors, for standard error.
    pub lines: Vec<String>,
    /// What to do.
    pub request: Request,
}

/// What to do.
#[derive(Debug)]
pub enum Request {
    /// Nothing: the last line says why.
    Refused,
    /// `-V`
    Version,
    /// `-?`
    Help,
    /// Help, because no file was named.
    NoFiles,
    /// Examine the files.
    Run(Box<Options>),
}

/// What kind of value an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionKind {
    /// None: the option ends the parsing.
    Now,
    /// On or off.
    Flag,
    /// An unsigned number.
    Number,
    /// A [`ChecksumKind`].
    Checksum,
    /// A file name.
    Text,
}

/// One option: its letter (NUL if none), its name as in the original's messages, its kind and its help.
pub type Definition = (char, &'static str, OptionKind, &'static str);

/// MySQL's options in MySQL's order, then those of MariaDB's tool only.
pub const DEFINITIONS: [Definition; 19] = [
    ('?', "help", OptionKind::Now, "Show this and exit."),
    ('I', "info", OptionKind::Now, "The same as --help."),
    ('V', "version", OptionKind::Now, "Show the version and exit."),
    ('v', "verbose", OptionKind::Flag, "Show the options in force; with --log also the progress."),
    ('c', "count", OptionKind::Flag, "Only say how many pages the file has."),
    ('s', "start_page", OptionKind::Number, "First page to look at, from 0."),
    ('e', "end_page", OptionKind::Number, "Last page to look at, from 0."),
    ('p', "page", OptionKind::Number, "Look at this page alone, from 0."),
    (
        'C',
        "strict-check",
        OptionKind::Checksum,
        "Warn of pages with another checksum than this: crc32, innodb or none.",
    ),
    ('n', "no-check", OptionKind::Flag, "Do not verify, only rewrite (with --write)."),
    ('a', "allow-mismatches", OptionKind::Number, "Go on until more pages than this are corrupt."),
    ('w', "write", OptionKind::Checksum, "Rewrite the checksums of all pages: crc32, innodb or none."),
    ('S', "page-type-summary", OptionKind::Flag, "Count the pages of each type."),
    ('D', "page-type-dump", OptionKind::Text, "Write the type of each page into this file."),
    ('l', "log", OptionKind::Text, "Write what was computed for each page into this file."),
    (
        'i',
        "per-page-details",
        OptionKind::Flag,
        "MariaDB: name each page; with -S also each index page's records and bytes.",
    ),
    ('f', "leaf", OptionKind::Flag, "MariaDB: with -S and -m, say what merging leaf pages would save."),
    ('m', "merge", OptionKind::Number, "MariaDB: how many neighbouring leaf pages to merge for -f."),
    ('r', "skip-freed-pages", OptionKind::Flag, "MariaDB: leave out pages that the extent descriptors call free."),
];
/// MariaDB's last option, which has no letter.
pub const TABLESPACE_FLAGS: Definition =
    ('\0', "tablespace-flags", OptionKind::Number, "MariaDB: flags of the tablespace, where the file has no page 0.");

/// Reads the arguments after the program's name.
pub fn parse(program: &str, arguments: &[OsString]) -> Parsed {
    let mut parser = Parser { program, lines: Vec::new(), options: Options::default(), rest: arguments };
    let request = match parser.all() {
        Ok(()) if parser.options.files.is_empty() => Request::NoFiles,
        Ok(()) => Request::Run(Box::new(parser.options)),
        Err(Stop::Refused) => Request::Refused,
        Err(Stop::Now('V')) => Request::Version,
        Err(Stop::Now(_)) => Request::Help,
    };
    Parsed { lines: parser.lines, request }
}

/// Why the remaining arguments are not read.
enum Stop {
    Refused,
    Now(char),
}

struct Parser<'a> {
    program: &'a str,
    lines: Vec<String>,
    options: Options,
    rest: &'a [OsString],
}

/// The effect of a prefix on an option.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Prefix {
    Plain,
    Off,
    On,
    Loose,
}

const PREFIXES: [(&str, Prefix); 5] = [
    ("skip-", Prefix::Off),
    ("disable-", Prefix::Off),
    ("enable-", Prefix::On),
    ("maximum-", Prefix::Plain),
    ("loose-", Prefix::Loose),
];

impl Parser<'_> {
    fn all(&mut self) -> Result<(), Stop> {
        while let Some(argument) = self.next() {
            match argument.as_bytes() {
                b"--" => {
                    let files = std::mem::take(&mut self.rest);
                    self.options.files.extend(files.iter().map(PathBuf::from));
                }
                [b'-', b'-', name @ ..] => self.long(&OsString::from_vec(name.to_vec()))?,
                [b'-', letters @ ..] if !letters.is_empty() => self.letters(letters)?,
                _ => self.options.files.push(argument.into()),
            }
        }
        Ok(())
    }

    fn next(&mut self) -> Option<OsString> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first.clone())
    }

    fn long(&mut self, argument: &OsString) -> Result<(), Stop> {
        let whole = argument.to_string_lossy().into_owned();
        let (name, value) = match argument.as_bytes().iter().position(|&byte| byte == b'=') {
            Some(at) => {
                let (name, value) = argument.as_bytes().split_at(at);
                let value = value.strip_prefix(b"=").unwrap_or(value);
                (String::from_utf8_lossy(name).into_owned(), Some(OsString::from_vec(value.to_vec())))
            }
            None => (whole.clone(), None),
        };
        let (prefix, definition) = find_long(&name);
        let Some((letter, shown, kind, _)) = definition else {
            let what = if value.is_some() { format!("variable '{whole}'") } else { format!("option '--{whole}'") };
            let line = format!("unknown {what}.");
            return if prefix == Prefix::Loose { self.warn(&line) } else { self.refuse(&line) };
        };
        match kind {
            OptionKind::Now if value.is_some() || matches!(prefix, Prefix::Off | Prefix::On) => {
                self.refuse_here(&format!("option '--{shown}' cannot take an argument."))
            }
            OptionKind::Now => Err(Stop::Now(letter)),
            OptionKind::Flag => self.long_flag(shown, prefix, value.as_ref()),
            OptionKind::Number if prefix == Prefix::Off => self.number(shown, "0"),
            OptionKind::Number | OptionKind::Checksum if value.as_ref().is_some_and(|value| value.is_empty()) => {
                self.refuse_here(&format!("Empty value for '{shown}' specified."))
            }
            _ => {
                let missing = format!("option '--{shown}' requires an argument.");
                let value = value.or_else(|| self.next());
                self.value(shown, kind, value, &missing)
            }
        }
    }

    fn long_flag(&mut self, shown: &'static str, prefix: Prefix, value: Option<&OsString>) -> Result<(), Stop> {
        let text = value.map(|value| value.to_string_lossy().to_ascii_lowercase());
        let inverted = text.as_deref() == Some("0");
        let on = match (prefix, text.as_deref()) {
            (Prefix::Off, _) => inverted,
            (Prefix::On, _) => !inverted,
            (_, None | Some("1" | "on" | "true")) => true,
            (_, Some("0" | "off" | "false")) => false,
            (_, Some(_)) => {
                let value = value.map(|value| value.to_string_lossy()).unwrap_or_default();
                self.warn_here(&format!("ignoring option '--{shown}' due to invalid value '{value}'."))?;
                false
            }
        };
        self.flag(shown, on);
        Ok(())
    }

    fn letters(&mut self, letters: &[u8]) -> Result<(), Stop> {
        let mut letters = letters;
        while let Some((&letter, rest)) = letters.split_first() {
            let letter = char::from(letter);
            letters = rest;
            let Some((_, shown, kind, _)) = DEFINITIONS.into_iter().find(|definition| definition.0 == letter) else {
                return self.refuse_here(&format!("unknown option '-{letter}'."));
            };
            match kind {
                OptionKind::Now => return Err(Stop::Now(letter)),
                OptionKind::Flag => self.flag(shown, true),
                _ => {
                    let value = if rest.is_empty() { self.next() } else { Some(OsString::from_vec(rest.to_vec())) };
                    let missing = format!("option '-{letter}' requires an argument.");
                    return self.value(shown, kind, value, &missing);
                }
            }
        }
        Ok(())
    }

    fn flag(&mut self, name: &str, on: bool) {
        let options = &mut self.options;
        match name {
            "verbose" => options.verbose = on,
            "count" => options.count = on,
            // As in the original, its presence is enough.
            "no-check" => options.no_check = true,
            "page-type-summary" => options.summary = on,
            "per-page-details" => options.per_page = on,
            "leaf" => options.leaf = on,
            "skip-freed-pages" => options.skip_freed = on,
            _ => {}
        }
    }

    fn value(&mut self, name: &str, kind: OptionKind, value: Option<OsString>, missing: &str) -> Result<(), Stop> {
        let Some(value) = value else {
            return self.refuse_here(missing);
        };
        let text = value.to_string_lossy();
        match kind {
            OptionKind::Number => self.number(name, &text),
            OptionKind::Checksum => match parse_checksum(&text) {
                Some(checksum) if name == "write" => {
                    self.options.write = Some(checksum);
                    Ok(())
                }
                Some(checksum) => {
                    self.options.strict = Some(checksum);
                    Ok(())
                }
                None => self.refuse_here(&format!("Error while setting value '{text}' to '{name}'.")),
            },
            OptionKind::Text | OptionKind::Now | OptionKind::Flag => {
                let path = Some(PathBuf::from(&value)).filter(|path| !path.as_os_str().is_empty());
                if name == "log" {
                    self.options.log = path
                } else {
                    self.options.dump = path
                }
                Ok(())
            }
        }
    }

    fn number(&mut self, name: &str, text: &str) -> Result<(), Stop> {
        let value = match numbers::parse(text) {
            Ok(value) => value,
            Err(numbers::Bad::Negative) => {
                self.warn(&format!("option '{name}': value {text} adjusted to 0."))?;
                0
            }
            Err(bad) => {
                let why = match bad {
                    numbers::Bad::Suffix(suffix) => {
                        format!("Unknown suffix '{suffix}' used for variable '{name}' (value '{text}').")
                    }
                    _ => format!("Incorrect unsigned integer value: '{text}'."),
                };
                self.lines.push(format!("{NAME}: [ERROR] {why}"));
                return self.refuse_here(&format!("Error while setting value '{text}' to '{name}'."));
            }
        };
        self.set_number(name, value);
        Ok(())
    }

    fn set_number(&mut self, name: &str, value: u64) {
        let options = &mut self.options;
        match name {
            "start_page" => options.start = value,
            "end_page" => (options.end, options.use_end) = (value, true),
            "page" => {
                (options.page, options.start, options.end) = (value, value, value);
                (options.use_end, options.one_page) = (true, true);
            }
            "allow-mismatches" => options.allow = value,
            "merge" => options.merge = value,
            // The default of MariaDB's tool means "as in page 0".
            "tablespace-flags" => options.flags = u32::try_from(value).ok().filter(|&flags| flags != u32::MAX),
            _ => {}
        }
    }

    fn warn(&mut self, line: &str) -> Result<(), Stop> {
        self.lines.push(format!("{NAME}: [Warning] {line}"));
        Ok(())
    }

    fn warn_here(&mut self, line: &str) -> Result<(), Stop> {
        self.warn(&format!("{}: {line}", self.program))
    }

    fn refuse(&mut self, line: &str) -> Result<(), Stop> {
        self.lines.push(format!("{NAME}: [ERROR] {line}"));
        Err(Stop::Refused)
    }

    fn refuse_here(&mut self, line: &str) -> Result<(), Stop> {
        self.refuse(&format!("{}: {line}", self.program))
    }
}

fn find_long(name: &str) -> (Prefix, Option<Definition>) {
    let dashed = name.replace('_', "-");
    let find = |name: &str| {
        DEFINITIONS.into_iter().chain([TABLESPACE_FLAGS]).find(|definition| definition.1.replace('_', "-") == name)
    };
    if let Some(definition) = find(&dashed) {
        return (Prefix::Plain, Some(definition));
    }
    let found = PREFIXES.into_iter().find_map(|(text, prefix)| Some((prefix, dashed.strip_prefix(text)?)));
    found.map_or((Prefix::Plain, None), |(prefix, rest)| match find_long(rest) {
        (inner, definition) if prefix == Prefix::Loose => {
            (if definition.is_some() { inner } else { Prefix::Loose }, definition)
        }
        (_, definition) => (prefix, definition),
    })
}
