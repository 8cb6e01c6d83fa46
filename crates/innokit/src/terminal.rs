//! The only door to standard output and standard error.
//!
//! Names, notes and versions in a set of files are chosen by those who made the set, and messages quote them. So everything that is printed
//! passes through [`Shown`], which escapes what would steer a terminal: a forgotten [`shown`] at one name then costs nothing but a newline in
//! a report. Only [`data`], which carries rows, SQL and streams to programs, leaves bytes as they are, unless it is a terminal.
//!
//! A line that could not be written is remembered, because a caller that relies on the exit status must not take silence for "all well".

use std::borrow::Cow;
use std::io::{self, BufWriter, IsTerminal, StderrLock, Stdout, Write};
use std::sync::OnceLock;

use format::printable::{is_printable, printable};

/// A name on one line: the form for text out of a set within a line of a report.
pub fn shown(text: &str) -> Cow<'_, str> {
    printable(text)
}

/// Standard output for people: reports.
pub type Screen = Shown<BufWriter<Out>>;

/// Standard output for a report, buffered: flush it at the end.
pub fn out() -> Screen {
    Shown::new(BufWriter::new(Out(io::stdout())), Form::Text)
}

/// Standard error.
pub fn err() -> Shown<StderrLock<'static>> {
    Shown::new(io::stderr().lock(), Form::Text)
}

/// Standard output for data: rows, SQL, streams. A terminal gets them escaped, as reports are; a program gets the bytes.
pub fn data() -> Box<dyn Write + Send> {
    let stdout = io::stdout();
    if stdout.is_terminal() { Box::new(Shown::new(Out(stdout), Form::Text)) } else { Box::new(Out(stdout)) }
}

/// Tells the operator something on standard error, on one line. If standard error is gone, the status still tells.
pub fn say(message: &str) {
    drop(writeln!(err(), "innokit: {}", shown(message)));
}

/// Whether standard output leads nowhere. Rust's standard library takes writes to it for successful.
pub fn is_closed() -> bool {
    matches!(rustix::io::fcntl_getfd(io::stdout()), Err(rustix::io::Errno::BADF))
}

/// Why something that was printed on standard output is lost, if so.
pub fn lost() -> Option<&'static (io::ErrorKind, String)> {
    LOST.get()
}

static LOST: OnceLock<(io::ErrorKind, String)> = OnceLock::new();

/// Standard output, which remembers the first failure.
pub struct Out(Stdout);

impl Out {
    fn noted<T>(done: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &done
            && error.kind() != io::ErrorKind::Interrupted
        {
            // Only the first failure matters.
            drop(LOST.set((error.kind(), error.to_string())));
        }
        done
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Self::noted(self.0.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Self::noted(self.0.flush())
    }
}

/// How an escape is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `\u{202e}`.
    Text,
    /// `\u202e`, which JSON reads back as the character. Outside its strings JSON has nothing to escape.
    Json,
}

/// A writer of text that escapes every character which would not only show itself. Newlines and tabs pass.
pub struct Shown<W: Write> {
    inner: W,
    form: Form,
    /// The start of a character whose end has not been written yet: at most three bytes.
    begun: Vec<u8>,
}

impl<W: Write> Shown<W> {
    const fn new(inner: W, form: Form) -> Self {
        Self { inner, form, begun: Vec::new() }
    }

    /// For a JSON document, which stays one.
    pub const fn json(inner: W) -> Self {
        Self::new(inner, Form::Json)
    }

    /// Writes data for a program, as it is, between the lines of a report: `innochecksum --write -` prints pages and lines alike.
    pub fn write_raw(&mut self, data: &[u8]) -> io::Result<()> {
        self.inner.write_all(data)
    }

    fn text(&mut self, text: &str) -> io::Result<()> {
        let passes = |letter: char| is_printable(letter) || matches!(letter, '\n' | '\t');
        let mut rest = text;
        while let Some(at) = rest.find(|letter| !passes(letter)) {
            let (before, from) = rest.split_at(at);
            self.inner.write_all(before.as_bytes())?;
            let mut letters = from.chars();
            if let Some(letter) = letters.next() {
                match self.form {
                    Form::Text => write!(self.inner, "{}", letter.escape_default())?,
                    // All of them have four digits at most.
                    Form::Json => write!(self.inner, "\\u{:04x}", u32::from(letter))?,
                }
            }
            rest = letters.as_str();
        }
        self.inner.write_all(rest.as_bytes())
    }
}

impl<W: Write> Write for Shown<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let begun = std::mem::take(&mut self.begun);
        let all = if begun.is_empty() { Cow::Borrowed(bytes) } else { Cow::Owned([&begun, bytes].concat()) };
        let mut chunks = all.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            self.text(chunk.valid())?;
            let broken = chunk.invalid();
            let may_go_on =
                chunks.peek().is_none() && std::str::from_utf8(broken).is_err_and(|error| error.error_len().is_none());
            if may_go_on {
                self.begun = broken.to_vec();
            } else {
                broken.iter().try_for_each(|byte| write!(self.inner, "\\x{byte:02x}"))?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// A screen for reports, on which our own words may have a colour.
pub trait Paint: Write {
    /// Writes words of innokit's, in red if the screen is a terminal and the user did not disable colours (no-color.org). Never text of a set.
    fn alarm(&mut self, words: &'static str) -> io::Result<()>;
}

impl<W: Write> Paint for Shown<W> {
    fn alarm(&mut self, words: &'static str) -> io::Result<()> {
        let is_red = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        if is_red { write!(self.inner, "\x1b[1;31m{words}\x1b[0m") } else { self.inner.write_all(words.as_bytes()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(form: Form, pieces: &[&[u8]]) -> String {
        let mut out = Shown::new(Vec::new(), form);
        pieces.iter().for_each(|piece| out.write_all(piece).expect("memory"));
        String::from_utf8(out.inner).expect("UTF-8")
    }

    #[test]
    fn nothing_that_steers_a_terminal_passes_the_door() {
        assert_eq!(through(Form::Text, &["a\tb\nß\x1b[2J\u{202e}".as_bytes()]), "a\tb\nß\\u{1b}[2J\\u{202e}");
        assert_eq!(through(Form::Json, &["\"ß\u{9b}\u{61c}\"".as_bytes()]), "\"ß\\u009b\\u061c\"");
        // A character may come in two pieces, as a buffer is full in the middle of it.
        assert_eq!(through(Form::Text, &[b"\xe2\x80", b"\xaex\xc3", b"\x9f"]), "\\u{202e}xß");
        assert_eq!(through(Form::Text, &[b"a\x9bb\xff"]), "a\\x9bb\\xff");
    }

    #[test]
    fn a_document_reads_the_same_behind_the_door() {
        let name = "t\u{202e}\u{7f}\u{85}\n\x1b";
        let text = serde_json::to_string(name).expect("JSON");
        let behind = through(Form::Json, &[text.as_bytes()]);
        assert!(behind.is_ascii() && behind != text, "{behind}");
        assert_eq!(serde_json::from_str::<String>(&behind).expect("JSON"), name);
    }
}
